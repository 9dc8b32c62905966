"""examples/python, each as the trainers of a run, one of which is killed in the middle; and what mypy says of them and of the package."""

import ast
import os
import pathlib
import signal
import subprocess
import unittest

from programs import LIMIT_S, PYTHON, SOURCE, Programs, Run, environment, has, main, wait_until

EXAMPLES = SOURCE / "examples" / "python"


def processes_of(*words):
    """The ids of processes whose command line has all of the words."""
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if {word.encode() for word in words} <= set(line):
            yield int(path.name)


@unittest.skipUnless(has("torch", "numpy"), "there are no wheels torch and numpy")
class Examples(Programs):
    def trains(self, name, outer_steps, words=(), **env):
        """Each peer's trainer is the example, in an interpreter that is given these words before it; one process of them is killed."""
        example = str(self.folder / name)
        pathlib.Path(example).write_text((EXAMPLES / name).read_text())  # a path of this test's alone, by which its processes are found
        kept = {key: value for key, value in environment(**env).items() if key not in os.environ}
        with Run(2, outer_steps=outer_steps, inner_steps=20, up_flags=["--quorum", "2", "--set", "train.batch=16"], trainer='", "'.join([PYTHON, *words, example]), deadline="1h", wait_limit="1h", stall_limit="1h", env=kept) as run:
            run.wait_for("outer_step_committed", 2)
            os.kill(wait_until("the trainers", lambda: next(processes_of(PYTHON, example, "-u") if words else processes_of(PYTHON, example), None)), signal.SIGKILL)
            self.assertEqual(run.wait_for_end(), 0, run.trainer_logs())
            commits = run.check(outer_steps=outer_steps)
            self.assertEqual({len(commit["contributors"]) for commit in commits}, {2}, "the killed one kept its seat")
            restarts = [line for lines in run.peer_journals().values() for line in lines if line["event"] == "trainer_restarting"]
            self.assertEqual(len(restarts), 1, run.trainer_logs())
            return commits, run.trainer_logs()

    @unittest.skipUnless(has("sklearn"), "there is no wheel scikit-learn")
    def test_mnist_like(self):
        _, logs = self.trains("mnist_like.py", 20)
        self.assertRegex(logs, r"[89]\d\.\d% of 297 digits")

    def test_gpt_diloco(self):
        text = self.folder / "text"
        text.mkdir()
        for number in range(20):
            (text / f"{number}.h").write_text(f"int bottles_of_beer_{number} = {number};\n" * 200)
        commits, _ = self.trains("gpt_diloco.py", 12, GPT_TEXT=str(text), GPT_DIM="16", GPT_LAYERS="1")
        self.assertLess(commits[-1]["loss"], commits[0]["loss"])


    def test_fsdp2(self):
        commits, logs = self.trains("fsdp2.py", 6, words=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"))
        self.assertLess(commits[-1]["loss"], commits[0]["loss"])
        self.assertIn("step 6: mean over 2 peers", logs)


@unittest.skipUnless(has("mypy", "torch"), "there are no wheels mypy and torch")
class Types(Programs):
    def test_package_stubs_and_examples_are_typed_strictly(self):
        done = subprocess.run([PYTHON, "-m", "mypy", "--strict", "--config-file", SOURCE / "pyproject.toml", "--cache-dir", self.folder / "cache",
                               SOURCE / "python" / "prime_runtime", *sorted(EXAMPLES.glob("*.py"))],
                              env={**environment(), "MYPYPATH": str(SOURCE / "python")}, cwd=SOURCE, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_stub_names_what_the_module_has_and_nothing_else(self):
        stub = ast.parse((SOURCE / "python" / "prime_runtime" / "_prime.pyi").read_text())
        told = {"ERROR_NAMES"} | {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
        for node in stub.body:
            if isinstance(node, ast.ClassDef):
                told |= {node.name} | {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
        said = self.one("""
from prime_runtime import _prime
for name, value in vars(_prime).items():
    if name in ("_close", "_serve_endings", "_stop_endings") or not name.startswith("_"):
        print(name)
    if isinstance(value, type):
        print(*(f"{name}.{each}" for each in vars(value) if not each.startswith("_")), sep="\\n")
""")
        self.assertEqual(set(said.split()), told)


if __name__ == "__main__":
    main()
