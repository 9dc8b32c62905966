"""What `pip install .` makes, in an environment of its own: the module, its types, and primectl, with which a script trains."""

import os
import pathlib
import subprocess
import unittest
import zipfile

from programs import LACKS, PYTHON, SOURCE, Programs, has, main

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


@unittest.skipUnless(has("nanobind", "scikit_build_core", "numpy"), "there are no wheels nanobind, scikit-build-core and numpy")
class Wheel(Programs):
    def call(self, *words, limit=300, **env):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PRIME", "PYTHONPATH"))}
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env={**kept, **env}, capture_output=True, text=True, timeout=limit, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout

    def test_it_is_whole_and_trains(self):
        # What is built in the checkout's own folder is built again only where it has changed.
        self.call(PYTHON, "-m", "pip", "wheel", SOURCE, "--no-deps", "--no-build-isolation", "-w", self.folder, limit=BUILD_LIMIT_S)
        (wheel,) = self.folder.glob("prime_runtime-*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        for wanted in ("prime_runtime/__init__.py", "prime_runtime/py.typed", "prime_runtime/_prime.pyi"):
            self.assertIn(wanted, names)
        self.assertEqual(len([name for name in names if name.startswith("prime_runtime/_prime.") and name.endswith(".so")]), 1, names)
        self.assertEqual([name for name in names if name.endswith("scripts/primectl")], [f"prime_runtime-{os.environ['PRIME_VERSION']}.data/scripts/primectl"])
        self.assertFalse([name for name in names if name.startswith(("include/", "share/", "lib/", "build/"))], names)

        self.call(PYTHON, "-m", "venv", self.folder / "venv")
        python = self.folder / "venv" / "bin" / "python"
        self.call(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel)
        site = self.call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        lent = self.call(PYTHON, "-c", "import numpy, pathlib; print(pathlib.Path(numpy.__file__).parents[1])").strip()
        pathlib.Path(site, "lent.pth").write_text(lent + "\n")
        primectl = self.folder / "venv" / "bin" / "primectl"
        self.assertIn(os.environ["PRIME_VERSION"], self.call(primectl, "--version"))
        self.addCleanup(subprocess.run, [str(primectl), "down", "--state-dir", str(self.folder / "state")], capture_output=True, check=False)
        program = self.folder / "train.py"
        program.write_text(TRAINER)
        said = self.call(primectl, "up", SOURCE / "manifests" / "quickstart.yaml", "--local", "2", "--state-dir", self.folder / "state", "--set",
                         f"local.trainer_command=[{python}, {program}]", "--set", "train.outer_steps=2", "--set", "sync.inner_steps=2")
        self.assertIn("Done 2 outer steps", said)


if __name__ == "__main__":
    assert not LACKS, LACKS
    main()
