"""Runs of every architecture to their end, and `primectl eval` and `generate` on what they leave, beside transformers: the same reads, behind
an `[EOS]` each, have the same bits per base, and the same prompts go on alike.

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
model: {{layers: 2, dim: 16, heads: 2, vocab: 64, context: 24, {model}}}
train: {{batch: 4, outer_steps: 2}}
sync: {{inner_steps: 10}}
membership: {{peers: 2..2}}
data: {{tokenizer: {{file: "{folder}/tokenizer.json"}}, sources: [{{path: "{folder}/reads.fq", format: fastq}}]}}
local: {{data_cache: "{folder}/cache"}}
"""


class Evaluation(unittest.TestCase):
    def test_a_llama(self):
        self.check("kv_heads: 1", "LlamaForCausalLM")

    def test_a_llama_with_biases_of_attention_and_scaled_rotations(self):
        self.check("attention_bias: true, rope_scaling: {kind: llama3, factor: 8, original_context: 12}", "LlamaForCausalLM")

    def test_a_gpt2(self):
        self.check("arch: gpt2", "GPT2LMHeadModel")

    def check(self, model, architecture):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-eval-"))
        self.addCleanup(shutil.rmtree, folder, True)
        draw = random.Random(2)
        (folder / "genome.fa").write_text(">s\n" + "".join(draw.choices("AACGT", k=20_000)) + "\n")
        for part, count, out in (("--to", 200, "reads.fq"), ("--from", 60, "held.fq")):
            call(BIN / "primectl", "data", "reads", folder / "genome.fa", part, 80, "--count", count, "--length", 90, "--spread", 30, "--out", folder / out)
        call(BIN / "primectl", "data", "tokenizer", "train", folder / "reads.fq", "--format", "fastq", "--vocab", 64, "--out", folder / "tokenizer.json")
        (folder / "genes.yaml").write_text(MANIFEST.format(folder=folder, model=model))
        out = call(BIN / "primectl", "up", folder / "genes.yaml", "--local", 2, "-o", "json", "--quiet", "--state-dir", folder / "state")
        result = json.loads(out.splitlines()[-1])
        for journal in (folder / "state" / result["run_id"]).glob("peers/*/journal.jsonl"):
            commits = [line for line in map(json.loads, journal.read_text().splitlines()) if line["event"] == "outer_step_committed"]
            self.assertEqual([len(commit["contributors"]) for commit in commits], [2, 2])
        checkpoint = result["checkpoint"]
        told = json.loads(call(BIN / "primectl", "eval", checkpoint, folder / "genes.yaml", "--held-out", folder / "held.fq", "-o", "json"))["held_out"]

        tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
        model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint)
        self.assertEqual(type(model).__name__, architecture)
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

        prompt = tokenizer("ACGTTGCA", add_special_tokens=False).input_ids
        (folder / "prompts").write_text(json.dumps(prompt) + "\n")
        written = json.loads(call(BIN / "primectl", "generate", checkpoint, "--prompt-tokens", folder / "prompts", "--tokens", 8, "-o", "json").splitlines()[0])
        theirs = model.generate(torch.tensor([prompt]), max_new_tokens=8, min_new_tokens=8, do_sample=False)[0, len(prompt):].tolist()
        self.assertEqual(written["tokens"], theirs)

        with torch.no_grad():
            model.get_output_embeddings().weight.fill_(math.nan)
        model.save_pretrained(folder / "diverged")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(pathlib.Path(checkpoint) / name, folder / "diverged")
        with self.assertRaisesRegex(AssertionError, "exit 1\n.*this model diverged.*PR0506"):
            call(BIN / "primectl", "eval", folder / "diverged", folder / "genes.yaml", "--held-out", folder / "held.fq", "--quiet")


if __name__ == "__main__":
    unittest.main(verbosity=2)
