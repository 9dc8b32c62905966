"""What `pip install .` makes, in an environment of its own: the module, its types, and primectl, with which scripts train, join, and join again after a kill."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest
import zipfile

from programs import LACKS, PYTHON, SOURCE, Journal, Programs, has, main, wait_until

BUILD_LIMIT_S = 3000
TRAINER = """import pathlib, sys
import numpy, prime_runtime as prime
assert pathlib.Path(prime.__file__).is_relative_to(sys.prefix)
with prime.join() as run:
    x = numpy.ones(100, dtype=numpy.float32)
    run.bind_tensor("x", x)
    for step in run:
        x -= numpy.float32(0.1)
        step.report(1.0, 1)
"""


def call(*words, limit=300, **env):
    """What it says; it ends well. Nothing of the build tree is in its environment."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PRIME", "PYTHONPATH"))}
    done = subprocess.run([str(word) for word in words], env={**kept, **env}, capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@unittest.skipUnless(has("nanobind", "scikit_build_core", "numpy"), "there are no wheels nanobind, scikit-build-core and numpy")
class Wheel(Programs):
    @classmethod
    def setUpClass(cls):
        """An environment that has the wheel, and borrows torch and numpy."""
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="prime-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        # What is built in the checkout's own folder is built again only where it has changed.
        call(PYTHON, "-m", "pip", "wheel", SOURCE, "--no-deps", "--no-build-isolation", "-w", cls.place, limit=BUILD_LIMIT_S)
        (cls.wheel,) = cls.place.glob("prime_runtime-*.whl")
        call(PYTHON, "-m", "venv", cls.place / "venv")
        cls.python, cls.primectl = (cls.place / "venv" / "bin" / name for name in ("python", "primectl"))
        call(cls.python, "-m", "pip", "install", "--no-deps", "--no-index", cls.wheel)
        site = call(cls.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        lent = call(PYTHON, "-c", "import numpy, pathlib; print(pathlib.Path(numpy.__file__).parents[1])").strip()
        pathlib.Path(site, "lent.pth").write_text(lent + "\n")

    def up(self, *words, **env):
        """`primectl up` with these words; the run is taken down in the end."""
        state = self.folder / "state"
        self.addCleanup(subprocess.run, [str(self.primectl), "down", "--state-dir", str(state)], capture_output=True, check=False)
        return call(self.primectl, "up", SOURCE / "manifests" / "quickstart.yaml", "--state-dir", state, *words, **env)

    def test_it_is_whole_and_trains(self):
        names = zipfile.ZipFile(self.wheel).namelist()
        for wanted in ("prime_runtime/__init__.py", "prime_runtime/py.typed", "prime_runtime/_prime.pyi"):
            self.assertIn(wanted, names)
        self.assertEqual(len([name for name in names if name.startswith("prime_runtime/_prime.") and name.endswith(".so")]), 1, names)
        self.assertEqual([name for name in names if name.endswith("scripts/primectl")], [f"prime_runtime-{os.environ['PRIME_VERSION']}.data/scripts/primectl"])
        self.assertFalse([name for name in names if name.startswith(("include/", "share/", "lib/", "build/"))], names)
        self.assertIn(os.environ["PRIME_VERSION"], call(self.primectl, "--version"))
        program = self.folder / "train.py"
        program.write_text(TRAINER)
        said = self.up("--local", "2", "--set", f"local.trainer_command=[{self.python}, {program}]", "--set", "train.outer_steps=2", "--set", "sync.inner_steps=2")
        self.assertIn("Done 2 outer steps", said)

    def joins(self, invite, number, env):
        """The example by itself, in a shell that knows nothing but the invite."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PRIME", "PYTHONPATH"))}
        process = subprocess.Popen([self.python, SOURCE / "examples" / "python" / "gpt_diloco.py"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={**kept, **env, "PRIMECTL_INVITE": invite, "XDG_STATE_HOME": str(self.folder / f"joiner-{number}")})
        self.started.append(process)
        return process

    @unittest.skipUnless(has("torch"), "there is no wheel torch")
    def test_an_example_joins_is_killed_and_joins_again(self):
        text = self.folder / "text"
        text.mkdir()
        for number in range(20):
            (text / f"{number}.h").write_text(f"int bottles_of_beer_{number} = {number};\n" * 200)
        env = {"GPT_TEXT": str(text), "GPT_DIM": "16", "GPT_LAYERS": "1", "OMP_NUM_THREADS": "1"}
        example = SOURCE / "examples" / "python" / "gpt_diloco.py"
        # Two peers make an outer step: none is made but with the one that joins.
        up = json.loads(self.up("--local", "1", "--quorum", "2", "--detach", "-o", "json", "--trainer", f"{self.python} {example}", "--set", "train.outer_steps=1000000",
                                "--set", "sync.inner_steps=4", "--set", "train.batch=4", **env))
        journal = Journal(pathlib.Path(up["state_dir"]) / "coordinator" / "journal.jsonl")

        def commits():
            return [line for line in journal.lines() if line["event"] == "outer_step_committed"]

        for number, end in enumerate((signal.SIGKILL, signal.SIGINT)):
            before = len(commits())
            process = self.joins(up["invite"], number, env)
            wait_until("outer steps with who joined", lambda: len(commits()) >= before + 3 or process.poll() is not None)  # noqa: B023
            self.assertIsNone(process.poll(), process.stdout.read() if process.poll() is not None else "")
            process.send_signal(end)
            self.finish(process, -end)
            wait_until("its farewell", lambda: len([line for line in journal.lines() if line["event"] == "peer_left"]) == number + 1)  # noqa: B023
        made = {line["revision"]: line["digest"] for line in commits()}
        peers = [path for path in self.folder.glob("**/peers/*/journal.jsonl")]
        self.assertEqual(len(peers), 3, peers)  # the one of `up`, and each that joined
        for path in peers:
            applied = {line["revision"]: line["digest"] for line in Journal(path).lines() if line["event"] == "outer_step_committed"}
            self.assertGreaterEqual(len(applied), 3, path)
            self.assertEqual(applied, {revision: made[revision] for revision in applied}, path)


if __name__ == "__main__":
    assert not LACKS, LACKS
    main()
