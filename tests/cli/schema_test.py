"""The schemas of what commands print: that there is one of each, and that they say what they are to say. What commands print is compared with
them wherever a test calls primectl (primectl.py)."""

import json
import re
import unittest

from primectl import SOURCE, check_schemas, faults, primectl, schema_of, temporary_directory

FOLDER = SOURCE / "manifests" / "schema" / "output"


class Schemas(unittest.TestCase):
    def setUp(self):
        directory = temporary_directory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def call(self, *arguments):
        return primectl(*arguments, state=self.directory)

    def test_each_object_that_a_command_prints_has_one(self):
        named = set()
        for folder in ("cli", "runtime"):
            for path in (SOURCE / folder).rglob("*.[ch]pp"):
                named |= set(re.findall(r'"(primectl\.[a-z_.]+/\d+)"', path.read_text()))
        self.assertEqual(sorted(named), sorted(json.loads(path.read_text())["properties"]["schema"]["const"] for path in FOLDER.glob("*.json")))

    def test_the_program_has_them_with_it(self):
        told = json.loads(self.call("schema", "-o", "json").stdout)
        shipped = {path.name.removesuffix(".v1.json"): path.read_text() for path in FOLDER.glob("*.json")}
        for name in ("run", "scenario"):
            shipped[name] = (SOURCE / "manifests" / "schema" / f"{name}.v1.json").read_text()
        self.assertEqual([schema["name"] for schema in told["schemas"]], sorted(shipped))
        for name, text in shipped.items():
            self.assertEqual(self.call("schema", name).stdout, text, name)
        self.assertEqual(self.call("schema", "primectl.status/1").stdout, shipped["status"])
        self.assertRegex(self.call("schema").stdout, r"\nstatus +primectl status -o json")
        done = self.call("schema", "stauts")
        self.assertEqual((done.returncode, "did you mean `status`?" in done.stderr), (2, True))

    def test_they_are_schemas(self):
        for path in FOLDER.glob("*.json"):
            schema = json.loads(path.read_text())
            self.assertEqual((schema["$schema"], schema["type"]), ("http://json-schema.org/draft-07/schema#", "object"), path.name)
            self.assertEqual(path.name, schema["properties"]["schema"]["const"].removeprefix("primectl.").replace("/", ".v") + ".json")
            self.assertLessEqual(set(schema["required"]), set(schema["properties"]))
        try:
            import jsonschema
        except ImportError:
            print("the package jsonschema is not here: what a draft-07 schema may have is not checked by it")
            return
        for path in FOLDER.glob("*.json"):
            jsonschema.Draft7Validator.check_schema(json.loads(path.read_text()))

    def test_what_differs_from_its_schema_is_found(self):
        good = json.loads(self.call("version", "-o", "json").stdout)
        schema = schema_of("primectl.version/1")
        self.assertEqual(faults(schema, good), [])
        without = {key: value for key, value in good.items() if key != "protocol"}
        for wrong, says in (({**good, "more": 1}, "it.more is not in the schema"), ({**good, "protocol": "1"}, "it.protocol is '1' and no integer"),
                            ({**good, "protocol": True}, "it.protocol is True and no integer"), ({**good, "protocol": -1}, "it.protocol is -1, less than 0"),
                            (without, "it lacks `protocol`"), ({**good, "schema": "primectl.version/2"}, "and not 'primectl.version/1'")):
            (found,) = faults(schema, wrong)
            self.assertIn(says, found)
        self.assertEqual(len(faults(schema_of("primectl.remove/1"), {"schema": "primectl.remove/1", "removed": [1, "a"], "kept": [{}]})), 3)
        with self.assertRaises(AssertionError):
            check_schemas(json.dumps({**good, "more": 1}) + "\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
