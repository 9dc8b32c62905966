"""Owns the check of an object against a JSON schema, as far as ours go, and stricter: a field that the schema does not know is a fault."""

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KNOWN = {"$schema", "title", "description", "type", "const", "enum", "minimum", "required", "properties", "items"}


def is_of(kind, value):
    if kind in ("integer", "number"):
        return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind])


def faults(schema, value, place="it"):
    """What is wrong with the value, one sentence each."""
    assert set(schema) <= KNOWN, f"{place}: this check knows nothing of {sorted(set(schema) - KNOWN)}"
    if "const" in schema and value != schema["const"]:
        return [f"{place} is {value!r} and not {schema['const']!r}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{place} is {value!r} and none of {schema['enum']}"]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_of(kind, value) for kind in kinds):
        return [f"{place} is {value!r} and no {' or '.join(kinds)}"]
    if "minimum" in schema and is_of("number", value) and value < schema["minimum"]:
        return [f"{place} is {value!r}, less than {schema['minimum']}"]
    found = []
    if isinstance(value, dict):
        found += [f"{place} lacks `{key}`" for key in schema.get("required", []) if key not in value]
        known = schema.get("properties", {})
        for key, inner in value.items():
            found += faults(known[key], inner, f"{place}.{key}") if key in known else [f"{place}.{key} is not in the schema"]
    if isinstance(value, list):
        for index, inner in enumerate(value):
            found += faults(schema["items"], inner, f"{place}[{index}]")
    return found
