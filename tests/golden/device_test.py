"""Owns the checks of a GPU: proofs made on a CPU hold there, and the other way round, frauds are found across the two, and peers that share
it train as peers on the CPU do.

usage: device_test.py BIN_DIRECTORY   (skipped by name where no GPU can be used)
"""

import json
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


MANIFEST = """version: 1
run: device
model: {layers: 2, dim: 64, heads: 4, kv_heads: 2, context: 32}
data: {path: "%s", include: "*.md", held_out_limit: 16KiB}
train: {batch: 8, outer_steps: 4, evaluate: {every: 0}}
sync: {inner_steps: 10}
membership: {peers: 2..8}
"""


class Run(unittest.TestCase):
    """Two trainers that share the device, each a process."""

    def train(self, work, name, *settings):
        manifest = pathlib.Path(work) / "device.yaml"
        manifest.write_text(MANIFEST % (pathlib.Path(__file__).resolve().parents[2] / "docs"))
        command = [BIN / "primectl", "up", manifest, "--local", "2", "-o", "json", "--quiet", "--state-dir", pathlib.Path(work) / name]
        done = subprocess.run([*command, *(word for setting in settings for word in ("--set", setting))], capture_output=True, text=True, check=False, timeout=900)
        self.assertEqual(done.returncode, 0, done.stderr)
        digests = {}
        for path in (pathlib.Path(work) / name).glob("*/peers/*/journal.jsonl"):
            for line in map(json.loads, path.read_text().splitlines()):
                if line["event"] == "outer_step_committed":
                    digests.setdefault(line["revision"], []).append(line["digest"])
        self.assertEqual(sorted(digests), [1, 2, 3, 4])
        for revision, values in digests.items():
            self.assertEqual((len(values), len(set(values))), (2, 1), f"revision {revision}")
        return json.loads(done.stdout.splitlines()[-1])["held_out_loss"]

    def test_peers_on_a_gpu_commit_the_same_bits_and_learn_as_on_the_cpu(self):
        with tempfile.TemporaryDirectory(prefix="prime-device-") as work:
            on_cpu = self.train(work, "cpu")
            self.assertAlmostEqual(self.train(work, "f32", f"local.device={DEVICE}"), on_cpu, delta=0.01)
            self.assertAlmostEqual(self.train(work, "bf16", f"local.device={DEVICE}", "train.precision=bf16"), on_cpu, delta=0.05)
            self.assertAlmostEqual(self.train(work, "parts", f"local.device={DEVICE}", "local.micro_batch=3"), on_cpu, delta=0.01)


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
