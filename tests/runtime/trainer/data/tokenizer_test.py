"""Owns the comparison of our tokenizers' ids with Hugging Face's `tokenizers`, on ten thousand strings of each kind, and of those that
`primectl data tokenizer train` makes with what that library loads and learns."""

import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["PRIME_BIN"])
SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
STRINGS = 10_000
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
METAGENE = ["[PAD]", "[UNK]", "[SEP]", "[BOS]", "[EOS]", "[MASK]", "_", "A", "C", "G", "T", "N"]
# Of many scripts, with marks, digits of other scripts, joiners, spaces of all kinds and what lies beyond the first plane.
PIECES = ["the ", "don't", " we'LL", " 12345", "３４", "٤٥", "é", "e\u0301", "ß", "Ωmega", "привет", "文字列", "ひらがな", "한국어", "עברית", "العربية",
          "हिन्दी", "ไทย", "😀", "👩‍👩‍👧", "\U0001d518", "_", "__x", "\t", "\n", "\r\n", "  ", "   ", "\u00a0", "\u2003", "\u3000", "\u0085", "\u200b",
          "\u200d", "!", "…", "—", "$9.99", "a\u00adb", "\ufeff", "\u180e", "<|endoftext|>", "[EOS]", "\x00", "\x7f", "ǅ", "Ⅷ", "²", "½", "﹏", "‿"]


def setUpModule():
    try:
        import tokenizers  # noqa: F401
    except ImportError:
        raise unittest.SkipTest("the package tokenizers is not here: our ids are compared with nothing") from None


def strings(seed):
    draw = random.Random(seed)
    prose = (SOURCE / "docs" / "TROUBLESHOOTING.md").read_text()
    for _ in range(STRINGS):
        if draw.random() < 0.3:
            begin = draw.randrange(len(prose))
            yield prose[begin : begin + draw.randrange(200)]
        else:
            yield "".join(draw.choice(PIECES) for _ in range(draw.randrange(12)))


def reads(seed, count=STRINGS, letters="ACGT" * 20 + "N"):
    draw = random.Random(seed)
    genome = "".join(draw.choice(letters) for _ in range(20_000))
    for _ in range(count):
        begin = draw.randrange(len(genome))
        yield genome[begin : begin + draw.randrange(1, 300)]


class Tokenizers(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="prime-tokenizer-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def compare(self, tokenizer, texts):
        path = self.directory / "tokenizer.json"
        tokenizer.save(str(path))
        texts = list(texts)
        done = subprocess.run([BIN / "data-tokenize", path], input="".join(json.dumps(text) + "\n" for text in texts), capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        ours = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(ours), len(texts))
        for text, ids, encoding in zip(texts, ours, tokenizer.encode_batch(texts, add_special_tokens=False)):
            self.assertEqual(ids, encoding.ids, repr(text))

    def test_ids_of_gpt2_s_kind_are_hugging_face_s(self):
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.train_from_iterator(strings(1), trainers.BpeTrainer(vocab_size=3000, special_tokens=["<|endoftext|>"],
                                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        self.compare(tokenizer, strings(2))

    def test_ids_of_llama_3_s_kind_are_hugging_face_s(self):
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE(ignore_merges=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated"),
                                                           pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tokenizer.train_from_iterator(strings(3), trainers.BpeTrainer(vocab_size=2000, special_tokens=["<|endoftext|>"],
                                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
        self.compare(tokenizer, (text for text in strings(4) if not set(text) & set("\u0085\u180e")))

    def test_ids_of_metagene_s_kind_are_hugging_face_s(self):
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.train_from_iterator(reads(5), trainers.BpeTrainer(vocab_size=1024, special_tokens=METAGENE[:6], show_progress=False))
        self.compare(tokenizer, list(reads(6)) + list(reads(7, 50, "ACGT")) + list(strings(8)))
        self.compare(tokenizer, ["".join(reads(9, 100))])  # a word of fifteen thousand letters

    def train(self, vocab, fmt, content):
        source, out = self.directory / "source", self.directory / "out.json"
        source.write_text(content)
        done = subprocess.run([BIN / "primectl", "data", "tokenizer", "train", source, "--vocab", str(vocab), "--format", fmt, "--out", out, "-o", "json"],
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["vocab"], vocab)
        return out

    def test_what_we_train_hugging_face_loads_and_it_has_the_merges_that_it_would_learn(self):
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        texts = list(reads(10, 2000))
        ours = Tokenizer.from_file(str(self.train(400, "fastq", "".join(f"@r\n{read}\n+\n{'I' * len(read)}\n" for read in texts))))
        for ids, text in enumerate(METAGENE):
            self.assertEqual(ours.token_to_id(text), ids)
        self.compare(ours, reads(11))
        self.assertEqual(ours.decode(ours.encode("ACGTTGCA").ids, skip_special_tokens=False).replace(" ", ""), "ACGTTGCA")
        theirs = Tokenizer(models.BPE(unk_token="[UNK]"))
        theirs.pre_tokenizer = pre_tokenizers.Whitespace()
        theirs.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=400, special_tokens=METAGENE, show_progress=False))
        self.assertEqual(json.loads(ours.to_str())["model"]["merges"][:200], json.loads(theirs.to_str())["model"]["merges"][:200])

        prose = (SOURCE / "docs" / "TROUBLESHOOTING.md").read_text()
        self.compare(Tokenizer.from_file(str(self.train(700, "text", prose))), strings(12))


if __name__ == "__main__":
    unittest.main()
