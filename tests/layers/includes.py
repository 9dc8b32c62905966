# Owns reading of #include lines: which first-party files exist, what each includes, and what it reaches through others.
import os
import re
from pathlib import Path

FLOORS = ("messages", "kernels", "actors", "runtime", "cli", "examples", "python", "tests")
SUFFIXES = {".hpp", ".h", ".cpp", ".cc", ".cu", ".cuh", ".def", ".inl"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


class Tree:
    """The sources below a root. Paths are relative to it, with forward slashes."""

    def __init__(self, root):
        self.root = Path(root)
        self.texts = {}
        for floor in FLOORS:
            for path in sorted(self.root.glob(f"{floor}/**/*")):
                if path.suffix in SUFFIXES and path.is_file():
                    self.texts[path.relative_to(self.root).as_posix()] = path.read_text(encoding="utf-8")
        self.includes = {path: list(self._includes_of(path, text)) for path, text in self.texts.items()}

    def _includes_of(self, path, text):
        """Yields (line number, first-party path or None, text of the include)."""
        for number, line in enumerate(text.splitlines(), start=1):
            match = INCLUDE.match(line)
            if match:
                yield number, self._resolve(path, match[1] or match[2], quoted=match[1] is not None), match[1] or match[2]

    def _resolve(self, includer, name, quoted):
        beside = os.path.normpath(os.path.join(os.path.dirname(includer), name))
        candidates = ([beside] if quoted else []) + [name, f"runtime/include/{name}"]
        for candidate in candidates:
            if candidate in self.texts:
                return candidate
        # A first-party path that does not exist still belongs to its floor: a wrong arrow stays wrong while its end is missing.
        return name if quoted and name.split("/")[0] in FLOORS else None

    def reach(self, path):
        """Everything that `path` includes, itself or through first-party files: {include text or first-party path: chain}."""
        found = {}
        pending = [(path, (path,))]
        visited = {path}
        while pending:
            current, chain = pending.pop()
            for _, target, name in self.includes.get(current, ()):
                found.setdefault(target or name, chain)
                if target and target not in visited:
                    visited.add(target)
                    pending.append((target, chain + (target,)))
        return found
