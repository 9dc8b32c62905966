"""A thousand outer steps of a real model, with 2, 3 and 5 peers: all peers hold the same bits after each, one fragment and four end in the
same bytes, and a single-process DiLoCo ends within 1e-6 of them.

usage: rounds_test.py BIN   (the folder of primectl, prime-trainer and diloco-reference; PRIME_GOLDEN_STEPS: another number of steps)
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

from programs import call
from texts import write_corpus

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
STEPS = int(os.environ.get("PRIME_GOLDEN_STEPS", "1000"))

MANIFEST = """version: 1
run: rounds
model: {layers: 2, dim: 32, heads: 4, kv_heads: 2, context: 32}
data: {path: "%s", include: "*.txt", held_out: 20%%, held_out_limit: 16KiB}
train: {batch: 2, outer_steps: %d, optimizer: {adamw: {lr: 1e-3}}, evaluate: {limit: 4KiB}}
sync: {inner_steps: 1}
checkpoint: {every: %d}
"""


class Rounds(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-rounds-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        write_corpus(self.folder / "corpus")
        self.manifest = self.folder / "rounds.yaml"
        self.manifest.write_text(MANIFEST % (self.folder / "corpus", STEPS, STEPS))

    def train(self, peers, fragments):
        """The last checkpoint, after it was seen that all peers held the same after each commit."""
        state = self.folder / f"{peers}-{fragments}"
        out = call(BIN / "primectl", "up", self.manifest, "--local", peers, "-o", "json", "--quiet", "--state-dir", state,
                   "--set", f"sync.fragments.count={fragments}")
        result = json.loads(out.splitlines()[-1])
        self.assertEqual((result["state"], result["outer_step"]), ("done", STEPS))
        digests = {}
        for path in (state / result["run_id"]).glob("peers/*/journal.jsonl"):
            with open(path, encoding="utf-8") as lines:
                for line in map(json.loads, lines):
                    if line["event"] == "outer_step_committed":
                        digests.setdefault(line["revision"], []).append(line["digest"])
        self.assertEqual(len(digests), STEPS)
        for revision, values in digests.items():
            self.assertEqual((len(values), len(set(values))), (peers, 1), f"revision {revision}")
        self.assertEqual(len({values[0] for values in digests.values()}), STEPS, "each step changes something")
        return pathlib.Path(result["checkpoint"])

    def many_rounds(self, peers):
        one, four = (self.train(peers, fragments) for fragments in (1, 4))
        for name in ("model.safetensors", "prime/outer_momentum.safetensors"):
            self.assertEqual((one / name).read_bytes(), (four / name).read_bytes(), name)
        reference = self.folder / "reference"
        call(BIN / "diloco-reference", "run", self.manifest, "--peers", peers, "--steps", STEPS, "--out", reference)
        difference = float(call(BIN / "diloco-reference", "compare", one / "model.safetensors", reference / f"step-{STEPS}.safetensors"))
        print(f"{peers} peers, {STEPS} outer steps: largest difference to the reference {difference:.3g}")
        self.assertLessEqual(difference, 1e-6)

    def test_two_peers(self):
        self.many_rounds(2)

    def test_three_peers(self):
        self.many_rounds(3)

    def test_five_peers(self):
        self.many_rounds(5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
