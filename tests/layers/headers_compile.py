# Owns the check that each header compiles alone. Headers that reach CAF or torch take seconds each and are left to their own sources.
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from check_layers import CAF, TORCH, matches
from includes import Tree

HEADERS = ("messages/*.hpp", "kernels/*.hpp", "actors/*.hpp", "runtime/*.hpp", "cli/*.hpp")
# Highway's bodies: compiled once for each instruction set, by the one source that includes them for it.
BODIES = ("*-inl.hpp",)
# Of a compile command, only what changes the meaning of a header.
KEPT_PREFIXES = ("-I", "-D", "-std=", "-W")


def compiler_and_flags(build):
    """As the build uses them for a source of messages/: the includes and warnings of all first-party targets."""
    for entry in json.loads((Path(build) / "compile_commands.json").read_text(encoding="utf-8")):
        words = entry.get("arguments") or shlex.split(entry["command"])
        if "/messages/" not in entry["file"] or not entry["file"].endswith((".cpp", ".cxx")):
            continue
        compiler = next(word for word in words if os.path.basename(word).startswith(("c++", "g++", "clang++")))
        return compiler, [word for word in words if word.startswith(KEPT_PREFIXES)]
    raise SystemExit(f"{build}/compile_commands.json names no source of messages/")


def main():
    root, build = sys.argv[1:3]
    tree = Tree(root)
    compiler, flags = compiler_and_flags(build)
    heavy = CAF + TORCH
    headers = [path for path in tree.texts if matches(path, HEADERS) and not matches(path, BODIES) and not any(matches(name, heavy) for name in tree.reach(path))]

    def problem(path):
        run = subprocess.run([compiler, *flags, "-x", "c++", "-fsyntax-only", "-"], input=f'#include "{path}"\n', cwd=root,
                             capture_output=True, text=True, check=False)
        return f"{path} does not compile alone:\n{run.stderr}" if run.returncode else None

    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        problems = [text for text in pool.map(problem, headers) if text]
    print("\n".join(problems) if problems else f"{len(headers)} headers compile alone")
    return 1 if problems or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
