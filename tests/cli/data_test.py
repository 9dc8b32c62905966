"""primectl data: what is compiled is counted, shown and named where it is broken; exit codes, JSON, and that runs share it."""

import json
import os
import pathlib
import random
import re
import signal
import unittest

from primectl import LIMIT_S, primectl, started, temporary_directory, wait_until

MANIFEST = """version: 1
run: genes
model: {{layers: 1, dim: 8, heads: 2, vocab: 1024, context: 16}}
train: {{batch: 2, outer_steps: 2}}
membership: {{peers: 1..2}}
data:
  tokenizer: {{file: "{folder}/tokenizer.json"}}
  held_out: 0%
  sources:
    - {{path: "{folder}/*.fastq", format: fastq, on_error: skip, quality_trim: 20, min_length: 4}}
    - {{path: "{folder}/notes.jsonl", format: jsonl, field: body}}
local: {{data_cache: "{folder}/cache"}}
"""


class Data(unittest.TestCase):
    def setUp(self):
        directory = temporary_directory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)
        reads = "".join(f"@r{i}\n{'ACGTTGCAACGT'[i % 4 :] * 4}\n+\n{'I' * len('ACGTTGCAACGT'[i % 4 :] * 4)}\n" for i in range(60))
        (self.folder / "a.fastq").write_text(reads + "@low\nACGTACGT\n+\nIIII!!!!\n@short\nACG\n+\nIII\n@broken\nACGT\n+\nII\n")
        (self.folder / "notes.jsonl").write_text('{"body": "ACGT"}\n{"body": "TTTT"}\n')
        self.manifest = self.folder / "genes.yaml"
        self.manifest.write_text(MANIFEST.format(folder=self.folder))
        done = self.call("tokenizer", "train", self.folder / "b.fq", "--format", "fastq", "--vocab", 20, "--out", self.folder / "tokenizer.json")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("b.fq: No such file or directory", done.stderr)
        (self.folder / "b.fq").write_text(reads)
        done = self.call("tokenizer", "train", self.folder / "b.fq", "--format", "fastq", "--vocab", 20, "--out", self.folder / "tokenizer.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("20 ids, learned from 60 documents", done.stdout)

    def call(self, *arguments, **streams):
        return primectl("data", *arguments, state=self.folder / "state", **streams)

    def test_what_is_compiled_is_counted_and_runs_share_it(self):
        done = self.call("build", self.manifest, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        reads, notes = told["sources"]
        self.assertEqual((reads["documents"], reads["skipped"], reads["dropped_length"], reads["trimmed_quality"]), (61, 1, 1, 1))
        self.assertEqual(reads["first_skipped"], f"{self.folder}/a.fastq:249 (record 63): has 2 scores for 4 bases")
        self.assertEqual((notes["documents"], notes["bytes"], notes["path"]), (2, 8, f"{self.folder}/notes.jsonl"))
        self.assertEqual(told["cache"], f"{self.folder}/cache")
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "cache").iterdir()}
        self.assertEqual(len(before), 2)
        again = json.loads(self.call("stats", self.manifest, "-o", "json", "--set", "run=another").stdout)
        self.assertEqual((again["digest"], again["run"]), (told["digest"], "another"))
        self.assertEqual({path: path.stat().st_mtime_ns for path in (self.folder / "cache").iterdir()}, before)
        text = self.call("stats", self.manifest).stdout
        self.assertIn("1 broken and passed over; the first: ", text)
        self.assertIn("1 reads cut for their quality", text)

    def test_shares_of_a_mix_are_shown_where_they_change(self):
        weights = self.folder / "weights.yaml"
        weights.write_text("""version: 1
run: mixed
model: {layers: 1, dim: 8, heads: 2, vocab: 257, context: 4}
data:
  held_out: 0%%
  sources:
    - {path: "%s/a.fastq", format: fastq, on_error: skip, weight: [{at: 0, weight: 3}, {at: 8192, weight: 0}]}
    - {path: "%s/notes.jsonl", format: jsonl, field: body, weight: 1}
train: {batch: 1}
local: {data_cache: "%s/cache"}
""" % (self.folder, self.folder, self.folder))
        done = self.call("stats", weights, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([source["shares"] for source in json.loads(done.stdout)["sources"]],
                         [[{"at": 0, "share": 0.75}, {"at": 8192, "share": 0.0}], [{"at": 0, "share": 0.25}, {"at": 8192, "share": 1.0}]])
        line = "75.0 %, from sample 8192 on 0.0 % of the samples"
        self.assertIn(f"  {line}\n", self.call("stats", weights).stdout)
        self.assertIn(f"  {self.folder}/a.fastq: {line}\n", primectl("validate", weights, state=self.folder / "state").stdout)

    def test_a_sample_is_shown_with_its_documents(self):
        done = self.call("inspect", self.manifest, "--sample", 1, "-o", "json")
        told = json.loads(done.stdout)
        self.assertEqual(len(told["ids"]), 17)
        self.assertGreater(len(told["documents"]), 1)
        self.assertEqual(sum(document["tokens"] for document in told["documents"]), 17)
        for document in told["documents"][:-1]:
            self.assertTrue(document["text"].endswith("[EOS]"), document)
            self.assertEqual(told["ids"][document["first"] + document["tokens"] - 1], 4)
        text = self.call("inspect", self.manifest, "--sample", 1).stdout
        self.assertIn("--- tokens 0 to ", text)

    def test_reads_are_simulated_and_are_the_same_again(self):
        draw = random.Random(3)
        for name in ("virus", "bacterium"):
            (self.folder / f"{name}.fa").write_text(">s\n" + "".join(draw.choices("ACGT", k=3000)) + "\n")
        genomes = (self.folder / "virus.fa", self.folder / "bacterium.fa")
        told = []
        for out in ("one.fq", "two.fq"):
            done = self.call("reads", *genomes, "--shares", "1,3", "--count", 400, "--seed", 9, "--to", 90, "--out", self.folder / out, "-o", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            told.append(json.loads(done.stdout))
        self.assertEqual((self.folder / "one.fq").read_bytes(), (self.folder / "two.fq").read_bytes())
        self.assertEqual([told[0][key] for key in ("schema", "reads", "seed")], ["primectl.data.reads/1", 400, 9])
        self.assertEqual(sum(source["reads"] for source in told[0]["sources"]), 400)
        self.assertLess(told[0]["sources"][0]["reads"], 150)
        lines = (self.folder / "one.fq").read_text().splitlines()
        self.assertEqual(len(lines), 1600)
        self.assertRegex(lines[0], r"^@1 source=(virus|bacterium) sequence=1 start=\d+ strand=[+-]$")
        self.assertTrue(all(len(lines[i]) == len(lines[i + 2]) for i in range(1, 1600, 4)))
        for wrong, said in (((), "needs --out FILE"), (("--out", "x", "--from", 50, "--to", 40), "`--to`, which must be the larger"),
                            (("--out", "x", "--shares", "1"), "one of --shares for each"), (("--out", "x", "--adapter", "ACGU"), "of A, C, G and T")):
            done = self.call("reads", *genomes, *wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn(said, done.stderr)

    def test_what_is_read_is_not_written_over_and_what_is_printed_not_mixed_with_it(self):
        genome = self.folder / "virus.fa"
        genome.write_text(">s\n" + "ACGTTGCAGGCTTAACCGAT" * 50 + "\n")
        linked, hard = self.folder / "linked.fa", self.folder / "hard.fa"
        linked.symlink_to(genome)
        hard.hardlink_to(genome)
        reads = ("reads", genome, "--count", 20)
        train = ("tokenizer", "train", genome, "--format", "fasta", "--vocab", 16)
        before = genome.read_bytes()
        for command in (reads, train):
            for out in (genome, linked, hard, f"{self.folder}/../{self.folder.name}/virus.fa"):
                done = self.call(*command, "--out", out)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn("would write over", done.stderr)
            with genome.open("a") as appended:
                done = self.call(*command, "--out", f"/dev/fd/{appended.fileno()}", pass_fds=[appended.fileno()])
            self.assertIn("would write over", done.stderr)
            self.assertEqual((genome.read_bytes(), linked.is_symlink()), (before, True))

            written = self.call(*command, "--out", self.folder / "written")
            self.assertEqual(written.returncode, 0, written.stderr)
            content = (self.folder / "written").read_text()
            piped = self.call(*command, "--out", "/dev/stdout")
            self.assertEqual((piped.returncode, piped.stdout), (0, content), piped.stderr)
            self.assertIn(written.stdout.splitlines()[0].split(": ", 1)[1], piped.stderr)
            with (self.folder / "redirected").open("w") as redirected:
                done = self.call(*command, "--out", "/dev/stdout", stdout=redirected)
            self.assertEqual((done.returncode, (self.folder / "redirected").read_text()), (0, content), done.stderr)
            done = self.call(*command, "--out", "/dev/stdout", "-o", "json")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("--out /dev/stdout would be mixed with what this command prints: name a file", done.stderr)
            with open("/dev/null", "w") as nothing:
                self.assertEqual(self.call(*command, "--out", "/dev/null", stdout=nothing).returncode, 0)

    def test_an_input_under_the_name_that_a_file_is_written_under_is_not_lost(self):
        hidden = self.folder / ".reads.fq.writing"
        hidden.write_text(">s\n" + "ACGTTGCAGGCTTAACCGAT" * 50 + "\n")
        for command in (("reads", hidden), ("tokenizer", "train", hidden, "--format", "fasta", "--vocab", 16)):
            done = self.call(*command, "--out", self.folder / "reads.fq")
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("would write over", done.stderr)
        self.assertTrue(hidden.read_text().startswith(">s"))

    def test_two_genomes_of_one_name_are_refused(self):
        for folder in ("one", "two"):
            (self.folder / folder).mkdir()
            (self.folder / folder / "a.fa").write_text(">s\n" + "ACGTTGCAGGCTTAACCGAT" * 50 + "\n")
        done = self.call("reads", self.folder / "one" / "a.fa", self.folder / "two" / "a.fa", "--out", self.folder / "reads.fq")
        self.assertEqual(done.returncode, 2)
        self.assertIn("two are called `a`: give one of them another name", done.stderr)

    def test_learning_pairs_is_interrupted(self):
        draw = random.Random(2)
        (self.folder / "words.txt").write_text(" ".join("".join(draw.choices("abcdefghijklmnop", k=12)) for _ in range(200_000)))
        with started("data", "tokenizer", "train", self.folder / "words.txt", "--vocab", 1_000_000, "--out", self.folder / "t.json") as process:
            self.assertIn("Learning", process.stderr.readline())  # which it says of what it has read, and then while it merges
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 130)
        self.assertFalse((self.folder / "t.json").exists())

    def test_a_pipe_that_nobody_reads_can_be_given_up(self):
        genome = self.folder / "virus.fa"
        genome.write_text(">s\n" + "ACGTTGCAGGCTTAACCGAT" * 50 + "\n")
        os.mkfifo(self.folder / "pipe")
        for command in (("reads", genome), ("tokenizer", "train", genome, "--format", "fasta", "--vocab", 16)):
            with started("data", *command, "--out", self.folder / "pipe") as process:
                wait_until("it to wait for a reader", lambda: "State:\tS" in pathlib.Path(f"/proc/{process.pid}/status").read_text())
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=LIMIT_S)
            self.assertIn(process.returncode, (-signal.SIGINT, 130))

    def test_reads_are_written_as_they_are_drawn(self):
        genome = self.folder / "virus.fa"
        genome.write_text(">s\n" + "".join(random.Random(1).choices("ACGT", k=5000)) + "\n")
        (self.folder / "reads.fq").write_text("before")
        with started("data", "reads", genome, "--count", 10**10, "--out", self.folder / "reads.fq") as process:
            hidden = self.folder / ".reads.fq.writing"
            wait_until("some of it", lambda: hidden.exists() and hidden.stat().st_size > 64 << 20)
            used = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1])
            if not os.environ.get("PRIME_SANITIZED"):  # a sanitizer keeps what is freed
                self.assertLess(used, 48 << 10, "kB")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(((self.folder / "reads.fq").read_text(), hidden.exists()), ("before", False))

    def test_what_is_broken_is_named(self):
        (self.folder / "notes.jsonl").write_text('{"body": "ACGT"}\n{"text": "TTTT"}\n')
        done = self.call("build", self.manifest)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{self.folder}/notes.jsonl:2: has no `body` (`on_error: skip` passes over and counts such records) [PR0301]", done.stderr)
        for wrong, said in ((("build", self.manifest, self.manifest), "`data build` takes one manifest"), (("tokenizer", "train"), "needs files to learn from"),
                            (("tokenizer", "train", self.folder / "a.fastq"), "needs --out FILE"), (("build", self.folder / "none.yaml"), "none.yaml")):
            done = self.call(*wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
