"""Owns the comparison of what SentencePiece models make of text here with what their own library says, on ten thousand strings for each
kind of model, and what is said where model, library or process fail."""

import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from tokenizer_test import strings

BIN = pathlib.Path(os.environ["PRIME_BIN"])
LIMIT_S = 600
KINDS = {
    # As Llama's: characters as they are, spaces as they are, bytes for what is rare.
    "pairs": {"model_type": "bpe", "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True, "character_coverage": 0.99},
    # As T5's: normalized, one space for several.
    "unigram": {"model_type": "unigram", "byte_fallback": True, "character_coverage": 0.99},
    "unknown": {"model_type": "unigram", "character_coverage": 0.99, "pad_id": 3, "eos_piece": "[END]"},
    "bare": {"model_type": "bpe", "add_dummy_prefix": False, "user_defined_symbols": ["don't", "<sep>"], "byte_fallback": True},
}


def setUpModule():
    try:
        import sentencepiece  # noqa: F401
    except ImportError:
        raise unittest.SkipTest("the package sentencepiece is not here: there is no model, and nothing to compare with") from None


def prose():
    """The same for ever, whatever becomes of our documents."""
    draw = random.Random(7)
    words = ["".join(draw.choices(("ma", "ter", "in", "o", "lec", "qui", "sta", "re", "un", "fol", "ki", "pra"), k=draw.randint(1, 5))) for _ in range(1500)]
    lines = []
    for _ in range(500):
        line = " ".join(draw.choices(words, k=draw.randint(4, 18)))
        lines.append(draw.choice(("", "", "", "## ", "- ", "  * ")) + line.capitalize() + draw.choice((".", ",", ":", "?", " (so it is)", " `a_b`", "")))
        if draw.random() < 0.2:
            lines.append("")
    return "\n".join(lines) + "\n"


def trained(**options):
    import sentencepiece

    model = io.BytesIO()
    lines = [line for line in prose().splitlines() if line.strip()] + ["Ωmega привет 文字列 한국어 हिन्दी 😀 e\u0301"]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, vocab_size=800, minloglevel=2, **options)
    return model.getvalue()


def without_sentencepiece(folder):
    """An interpreter that has no packages at all."""
    path = folder / "bare-python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    path.chmod(0o755)
    return path


class SentencePiece(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="prime-sentencepiece-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.environment = {**os.environ, "PRIME_PYTHON": sys.executable}

    def model(self, kind):
        import sentencepiece

        path = self.directory / f"{kind}.model"
        path.write_bytes(trained(**KINDS[kind]))
        return path, sentencepiece.SentencePieceProcessor(model_file=str(path))

    def tokenize(self, path, lines, *words):
        done = subprocess.run([BIN / "data-tokenize", path, *words], input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True,
                              timeout=LIMIT_S, check=False, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]

    def test_ids_and_texts_are_the_library_s(self):
        texts = list(strings(20)) + ["", " ", "\u2581", "a\u2581b", "</s>", "<0x41>", "\ufdfa" * 50]
        for kind in KINDS:
            with self.subTest(kind):
                path, library = self.model(kind)
                told = self.tokenize(path, texts)
                self.assertEqual(len(told), len(texts))
                self.assertTrue(any(library.is_byte(i) for ids in told for i in ids["ids"]) or kind == "unknown")
                for text, ours in zip(texts, told):
                    self.assertEqual(ours["ids"], library.encode(text), repr(text))
                    self.assertEqual(ours["text"], library.decode(ours["ids"]), repr(text))

    def test_a_text_that_is_cut_before_a_line_s_end_is_tokenized_as_the_whole(self):
        text = prose()
        lines = text.splitlines()
        half = len(lines) // 2
        while lines[half - 1].endswith(" ") or not lines[half - 1]:
            half += 1
        parts = ["\n".join(lines[:half]), "\n" + "\n".join(lines[half:])]
        long = text * (1_200_000 // len(text))  # is cut on its way: the library would hold fifty bytes for each
        for kind in KINDS:
            with self.subTest(kind):
                path, library = self.model(kind)
                (told,) = self.tokenize(path, [parts], "parts")
                self.assertEqual(told["ids"], library.encode("".join(parts)))
                if kind == "unigram":  # pairs take ten seconds each
                    (told,) = self.tokenize(path, [long])
                    self.check_as_good(told["ids"], library.encode(long), library)

    def check_as_good(self, ours, theirs, library):
        """Over a megabyte the library adds up floats of four bytes: of two ways that score nearly the same their rounding decides."""
        self.assertEqual(len(ours), len(theirs))
        self.assertLess(sum(a != b for a, b in zip(ours, theirs)), len(theirs) / 10_000)
        self.assertAlmostEqual(*(sum(library.get_score(i) for i in ids if not library.is_byte(i)) for ids in (ours, theirs)), delta=0.1)
        self.assertEqual(library.decode(ours), library.decode(theirs))

    def data(self, what, sources, tokenizer, vocab=800, context=8, **environment):
        manifest = self.directory / "run.yaml"
        manifest.write_text(f"version: 1\nrun: p\nmodel: {{vocab: {vocab}, context: {context}}}\ntrain: {{batch: 1}}\n"
                            f"data: {{held_out: 0%, tokenizer: {{sentencepiece: {tokenizer}}}, sources: [{sources}]}}\n")
        return subprocess.run([BIN / "primectl", "data", what, manifest, "--set", f"local.data_cache={self.directory}/cache", "-o", "json"],
                              env={**self.environment, **environment}, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def write_sources(self, texts):
        lines, folder = self.directory / "a.jsonl", self.directory / "texts"
        lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        folder.mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (folder / f"{number:03}.txt").write_text(text)
        sources = {"jsonl": f"{{path: {lines}, format: jsonl}}", "text": f"{{path: {folder}, format: text}}"}
        try:
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table({"text": texts}), self.directory / "a.parquet")
            sources["parquet"] = f"{{path: {self.directory / 'a.parquet'}, format: parquet}}"
        except ImportError:
            print("no pyarrow: nothing is built of Parquet")
        return sources

    def test_shards_hold_the_library_s_ids_and_each_document_ends(self):
        texts = [text for text in strings(21) if text and "\0" not in text and "\r" not in text][:200]
        sources = self.write_sources(texts)
        for kind in ("pairs", "unknown"):
            path, library = self.model(kind)
            ids = [i for text in texts for i in (*library.encode(text), library.eos_id())]
            for source, words in sources.items():
                with self.subTest(kind, source=source):
                    # One sample is all there is, in its order.
                    shown = self.data("inspect", words, path, context=len(ids) - 1)
                    self.assertEqual(shown.returncode, 0, shown.stderr)
                    told = json.loads(shown.stdout)
                    self.assertEqual(told["ids"], ids)
                    self.assertEqual([document["text"] for document in told["documents"]],
                                     [library.decode(library.encode(text)) + library.id_to_piece(library.eos_id()) for text in texts])
                    # What is in the cache needs no library.
                    counted = self.data("stats", words, path, context=len(ids) - 1, PRIME_PYTHON=str(without_sentencepiece(self.directory)))
                    if source != "parquet":
                        self.assertEqual(counted.returncode, 0, counted.stderr)
                    self.assertEqual(json.loads(self.data("build", words, path, context=len(ids) - 1).stdout)["sources"][0]["tokens"], len(ids))

    def refused(self, tokenizer, says, **options):
        done = self.data("build", self.write_sources(["one text", "die", "two"])["jsonl"].replace("}", ", on_error: skip}"), tokenizer, **options)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(says, done.stderr)
        self.assertEqual(done.stderr.count("error"), 1 + says.count("error"), done.stderr)

    def test_what_is_no_model_is_named_once(self):
        path, _ = self.model("pairs")
        model, is_none = path.read_bytes(), f"{path}: is no SentencePiece model: "
        for content, says in ((b"", is_none + "it is empty"), (b"no protocol buffer", is_none + "it begins with no piece"),
                              (model[: len(model) // 2], is_none + "it goes wrong behind its piece"), (b'{"model": {}}', is_none + "it begins with no piece")):
            path.write_bytes(content)
            self.refused(path, says)
        path.write_bytes(model[: model.index(b"</s>") - 4])  # ends between two pieces, and has no bytes
        self.refused(path, f"{path}: its library does not take this SentencePiece model: ")
        self.refused(self.directory, "`data.tokenizer`: ")
        self.refused(self.directory / "none.model", "none.model: No such file or directory")
        path.write_bytes(model)
        self.refused(path, f"`model.vocab` must be at least 800 for the tokenizer {path}, found 799", vocab=799)

    def test_a_machine_without_the_library_is_told_what_to_install(self):
        path, _ = self.model("pairs")
        python = without_sentencepiece(self.directory)
        self.refused(path, f"{path}: SentencePiece models are applied by Python's sentencepiece, and `{python}` has none (No module named 'sentencepiece'): "
                           "install it (`python3 -m pip install sentencepiece`)", PRIME_PYTHON=str(python))

    def test_a_process_that_dies_in_the_middle_ends_the_work(self):
        path, _ = self.model("pairs")
        stands_in = self.directory / "stands-in"
        stands_in.mkdir()
        (stands_in / "sentencepiece.py").write_text(
            "import os, signal, sys\nsys.path.remove(os.environ['STANDS_IN'])\ndel sys.modules['sentencepiece']\nimport sentencepiece as real\n"
            "class SentencePieceProcessor(real.SentencePieceProcessor):\n"
            "    def encode(self, text):\n        if text == b'die': os.kill(os.getpid(), signal.SIGKILL)\n        return super().encode(text)\n"
            "real.SentencePieceProcessor = SentencePieceProcessor\n")
        self.refused(path, f"{path}: `{sys.executable}`, which applies this SentencePiece model, ended in between, by signal 9",
                     PYTHONPATH=str(stands_in), STANDS_IN=str(stands_in))


if __name__ == "__main__":
    unittest.main()
