"""primectl eval: what it prints of a small model of nucleotides, beside what a plain sum says; what it refuses."""

import gzip
import json
import math
import pathlib
import random
import unittest

from primectl import BIN, primectl, temporary_directory

MANIFEST = """version: 1
run: genes
model: {{layers: 1, dim: 16, heads: 2, vocab: 64, context: 32}}
train: {{batch: 4, outer_steps: 2}}
sync: {{inner_steps: 5}}
membership: {{peers: 1..1}}
data: {{tokenizer: {{file: "{folder}/tokenizer.json"}}, sources: [{{path: "{folder}/reads.fq", format: fastq}}]}}
local: {{data_cache: "{folder}/cache"}}
"""


@unittest.skipUnless((BIN / "prime-inference").exists(), "this build has no prime-inference")
class Eval(unittest.TestCase):
    def setUp(self):
        directory = temporary_directory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        draw = random.Random(5)
        for name, letters in (("phage", "AAAAAAAAACGT"), ("other", "ACGT")):
            (self.folder / f"{name}.fa").write_text(">s\n" + "".join(draw.choices(letters, k=20_000)) + "\n")
        for part, count, out in (("--to", 300, "reads.fq"), ("--from", 60, "held.fq")):
            self.done("data", "reads", self.folder / "phage.fa", self.folder / "other.fa", part, 80, "--count", count, "--length", 80, "--out", self.folder / out)
        self.done("data", "tokenizer", "train", self.folder / "reads.fq", "--format", "fastq", "--vocab", 64, "--out", self.folder / "tokenizer.json")
        self.manifest = self.folder / "genes.yaml"
        self.manifest.write_text(MANIFEST.format(folder=self.folder))

    def done(self, *arguments):
        done = primectl(*arguments, state=self.folder / "state")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_figures_are_there_and_follow_from_each_other(self):
        checkpoint = json.loads(self.done("up", self.manifest, "--local", 1, "-o", "json", "--quiet").splitlines()[-1])["checkpoint"]
        words = ("eval", checkpoint, self.manifest, "--held-out", self.folder / "held.fq", "--positive", "phage", "--reads", 50)
        told = json.loads(self.done(*words, "-o", "json"))
        for kind in ("held_out", "trained", "random"):
            each = told[kind]
            self.assertEqual(each["reads"], 50)
            self.assertEqual(sum(each["histogram"]["reads"]), 50)
            self.assertAlmostEqual(each["bits_per_base"] * each["bases"], each["nats_per_token"] * each["tokens"] / math.log(2), delta=1e-6 * each["bases"])
        self.assertEqual(told["markov"]["learned_reads"], 300)
        self.assertEqual([order["order"] for order in told["markov"]["orders"]], list(range(13)))
        best = min(order["bits_per_base"] for order in told["markov"]["orders"])
        self.assertEqual(told["markov"]["best_bits_per_base"], best)
        self.assertAlmostEqual(told["below_best_order_bits_per_base"], best - told["held_out"]["bits_per_base"])
        self.assertGreater(told["classes"]["mcc_4mers"], 0.5)
        again = json.loads(self.done(*words, "-o", "json"))
        self.assertEqual({**told, "seconds": 0}, {**again, "seconds": 0})
        text = self.done(*words)
        self.assertIn("  order 12   ", text)
        self.assertIn("phage told from the others", text)
        self.assertIsNone(json.loads(self.done(*words[:-4], "-o", "json"))["classes"])
        held = (self.folder / "held.fq").read_text().splitlines()
        (self.folder / "held.FASTA").write_text("".join(f">{name[1:]}\n{bases}\n" for name, bases in zip(held[::4], held[1::4], strict=True)))
        of_fasta = json.loads(self.done(*(self.folder / "held.FASTA" if word == self.folder / "held.fq" else word for word in words), "-o", "json"))
        self.assertEqual(of_fasta["classes"], told["classes"], "their names are read, too")
        few = self.folder / "few.fq"
        few.write_text("\n".join((self.folder / "reads.fq").read_text().splitlines()[:400]) + "\n")
        self.assertEqual(json.loads(self.done(*words, "--set", f"local.data_path={few}", "-o", "json"))["markov"]["learned_reads"], 100)
        with gzip.open(self.folder / "cut.fq.gz", "wb") as packed:
            packed.write((self.folder / "reads.fq").read_bytes())
        cut = (self.folder / "cut.fq.gz").read_bytes()
        (self.folder / "cut.fq.gz").write_bytes(cut[:-200])
        skipping = ("--set", f"data.sources=[{{path: '{self.folder}/cut.fq.gz', format: fastq, on_error: skip}}]", "-o", "json")
        self.assertGreater(json.loads(self.done(*words, *skipping))["markov"]["learned_reads"], 200)
        for positive, said in (("phag", "`--positive` names `phag`, of which none of the reads looked at is; the reads looked at name the sources other, phage"),
                               ("phage,other", "`--positive` leaves nothing to tell apart: each of the reads trained on is of it")):
            refused = primectl(*words[:-3], positive, "--reads", 50, state=self.folder / "state")
            self.assertEqual(refused.returncode, 2, refused.stdout)
            self.assertIn(said, refused.stderr)

        (pathlib.Path(checkpoint) / "tokenizer.json").unlink()
        done = primectl(*words, state=self.folder / "state")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("reads are tokenized by what stands beside the model", done.stderr)


if __name__ == "__main__":
    unittest.main()
