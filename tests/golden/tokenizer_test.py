"""The tokenizer that a checkpoint carries: transformers loads it from there, and it gives the ids that were trained on.

usage: tokenizer_test.py BIN   (the folder of primectl, prime-trainer and data-tokenize)
"""

import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import LIMIT_S, call
from texts import write_corpus

try:
    import transformers
except ImportError:
    print("skipped: this Python has no transformers to load checkpoints with")
    sys.exit(77)

BIN = pathlib.Path(sys.argv.pop(1)).resolve()

MANIFEST = """version: 1
run: tokens
model: {layers: 1, dim: 8, heads: 2, vocab: %d, context: 16}
data: {%s, held_out: 20%%, tokenizer: %s}
train: {batch: 2, outer_steps: 1}
sync: {inner_steps: 1}
membership: {peers: 1..1}
local: {data_cache: "%s"}
"""
WORDS = ("alpha", "beta", "gamma", "delta", "return", "struct", "int", "{", "}")
TEXTS = ["", "a", "int x = 3;\n\treturn x;", "Ωmega \u00e9 \u4e2d\u6587 \U0001f600", "  two  spaces ", "\x00\x7f", "don't we'll 12345"]


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-tokens-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def train(self, vocab, data, tokenizer):
        manifest = self.folder / "run.yaml"
        manifest.write_text(MANIFEST % (vocab, data, tokenizer, self.folder / "cache"))
        out = call(BIN / "primectl", "up", manifest, "--local", 1, "-o", "json", "--quiet", "--state-dir", self.folder / "state")
        return pathlib.Path(json.loads(out.splitlines()[-1])["checkpoint"])

    def corpus(self):
        write_corpus(self.folder / "corpus", files=20, words=100, seed=1, word=lambda state: WORDS[(state >> 40) % 9])
        return f'path: "{self.folder / "corpus"}", include: "*.txt"'

    def test_bytes(self):
        data = self.corpus()
        for vocab in (256, 257):
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.train(vocab, data, "bytes"))
            for text in TEXTS:
                self.assertEqual(tokenizer(text, add_special_tokens=False).input_ids, list(text.encode()), repr(text))
                self.assertEqual(tokenizer.decode(tokenizer(text, add_special_tokens=False).input_ids), text)
            self.assertEqual(len(tokenizer), vocab)
            self.assertEqual(tokenizer.eos_token_id, 256 if vocab == 257 else None)

    def compare(self, checkpoint, source, texts):
        tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
        self.assertEqual((checkpoint / "tokenizer.json").read_bytes(), source.read_bytes())
        done = subprocess.run([BIN / "data-tokenize", source], input="".join(json.dumps(text) + "\n" for text in texts), capture_output=True, text=True,
                              timeout=LIMIT_S, check=True)
        for text, line in zip(texts, done.stdout.splitlines(), strict=True):
            self.assertEqual(tokenizer(text, add_special_tokens=False).input_ids, json.loads(line), repr(text))
        return tokenizer

    def test_pairs_of_text(self):
        data, source = self.corpus(), self.folder / "tokenizer.json"
        call(BIN / "primectl", "data", "tokenizer", "train", *sorted((self.folder / "corpus").glob("*.txt")), "--vocab", 280, "--out", source)
        tokenizer = self.compare(self.train(280, data, f'{{file: "{source}"}}'), source, TEXTS + ["<|endoftext|>ab<|endoftext|>"])
        self.assertEqual((tokenizer.eos_token, tokenizer.eos_token_id, tokenizer.pad_token), ("<|endoftext|>", 0, None))

    def test_pairs_of_nucleotides(self):
        draw = random.Random(1)
        reads, source = ["".join(draw.choices("ACGT", k=draw.randrange(40, 90))) for _ in range(200)], self.folder / "tokenizer.json"
        (self.folder / "reads.fq").write_text("".join(f"@r\n{read}\n+\n{'I' * len(read)}\n" for read in reads))
        call(BIN / "primectl", "data", "tokenizer", "train", self.folder / "reads.fq", "--format", "fastq", "--vocab", 64, "--out", source)
        checkpoint = self.train(64, f'source: fastq, path: "{self.folder / "reads.fq"}"', f'{{file: "{source}"}}')
        tokenizer = self.compare(checkpoint, source, reads[:50] + ["ACGTN", "acgt"])
        self.assertEqual([tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id,
                          tokenizer.mask_token_id], [0, 1, 2, 3, 4, 5])
        config = transformers.AutoConfig.from_pretrained(checkpoint)
        self.assertEqual((config.pad_token_id, config.bos_token_id, config.eos_token_id), (0, 3, 4))

    def test_sentencepiece(self):
        try:
            import google.protobuf  # noqa: F401
            import sentencepiece
        except ImportError:
            self.skipTest("the packages sentencepiece and protobuf are not here: transformers loads no model of SentencePiece without them")
        os.environ["PRIME_PYTHON"] = sys.executable
        self.addCleanup(os.environ.pop, "PRIME_PYTHON")
        data, source, written = self.corpus(), self.folder / "m.model", io.BytesIO()
        texts = [path.read_text() for path in sorted((self.folder / "corpus").glob("*.txt"))]
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(line for text in texts for line in text.splitlines() if line), model_writer=written,
                                                 vocab_size=300, model_type="bpe", normalization_rule_name="identity", remove_extra_whitespaces=False,
                                                 byte_fallback=True, pad_id=3, minloglevel=2)
        source.write_bytes(written.getvalue())
        library = sentencepiece.SentencePieceProcessor(model_file=str(source))
        checkpoint = self.train(300, data, f'{{sentencepiece: "{source}"}}')
        self.assertEqual((checkpoint / "tokenizer.model").read_bytes(), source.read_bytes())
        self.assertFalse((checkpoint / "tokenizer.json").exists())
        tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
        for text in (*TEXTS, *texts):
            self.assertEqual(tokenizer(text).input_ids, library.encode(text), repr(text))
            self.assertEqual(tokenizer.decode(library.encode(text)), library.decode(library.encode(text)))
        self.assertEqual((len(tokenizer), tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id), (300, 1, 2, 0, 3))
        config = transformers.AutoConfig.from_pretrained(checkpoint)
        self.assertEqual((config.pad_token_id, config.bos_token_id, config.eos_token_id), (3, 1, 2))

        # Texts are prompts of such a checkpoint, and what it writes is a text.
        prompts, proofs = ["alpha beta", "int x"], self.folder / "proofs.json"
        out = call(BIN / "primectl", "generate", checkpoint, "--prompt", prompts[0], "--prompt", prompts[1], "--tokens", 3, "--prove", proofs, "-o", "json")
        for prompt, line in zip(prompts, map(json.loads, out.splitlines()), strict=True):
            self.assertEqual(line["prompt"], library.encode(prompt))
            self.assertEqual(len(line["tokens"]), 3)
            self.assertTrue(line["text"].startswith(prompt), line["text"])
        call(BIN / "primectl", "verify", proofs, "--model", checkpoint)
        self.assertIn("alpha beta", call(BIN / "primectl", "generate", checkpoint, "--prompt", prompts[0], "--tokens", 1))
        os.environ["PRIME_PYTHON"] = "/nowhere/python"
        with self.assertRaisesRegex(AssertionError, "install it .`python3 -m pip install sentencepiece`."):
            call(BIN / "primectl", "generate", checkpoint, "--prompt", prompts[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
