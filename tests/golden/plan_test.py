"""What `primectl plan` says of bytes, beside what runs of prime-trainer commit: `wire_bytes` of the journal within 1 %, the parameters exactly.

usage: plan_test.py BIN   (the folder of primectl and prime-trainer)
"""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

from programs import call
from texts import write_corpus

BIN = pathlib.Path(sys.argv.pop(1)).resolve()

MANIFEST = """version: 1
run: planned
model: {layers: 3, dim: 64, heads: 4, kv_heads: 2, context: 32}
data: {path: "%s", include: "*.txt", held_out: 20%%, held_out_limit: 4KiB}
train: {batch: 2, outer_steps: 2, evaluate: {every: 0, limit: 4KiB}}
sync: {inner_steps: 2}
"""


class Plans(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-plan-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        write_corpus(self.folder / "corpus")
        self.manifest = self.folder / "planned.yaml"
        self.manifest.write_text(MANIFEST % (self.folder / "corpus"))

    def agrees(self, peers, *settings):
        flags = [word for setting in settings for word in ("--set", setting)]
        plan = json.loads(call(BIN / "primectl", "plan", self.manifest, "--peers", peers, "-o", "json", *flags))
        state = self.folder / "-".join([str(peers), *settings])
        out = call(BIN / "primectl", "up", self.manifest, "--local", peers, "-o", "json", "--quiet", "--state-dir", state, *flags)
        result = json.loads(out.splitlines()[-1])
        self.assertEqual((result["state"], result["outer_step"]), ("done", 2))
        with open(state / result["run_id"] / "coordinator" / "journal.jsonl", encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines]
        (founded,) = [event for event in events if event["event"] == "state_founded"]
        self.assertEqual(plan["parameters"], founded["elements"])
        for event in events:
            if event["event"] != "outer_step_committed":
                continue
            planned, measured = plan["outer_step_wire_bytes"], event["wire_bytes"]
            print(f"{peers} peers {' '.join(settings)}: {planned} bytes planned, {measured} sent")
            self.assertLessEqual(abs(planned - measured), 0.01 * measured)
            self.assertEqual(plan["tokens"] * event["outer_step"], event["tokens"])

    def test_two_peers(self):
        self.agrees(2)
        self.agrees(2, "sync.wire.codec=int8", "sync.fragments.count=3")

    def test_three_peers(self):
        self.agrees(3)
        self.agrees(3, "sync.wire.codec=e3m0", "sync.fragments.count=2", "sync.fragments.pattern=balanced")
        self.agrees(3, "sync.wire.schedule=ring")

    def test_what_is_small_enough_to_go_whole(self):
        self.agrees(3, "model.layers=1", "model.dim=8", "model.heads=2", "model.kv_heads=1", "model.ffn=8")


if __name__ == "__main__":
    unittest.main(verbosity=2)
