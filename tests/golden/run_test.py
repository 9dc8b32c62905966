"""A real run of three processes against a single-process DiLoCo and against transformers; and three peers against one.

usage: run_test.py BIN   (the folder of primectl, prime-trainer and diloco-reference)
"""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import LIMIT_S, call
from texts import write_corpus

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
HERE = pathlib.Path(__file__).resolve().parent

MANIFEST = """version: 1
run: golden
model: {layers: 2, dim: 32, heads: 4, kv_heads: 2, context: 32}
data: {path: "%s", include: "*.txt", held_out: 20%%, held_out_limit: 16KiB}
train: {batch: 4, outer_steps: 6, optimizer: {adamw: {lr: 3e-3}}, schedule: {cosine: {warmup: 5, floor: 0.1}}, evaluate: {every: 2, limit: 4KiB}}
sync: {inner_steps: 5}
membership: {peers: 1..8}
checkpoint: {every: 1, keep: 10}
"""


WORDS = ("alpha", "beta", "gamma", "delta", "return", "struct", "int", "{", "}")


class GoldenRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-golden-"))
        write_corpus(cls.folder / "corpus", files=60, words=400, seed=1, word=lambda state: WORDS[(state >> 40) % 9])  # with structure
        cls.manifest = cls.folder / "golden.yaml"
        cls.manifest.write_text(MANIFEST % (cls.folder / "corpus"))
        cls.three = cls.train(3, "three")
        call(BIN / "diloco-reference", "run", cls.manifest, "--peers", 3, "--steps", 6, "--out", cls.folder / "reference")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def train(cls, peers, name, *flags):
        """Runs to the end in the foreground; the result object and the run's folder."""
        out = call(BIN / "primectl", "up", cls.manifest, "--local", peers, "-o", "json", "--quiet", "--state-dir", cls.folder / name, *flags)
        result = json.loads(out.splitlines()[-1])
        return result, cls.folder / name / result["run_id"]

    def test_each_outer_step_equals_the_reference(self):
        result, run = self.three
        self.assertEqual(result["state"], "done")
        compared = set()
        for checkpoint in sorted(run.glob("peers/*/checkpoints/step-*")):
            step = int(checkpoint.name.split("-")[1])
            difference = float(call(BIN / "diloco-reference", "compare", checkpoint / "model.safetensors", self.folder / "reference" / f"step-{step}.safetensors"))
            self.assertLessEqual(difference, 1e-6, f"step {step}")
            compared.add(step)
        # Checkpoints are written beside the training; one may be skipped when the next commit is quicker, the last one never.
        for step in {2, 4} - compared:  # of a run that ends there, with another schedule
            shorter = ("--set", f"train.outer_steps={step}")
            result, _ = self.train(3, f"until-{step}", *shorter)
            reference = self.folder / f"reference-until-{step}"
            call(BIN / "diloco-reference", "run", self.manifest, "--peers", 3, "--steps", step, "--out", reference, *shorter)
            difference = float(call(BIN / "diloco-reference", "compare", pathlib.Path(result["checkpoint"]) / "model.safetensors",
                                    reference / f"step-{step}.safetensors"))
            self.assertLessEqual(difference, 1e-6, f"step {step}")
        self.assertIn(6, compared)

    def test_a_radial_merge_equals_the_reference_and_is_the_same_in_four_fragments(self):
        radial = ("--set", "sync.merge=radial")
        call(BIN / "diloco-reference", "run", self.manifest, "--peers", 3, "--steps", 6, "--out", self.folder / "radial-reference", *radial)
        reference = self.folder / "radial-reference" / "step-6.safetensors"
        one, four = (pathlib.Path(self.train(3, f"radial-{count}", *radial, "--set", f"sync.fragments.count={count}")[0]["checkpoint"]) for count in (1, 4))
        self.assertLessEqual(float(call(BIN / "diloco-reference", "compare", one / "model.safetensors", reference)), 1e-6)
        self.assertEqual((one / "model.safetensors").read_bytes(), (four / "model.safetensors").read_bytes())
        plain = self.folder / "reference" / "step-6.safetensors"
        self.assertGreater(float(call(BIN / "diloco-reference", "compare", plain, reference)), 1e-3, "it is another one than the mean")

    def test_four_fragments_are_one_to_the_bit_and_go_on_from_each_other(self):
        fragments = ("--set", "sync.fragments.count=4", "--set", "sync.fragments.pattern=sequential")
        result, run = self.train(3, "four", *fragments)
        one, four = (pathlib.Path(each["checkpoint"]) for each in (self.three[0], result))
        for name in ("model.safetensors", "prime/outer_momentum.safetensors"):
            self.assertEqual((one / name).read_bytes(), (four / name).read_bytes(), name)
        self.assertEqual([json.loads((each / "prime/state.json").read_text())["revision"] for each in (one, four)], [6, 24])
        # What was divided goes on undivided, and the other way round: the digest of the state is that of the new division.
        ends = []
        for origin, division in ((four, ()), (one, fragments), (one, ())):
            on, _ = self.train(2, f"on-{len(ends)}", "--from", origin, "--set", "train.outer_steps=8", *division)
            ends.append((pathlib.Path(on["checkpoint"]) / "model.safetensors").read_bytes())
        self.assertEqual(ends[0], ends[1])
        self.assertEqual(ends[0], ends[2])

    def test_all_peers_hold_the_same_digest_after_every_step(self):
        _, run = self.three
        digests = {}
        for path in run.glob("peers/*/journal.jsonl"):
            for line in map(json.loads, path.read_text().splitlines()):
                if line["event"] == "outer_step_committed":
                    digests.setdefault(line["revision"], []).append(line["digest"])
        self.assertEqual(sorted(digests), [1, 2, 3, 4, 5, 6])
        for revision, values in digests.items():
            self.assertEqual(len(values), 3)
            self.assertEqual(len(set(values)), 1, f"revision {revision}")

    def test_transformers_finds_the_held_out_loss_that_the_run_printed(self):
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("the Python that runs this test has no transformers")
        result, _ = self.three
        loss = float(call(sys.executable, HERE / "held_out.py", result["checkpoint"], "--data", self.folder / "corpus", "--include", "*.txt", "--held-out", 0.2,
                          "--limit", 16384, "--context", 32).split()[-1])
        self.assertAlmostEqual(loss, result["held_out_loss"], places=3)

    def test_what_stands_after_done_loads_goes_on_and_exports(self):
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("the Python that runs this test has no transformers")
        done = subprocess.run([BIN / "primectl", "up", self.manifest, "--local", "1", "--set", "train.outer_steps=1", "--set", "local.device=auto",
                               "--state-dir", self.folder / "after"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"what the model writes:\n(alpha|beta|gamma|delta|return|struct|int|\{|\}) ", "the prompt is of the data")
        self.assertRegex(done.stderr, r"(?m)^ *Device [a-z-]+ computes on (cpu, since .*|cuda:0)$")
        lines = {verb: line for verb, line in re.findall(r"(?m)^ *(Load|Go on|Export) (.*)$", done.stderr)}
        self.assertEqual(set(lines), {"Load", "Go on", "Export"}, done.stderr)
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        said = {}
        for verb, line in lines.items():
            pasted = subprocess.run(["/bin/sh", "-ec", line], cwd=self.folder, env={**os.environ, "PATH": path}, capture_output=True, text=True,
                                    timeout=LIMIT_S, check=False)
            self.assertEqual(pasted.returncode, 0, f"{line}\n{pasted.stderr}")
            said[verb] = pasted.stdout
        self.assertIn("LlamaForCausalLM(", said["Load"])
        self.assertIn("Done 2 outer steps", said["Go on"])
        call(sys.executable, "-c", "import sys, transformers; transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])", self.folder / "model")

    def test_a_device_that_is_not_there_ends_the_peer_by_name_before_it_trains(self):
        folder = self.folder / "absent"
        done = subprocess.run([BIN / "primectl", "up", self.manifest, "--local", "1", "-o", "json", "--quiet", "--state-dir", folder, "--set", "local.device=cuda:99"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("PR0707", done.stderr)
        self.assertIn("`cuda:99`", done.stderr)
        events = [json.loads(line)["event"] for path in folder.glob("*/peers/*/journal.jsonl") for line in path.read_text().splitlines()]
        self.assertIn("peer_ended", events)
        self.assertNotIn("trainer_restarting", events, "to be started again changes nothing")

    def test_three_peers_beat_one_at_equal_outer_steps(self):
        three, _ = self.three
        one, _ = self.train(1, "one")
        self.assertEqual(one["outer_step"], three["outer_step"])
        self.assertLess(three["held_out_loss"], one["held_out_loss"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
