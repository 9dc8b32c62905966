"""Owns the check that proofs made on a CPU hold on a GPU, and the other way round, and that frauds are found across the two.

usage: device_test.py BIN_DIRECTORY   (skipped by name where no GPU can be used)
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
DEVICE = "cuda"
BIN = None


class Family:
    """What holds of every family of models. Subclasses name the size."""

    SIZE = None

    def test_proofs_hold_across_devices_and_frauds_do_not(self):
        import verification

        with tempfile.TemporaryDirectory(prefix="prime-device-") as work:
            bench = verification.Bench(BIN, work, getattr(verification, self.SIZE))
            bench.prepare_across()
            bench.run_across(DEVICE)
        print(bench.table_across())
        for row in bench.rows:
            if row["honest"]:
                self.assertTrue(row["accepted"], row)
            else:
                self.assertEqual(row["exact-f32" if row["case"].startswith("f32") else "toploc-bf16"], row["sequences"], row)


class Llama(Family, unittest.TestCase):
    SIZE = "SMALL"


class Gpt2(Family, unittest.TestCase):
    SIZE = "SMALL_GPT2"


def why_skipped():
    """Why this machine cannot run it, if so: a GPU as primectl sees it, before anything of Python's is needed."""
    with tempfile.TemporaryDirectory(prefix="prime-device-") as nothing:
        # The device is looked for before the model is.
        done = subprocess.run([BIN / "primectl", "generate", nothing, "--prompt", "a", "--device", DEVICE], capture_output=True, text=True, check=False, timeout=300)
    if "PR0707" in done.stderr:
        return done.stderr.splitlines()[0]
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as missing:
        return f"{missing}: the Python that runs this test has no torch or no transformers"
    return None


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    reason = why_skipped()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
