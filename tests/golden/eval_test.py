"""`primectl eval` beside transformers: the same reads, behind an `[EOS]` each, have the same bits per base.

usage: eval_test.py BIN   (the folder of primectl)
"""

import json
import math
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

from programs import call

try:
    import torch
    import transformers
except ImportError:
    print("skipped: this Python has no transformers to compare with")
    sys.exit(77)

BIN = pathlib.Path(sys.argv.pop(1)).resolve()

MANIFEST = """version: 1
run: genes
model: {{layers: 2, dim: 16, heads: 2, kv_heads: 1, vocab: 64, context: 24}}
train: {{batch: 4, outer_steps: 2}}
sync: {{inner_steps: 10}}
membership: {{peers: 1..1}}
data: {{tokenizer: {{file: "{folder}/tokenizer.json"}}, sources: [{{path: "{folder}/reads.fq", format: fastq}}]}}
local: {{data_cache: "{folder}/cache"}}
"""


class Evaluation(unittest.TestCase):
    def test_bits_per_base_are_transformers(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-eval-"))
        self.addCleanup(shutil.rmtree, folder, True)
        draw = random.Random(2)
        (folder / "genome.fa").write_text(">s\n" + "".join(draw.choices("AACGT", k=20_000)) + "\n")
        for part, count, out in (("--to", 200, "reads.fq"), ("--from", 60, "held.fq")):
            call(BIN / "primectl", "data", "reads", folder / "genome.fa", part, 80, "--count", count, "--length", 90, "--spread", 30, "--out", folder / out)
        call(BIN / "primectl", "data", "tokenizer", "train", folder / "reads.fq", "--format", "fastq", "--vocab", 64, "--out", folder / "tokenizer.json")
        (folder / "genes.yaml").write_text(MANIFEST.format(folder=folder))
        out = call(BIN / "primectl", "up", folder / "genes.yaml", "--local", 1, "-o", "json", "--quiet", "--state-dir", folder / "state")
        checkpoint = json.loads(out.splitlines()[-1])["checkpoint"]
        told = json.loads(call(BIN / "primectl", "eval", checkpoint, folder / "genes.yaml", "--held-out", folder / "held.fq", "-o", "json"))["held_out"]

        tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
        model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint)
        nats = bases = tokens = cut = 0
        for read in (folder / "held.fq").read_text().splitlines()[1::4]:
            ids = [tokenizer.eos_token_id, *tokenizer(read, add_special_tokens=False).input_ids]
            cut += len(ids) > 24
            ids = ids[:24]  # the context
            with torch.no_grad():
                likely = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
            nats -= likely.gather(1, torch.tensor(ids[1:]).unsqueeze(1)).sum().item()
            bases += len("".join(tokenizer.convert_ids_to_tokens(ids[1:])))
            tokens += len(ids) - 1
        self.assertGreater(cut, 0, "some reads are longer than the context")
        self.assertEqual((told["reads"], told["bases"], told["tokens"]), (60, bases, tokens))
        self.assertAlmostEqual(told["bits_per_base"], nats / math.log(2) / bases, places=5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
