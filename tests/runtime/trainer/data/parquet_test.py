"""Owns reading Parquet as pyarrow writes it: every row is a document, in every packing, and what is broken is named with its place."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(os.environ["PRIME_BIN"])


def setUpModule():
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise unittest.SkipTest("the package pyarrow is not here: no Parquet can be written to be read") from None


class Parquet(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="prime-parquet-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write(self, name, texts, kind=None, **options):
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.table({"id": list(range(len(texts))), "body": pyarrow.array(texts, kind or pyarrow.string())})
        pyarrow.parquet.write_table(table, self.directory / name, **options)
        return self.directory / name

    def data(self, *paths, what="build", field="body", context=8, extra=""):
        sources = ", ".join(f"{{path: {path}, format: {'parquet' if path.suffix == '.parquet' else 'jsonl'}, field: {field}{extra}}}" for path in paths)
        manifest = self.directory / "run.yaml"
        manifest.write_text(f"version: 1\nrun: p\nmodel: {{vocab: 257, context: {context}}}\ntrain: {{batch: 1}}\ndata: {{held_out: 0%, sources: [{sources}]}}\n")
        return subprocess.run([BIN / "primectl", "data", what, manifest, "--set", f"local.data_cache={self.directory}/cache", "-o", "json"],
                              env={**os.environ, "PRIME_PYTHON": sys.executable}, capture_output=True, text=True, timeout=600, check=False)

    def test_rows_are_the_documents_that_lines_of_json_are(self):
        import pyarrow

        texts = [f"text {i} é 文 " * (i % 7) for i in range(5000)]
        lines = self.directory / "a.jsonl"
        lines.write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
        counted = json.loads(self.data(lines).stdout)["sources"][0]
        for name, kind, options in (("plain", None, {"row_group_size": 700}), ("large", pyarrow.large_string(), {"compression": "zstd"}),
                                    ("few", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), {"compression": "gzip", "row_group_size": 1}),
                                    ("pages", None, {"data_page_size": 64, "data_page_version": "2.0", "compression": "none"})):
            with self.subTest(name):
                done = self.data(self.write(name + ".parquet", texts[:300] if name == "few" else texts, kind, **options))
                self.assertEqual(done.returncode, 0, done.stderr)
                found = json.loads(done.stdout)["sources"][0]
                if name != "few":
                    self.assertEqual((found["documents"], found["tokens"], found["bytes"]), (counted["documents"], counted["tokens"], counted["bytes"]))

    def test_what_is_broken_is_named_with_row_group_and_row(self):
        texts = [f"text {i}" for i in range(50)]
        path = self.write("a.parquet", texts[:30] + [None] + texts, row_group_size=20)
        self.assertIn(f"{path}:2/11: has null as `body`, not a text", self.data(path).stderr)
        skipped = self.data(path, extra=", on_error: skip")
        self.assertEqual(json.loads(skipped.stdout)["sources"][0]["skipped"], 1, skipped.stderr)
        self.assertIn(f"{path}: has no column `words`: it has `id`, `body`", self.data(path, field="words").stderr)
        self.assertIn(f"{path}: has int64 as `id`, not a text", self.data(path, field="id").stderr)
        whole = self.write("b.parquet", texts * 100, row_group_size=1000, compression="none", use_dictionary=False, write_page_checksum=True)
        damaged = bytearray(whole.read_bytes())
        at = damaged.find(b"text 7", len(damaged) // 2)
        damaged[at] ^= 1
        whole.write_bytes(damaged)
        self.assertRegex(self.data(whole).stderr, f"{whole}:[1-5]: .*(CRC|checksum)")
        whole.write_bytes(damaged[: len(damaged) // 2])
        self.assertIn(f"{whole}: Parquet magic bytes not found in footer", self.data(whole).stderr)

    def test_memory_does_not_grow_with_the_file(self):
        def peak_mib(name, rows):
            path = self.write(name, ["%08d" % row + "x" * 4000 for row in range(rows)], compression="none", use_dictionary=False, row_group_size=1 << 20)
            manifest = self.data(path, what="stats").args[3]
            # Of all processes that this one has waited for, and those that they have.
            script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=-3); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
            done = subprocess.run([sys.executable, "-c", script, BIN / "primectl", "data", "build", manifest, "--set", f"local.data_cache={self.directory}/{name}-cache"],
                                  env={**os.environ, "PRIME_PYTHON": sys.executable}, capture_output=True, text=True, timeout=600, check=True)
            return int(done.stdout) / 1024

        small, large = peak_mib("small.parquet", 100), peak_mib("large.parquet", 40_000)
        self.assertLess(large - small, 64, f"{small:.0f} MiB for 0.4 MB, {large:.0f} for 160")


if __name__ == "__main__":
    unittest.main()
