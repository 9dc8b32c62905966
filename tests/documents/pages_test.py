"""Every code block of every page: shells run on a stage (stage.py), YAML is validated, C++ is compiled, CMake is configured, Python runs. A comment
right before a block may say otherwise: `not run: REASON`, which is printed; `given: …`, what its reader has already, run or written before it.
PRIME_PAGE=README.md:36 runs the shells of that page, or that block, alone."""

import contextlib
import html
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import etcd  # noqa: E402
import namespaces  # noqa: E402
from blocks import blocks_of  # noqa: E402
from stage import BIN, SOURCE, Stage  # noqa: E402
from waiting import LIMIT_S  # noqa: E402

PAGES = sorted([*SOURCE.glob("*.md"), *SOURCE.glob("docs/*.md"), *SOURCE.glob("examples/**/*.md")])
OWN_TEST = "THREE-MACHINES.md"  # three_machines_test.py
TRAINER = os.environ["PRIME_TRAINER"] == "ON"
LANGUAGES = ("sh", "yaml", "cpp", "cmake", "python", "ini", "")  # without a name: a picture, or what a program prints


def blocks(*languages):
    return [block for page in PAGES for block in blocks_of(page, SOURCE) if block.language in languages]


def call(*words, cwd=None, env=None):
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def has_modules(*names):
    python = SOURCE / ".venv" / "bin" / "python"
    return python.exists() and call(python, "-c", f"import importlib.util as u; assert all(map(u.find_spec, {names}))")[0] == 0


class Pages(unittest.TestCase):
    def every(self, language, check):
        """`check(block)` for each block that is to run; the reasons of the others are shown."""
        found = blocks(language)
        self.assertTrue(found)
        for block in found:
            if OWN_TEST in block.page:
                continue
            with self.subTest(block.place):
                if block.word == "not run":
                    print(f"{block.place}: not run: {block.said}", flush=True)
                    self.assertGreater(len(block.said), 10, "a reason")
                else:
                    self.assertIn(block.word, ("", "given"), block.place)
                    check(block)

    def test_each_block_says_what_it_is(self):
        for page in PAGES:
            for block in blocks_of(page, SOURCE):
                self.assertIn(block.language, LANGUAGES, block.place)
            self.assertEqual(page.read_text().count("\n```") % 2, 0, f"{page}: each block ends")

    def test_the_picture_shows_the_table_of_today(self):
        shown = [html.unescape(line) for line in re.findall(r'xml:space="preserve">(.*?)</text>', (SOURCE / "docs" / "quickstart.svg").read_text())]
        table = (SOURCE / "tests" / "cli" / "golden" / "steps.txt").read_text().splitlines()[0]
        self.assertIn(table.split(), [line.split() for line in shown], "tests/documents/picture.py makes it anew")

    def test_what_commands_name_is_there_also_where_they_are_not_run(self):
        helps = {}

        def flags_of(*command):
            if command not in helps:
                code, said = call(BIN / "primectl", *command, "--help")
                self.assertEqual(code, 0, f"no command {command}: {said}")
                helps[command] = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", said))
            return helps[command]

        dev = (SOURCE / "dev").read_text()
        for block in blocks("sh"):
            for line in block.commands():
                with self.subTest(f"{block.place}: {line}"):
                    for program in re.findall(r"build/release/bin/([\w-]+)", line):
                        self.assertTrue((BIN / program).exists(), f"no program {program}")
                    for command in re.findall(r"(?<!\S)\./dev (\w+)", line):
                        self.assertIn(f"command_{command}()", dev)
                    for path in re.findall(r"\b(?:manifests|examples|docs)/[\w./-]+\w", line):
                        self.assertTrue((SOURCE / path).exists(), path)
                    for key in re.findall(r"--set '?([\w.]+)=", line):
                        self.assertEqual(call(BIN / "primectl", "explain", key)[0], 0, f"no key {key}")
                    for part in re.findall(r"(?:^|[ /(])primectl ((?:[^|;&)'#>]|'[^']*')*)", line):
                        words = shlex.split(part)
                        command = words[:2] if words[0] == "commitment" else words[:1]
                        known = flags_of(*command)
                        for word in words:
                            if re.match(r"--?[a-z]", word):
                                self.assertIn(word.split("=")[0], known, f"primectl {' '.join(command)}")

    @unittest.skipUnless(TRAINER, "this build has no trainer")
    def test_shells(self):
        with contextlib.ExitStack() as undo:
            why_not = namespaces.why_not()
            machine = [] if why_not else undo.enter_context(namespaces.machines(1))
            if why_not:
                print(f"the blocks run beside what else listens here: {why_not}")
            stage = Stage(namespaces.inside(machine[0]) if machine else [])
            undo.callback(stage.close)
            lacking = set() if has_modules("torch", "transformers") else {"transformers"}

            def check(block):
                if os.environ.get("PRIME_PAGE", "") not in block.place:
                    return
                if "--etcd" in block.text:
                    if not etcd.PROGRAM or why_not:
                        print(f"{block.place}: not run: {why_not or 'no etcd here'}")
                        return
                    namespaces.add_address(machine[0], "10.0.0.5/32")
                    undo.enter_context(EtcdOn(stage))
                try:
                    for line in [*block.said.splitlines(), *block.commands()]:
                        if lacking & set(re.findall(r"\w+", line)):
                            print(f"{block.place}: not run: .venv lacks {lacking}")
                        elif "pip install" in line:
                            print(f"{block.place}: not run: a download; .venv has it")
                        else:
                            stage.run(line)
                finally:
                    stage.clear()

            self.every("sh", check)

    def test_manifests_and_scenarios(self):
        def check(block):
            with tempfile.TemporaryDirectory(prefix="prime-page-") as folder:
                path = pathlib.Path(folder) / "page.yaml"
                scenario = "scenario:" in block.text
                # What a page shows of a manifest may be a part of one.
                head = "" if "version:" in block.text else "version: 1\nrun: page\n"
                path.write_text(head + block.text)
                command = ("simulate", path, "--seeds", "1..40") if scenario else ("validate", path)
                code, said = call(BIN / "primectl", *command)
                self.assertEqual(code, 0, said)

        self.every("yaml", check)

    def test_cpp(self):
        """One translation unit, a function for each block: what the headers cost, they cost once."""
        parts = ["#include <cstdint>\n#include <span>\n#include <string>\n#include <vector>\n#include <prime/commitment.hpp>\n#include <prime/device_memory.hpp>\n"
                 "#include <prime/group.hpp>\n#include <prime/session.hpp>\n"]

        def add(block):
            parts.append(f"[[maybe_unused]] static void block_{len(parts)}() {{\n{block.said}\n#line {block.line + 1} \"{block.page}\"\n{block.text}}}\n")

        self.every("cpp", add)
        with tempfile.TemporaryDirectory(prefix="prime-page-") as folder:
            path = pathlib.Path(folder) / "pages.cpp"
            path.write_text("".join(parts))
            code, said = call("c++", "-std=c++20", "-fsyntax-only", "-I", SOURCE, "-I", SOURCE / "runtime" / "include", path)
            self.assertEqual(code, 0, said)

    def test_cmake(self):
        def check(block):
            with tempfile.TemporaryDirectory(prefix="prime-page-") as name:
                folder = pathlib.Path(name)
                (folder / "CMakeLists.txt").write_text(block.text)
                (folder / "main.cpp").write_text("int main() {}\n")
                prefix = []
                if "find_package(prime" in block.text:
                    code, said = call("cmake", "--install", os.environ["PRIME_BUILD"], "--prefix", folder / "installed")
                    self.assertEqual(code, 0, said)
                    prefix = [f"-DCMAKE_PREFIX_PATH={folder / 'installed'}"]
                else:
                    (folder / "path" / "to").mkdir(parents=True)
                    (folder / "path" / "to" / "prime").symlink_to(SOURCE)
                code, said = call("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", "-DPRIME_CUDA=OFF", *prefix)
                self.assertEqual(code, 0, said)

        self.every("cmake", check)

    def test_python(self):
        if not has_modules("torch", "transformers", "safetensors"):
            self.skipTest(".venv lacks torch, transformers or safetensors")

        lacks = os.environ.get("PRIME_PYTHON_LACKS")

        def check(block):
            if lacks and "prime_runtime" in block.text:
                print(f"{block.place}: not run: {lacks}")
                return
            with tempfile.TemporaryDirectory(prefix="prime-page-") as folder:
                program = pathlib.Path(folder) / "page.py"
                program.write_text(block.said + "\n" + block.text)
                command = [SOURCE / ".venv" / "bin" / "python", "-B", program]
                if "prime.join" in block.text:  # a trainer: it is that of a run
                    words = ", ".join(str(word) for word in command)
                    command = [BIN / "primectl", "up", SOURCE / "manifests" / "quickstart.yaml", "--local", "2", "--state-dir", pathlib.Path(folder) / "state",
                               "--set", f"local.trainer_command=[{words}]", "--set", "train.outer_steps=2", "--set", "sync.inner_steps=3"]
                code, said = call(*command, cwd=folder, env={**os.environ, "PYTHONPATH": f"{os.environ['PRIME_BUILD']}/python"})
                self.assertEqual(code, 0, said)

        self.every("python", check)


class EtcdOn(etcd.Etcd):
    """At the address that the page names, on the stage's machine."""

    def __init__(self, stage):
        self.stage = stage
        super().__init__()

    def start(self):
        self.url, self.peer_url = "http://10.0.0.5:2379", "http://10.0.0.5:2380"
        with open(self.directory / "etcd.log", "ab") as log:
            self.process = self.stage.popen(
                f"etcd --data-dir {self.directory}/data --listen-client-urls {self.url} --advertise-client-urls {self.url} --listen-peer-urls {self.peer_url} "
                f"--initial-advertise-peer-urls {self.peer_url} --initial-cluster default={self.peer_url}", log)
        etcd.wait_until("etcd", lambda: self.stage.call(f"python3 -c 'import urllib.request as u; u.urlopen(\"{self.url}/health\").read(); print(\"answers\")'", codes=(0, 1)) == "answers\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
