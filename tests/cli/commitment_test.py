"""primectl commitment, generate and verify without a model: files of activations and proofs, exit codes, JSON, and who is refused how fast."""

import json
import os
import pathlib
import random
import struct
import subprocess
import time
import unittest

from primectl import BIN, LIMIT_S, PRIMECTL, primectl, temporary_directory

WIDTH = 64
TOKENS = 70


def bf16(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def write(path, tensors):
    """{name: (dtype, shape, bytes)} as safetensors."""
    header, data = {}, b""
    for name, (dtype, shape, blob) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Commitment(unittest.TestCase):
    def setUp(self):
        directory = temporary_directory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        draw = random.Random(1)
        self.values = [draw.gauss(0, 1) for _ in range(WIDTH * TOKENS)]
        self.bits = [bf16(value) for value in self.values]
        self.states = self.directory / "states.safetensors"
        self.save(self.states, self.bits)

    def save(self, path, bits):
        count = len(bits)
        exact = struct.pack(f"<{count}f", *(struct.unpack("<f", struct.pack("<I", b << 16))[0] for b in bits))
        write(path, {"hidden": ("BF16", [TOKENS, WIDTH], struct.pack(f"<{count}H", *bits)), "wide": ("F32", [TOKENS, WIDTH], exact),
                     "flat": ("BF16", [count], struct.pack(f"<{count}H", *bits)), "ids": ("I64", [1, 2], b"\0" * 16)})

    def call(self, *arguments):
        return primectl("commitment", *arguments, state=self.directory)

    def build(self, *arguments, file=None, tensor="hidden"):
        done = self.call("build", file or self.states, "--tensor", tensor, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def check(self, proofs, *arguments, file=None, tensor="hidden"):
        path = self.directory / "proofs.json"
        path.write_text(json.dumps(proofs))
        done = self.call("check", file or self.states, "--tensor", tensor, "--proofs", path, "-o", "json", *arguments)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 0 if all(row["accepted"] for row in rows) and rows else 5, done.stderr)
        return rows

    def refused(self, code, says, *arguments):
        done = self.call(*arguments)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertIn(says, done.stderr)

    def test_built_proofs_are_accepted(self):
        built = self.build()
        self.assertEqual({key: built[key] for key in ("schema", "k", "tokens", "prefill")},
                         {"schema": "primectl.commitment/1", "k": 128, "tokens": 32, "prefill": 0})
        self.assertEqual([len(proof) for proof in built["proofs"]], [344] * 3)
        rows = self.check(built)
        self.assertEqual([row["proof"] for row in rows], [0, 1, 2])
        self.assertEqual(rows[0], {"schema": "primectl.commitment.check/1", "proof": 0, "accepted": True, "exponent_mismatches": 0, "mantissa_mean": 0.0,
                                   "mantissa_median": 0.0, "sign_mismatches": 0, "values": 128, "reason": None})

    def test_f32_is_rounded_to_the_same_proofs(self):
        self.assertEqual(self.build(tensor="wide"), self.build())
        self.assertTrue(all(row["accepted"] for row in self.check(self.build(), tensor="wide")))

    def test_a_prefill_is_one_segment(self):
        self.assertEqual(len(self.build("--prefill")["proofs"]), 4)
        built = self.build("--prefill=40", "--tokens", "10", "--k", "16")
        self.assertEqual((len(built["proofs"]), built["prefill"]), (4, 40))
        self.assertTrue(all(row["accepted"] for row in self.check(built, "--prefill=40", "--k", "16")))

    def test_what_differs_is_told(self):
        built = self.build()
        other = self.directory / "other.safetensors"
        self.save(other, [bits ^ 0x8000 if i < 32 * WIDTH else bits for i, bits in enumerate(self.bits)])
        rows = self.check(built, file=other)
        self.assertEqual([row["accepted"] for row in rows], [False, True, True])
        self.assertEqual((rows[0]["exponent_mismatches"], rows[0]["sign_mismatches"]), (0, 128))
        self.save(other, [bits ^ 1 for bits in self.bits])
        self.assertTrue(all(row["accepted"] for row in self.check(built, file=other)))
        self.assertFalse(any(row["accepted"] for row in self.check(built, "--thresholds", "exact-f32", file=other)))
        self.assertFalse(any(row["accepted"] for row in self.check(built, file=other, tensor="wide")), "f32 is compared exactly")
        done = self.call("check", other, "--tensor", "hidden", "--proofs", self.directory / "proofs.json", "--thresholds", "0/0.5/0")
        self.assertEqual(done.returncode, 5)
        self.assertIn("0        differs: ", done.stdout)
        self.assertIn("0 of 3 segments accepted (0/0.5/0)", done.stdout)

    def test_every_proof_has_an_answer(self):
        built = self.build("--tokens", "10")
        for proofs in ([], built["proofs"][:2], built["proofs"] * 2, ["AA=="] * 7, [""] * 7, built["proofs"][::-1]):
            rows = self.check({**built, "proofs": proofs})
            self.assertEqual(len(rows), max(7, len(proofs)))
            self.assertTrue(all(row["accepted"] or row["reason"] for row in rows))

    def test_proofs_by_the_million_have_one_answer(self):
        path = self.directory / "many.json"
        path.write_text(json.dumps({**self.build(), "proofs": [""] * 1_000_000}))
        self.refused(5, "it holds 1000000 proofs, and the tensor 70 tokens", "check", self.states, "--tensor", "hidden", "--proofs", path)

    def test_the_prover_does_not_choose_how_much_is_proved(self):
        path = self.directory / "few.json"
        arguments = ("check", self.states, "--tensor", "hidden", "--proofs", path)

        def built(*options):
            path.write_text(json.dumps(self.build(*options)))

        built("--k", "1")
        self.refused(5, "each proof holds 1 value; at least 128 are asked for (--k)", *arguments)
        self.refused(5, "each proof holds 1 value; at least 2 are asked for (--k)", *arguments, "--k", "2")
        self.assertEqual(self.call(*arguments, "--k", "1").returncode, 0)
        built("--tokens", "64")
        self.refused(5, "each proof is of 64 tokens; at most 32 are asked for (--tokens)", *arguments)
        self.assertEqual(self.call(*arguments, "--tokens", "64").returncode, 0)
        built("--prefill=70")
        self.refused(5, "its first segment is a prompt of 70 tokens; one of 0 tokens is asked for (--prefill=N)", *arguments)
        self.refused(5, "one of 1 token is asked for", *arguments, "--prefill")
        self.assertEqual(self.call(*arguments, "--prefill=70").returncode, 0)
        built("--k", "129", "--tokens", "31")
        self.assertEqual(self.call(*arguments).returncode, 0, "more than was asked for")
        # Made up without any activations: a constant, and one segment of all.
        path.write_text(json.dumps({"schema": "primectl.commitment/1", "k": 1, "tokens": 1000, "prefill": 0, "proofs": ["/9lAiA=="]}))
        self.refused(5, "PR0904", *arguments)

    def test_thresholds_between_two_runs(self):
        other = self.directory / "other.safetensors"
        self.save(other, [bits ^ (i % 3 == 0) for i, bits in enumerate(self.bits)])
        done = self.call("calibrate", self.states, other, "--tensor", "hidden", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        measured = json.loads(done.stdout)
        rows = self.check(self.build(), "--thresholds", measured["thresholds"], file=other)
        self.assertTrue(all(row["accepted"] for row in rows))
        self.refused(2, "takes two files", "calibrate", self.states, "--tensor", "hidden")

    def test_what_cannot_be_read_is_refused_by_name(self):
        self.refused(2, "no tensor `x`; there are `hidden`", "build", self.states, "--tensor", "x")
        self.refused(2, "has the shape [4480]; activations are [tokens, width]", "build", self.states, "--tensor", "flat")
        self.refused(2, "is of i64; activations are of bf16 or f32", "build", self.states, "--tensor", "ids")
        self.refused(1, "PR0701", "build", self.directory / "nothing", "--tensor", "hidden")
        self.refused(2, "--proofs FILE", "check", self.states, "--tensor", "hidden")
        self.refused(2, "--k", "build", self.states, "--tensor", "hidden", "--k", "0")
        broken = self.directory / "broken.safetensors"
        broken.write_bytes(self.states.read_bytes()[:-1])
        self.refused(1, "PR0702", "build", broken, "--tensor", "hidden")
        bad = list(self.bits)
        bad[33 * WIDTH + 5] = 0x7F80
        self.save(broken, bad)
        self.refused(1, "tokens 32 to 63: activation 69", "build", broken, "--tensor", "hidden")

    def test_garbage_of_any_size_is_refused_at_once(self):
        path = self.directory / "garbage"
        good = self.build()
        for garbage in (b"", b"\0" * 100, b"[" * (32 << 20), b"{\"proofs\":[" + b"1," * (16 << 20), json.dumps({**good, "k": 10**30}).encode(),
                        json.dumps({**good, "proofs": [[]]}).encode(), json.dumps({**good, "tokens": 0}).encode()):
            path.write_bytes(garbage)
            self.refused(5, "PR0901", "check", self.states, "--tensor", "hidden", "--proofs", path)
            done = primectl("verify", path, "--model", "/nowhere", state=self.directory)
            self.assertEqual((done.returncode, done.stdout), (5, ""), done.stderr)
        with path.open("wb") as file:
            file.truncate(1 << 30)
        begin = time.monotonic()
        self.refused(5, "holds 1073741824 bytes; no file of proofs has more than 67108864", "check", self.states, "--tensor", "hidden", "--proofs", path)
        self.assertEqual(primectl("verify", path, "--model", "/nowhere", state=self.directory).returncode, 5)
        self.assertLess(time.monotonic() - begin, 30)  # no expectation of speed: a guard against reading it

    def test_more_than_there_is_memory_is_refused_by_name(self):
        header = json.dumps({"hidden": {"dtype": "BF16", "shape": [1 << 20, 1 << 19], "data_offsets": [0, 1 << 40]}}).encode()
        with (self.directory / "holes.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + (1 << 40))
        self.refused(1, "`hidden` takes 1099511627776 bytes as bf16, and this machine has ", "build", self.directory / "holes.safetensors", "--tensor", "hidden")

    @unittest.skipIf(os.environ.get("PRIME_SANITIZED"), "a sanitizer takes more addresses than any limit leaves; the release suite has one")
    def test_a_limit_of_memory_ends_nothing_without_a_name(self):
        spaces = self.directory / "spaces"
        spaces.write_bytes(b" " * (60 << 20))
        for arguments in (["verify", spaces, "--model", "/nowhere"], ["commitment", "check", self.states, "--tensor", "hidden", "--proofs", spaces]):
            done = subprocess.run(["bash", "-c", 'ulimit -v 100000; exec "$@"', "x", PRIMECTL, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("PR0708", done.stderr)

    def test_names_of_strangers_are_shown_harmlessly(self):
        path = self.directory / "named.safetensors"
        write(path, {"a\x1b[31m\x07\nhint: all is well": ("BF16", [1, 2], b"\0" * 4)})
        done = self.call("build", path, "--tensor", "x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("`a?[31m??hint: all is well`", done.stderr)
        self.assertNotIn("\x1b", done.stderr)

    def test_types_that_are_not_read_beside_the_tensor_are_no_matter(self):
        path = self.directory / "beside.safetensors"
        blob = struct.pack("<64H", *[0x3F80 + i for i in range(64)])
        write(path, {"hidden": ("BF16", [1, 64], blob), "mask": ("BOOL", [1, 2], b"\0\1"), "low": ("F8_E4M3", [3], b"abc")})
        self.assertEqual(len(self.build(file=path)["proofs"]), 1)
        self.refused(2, "`mask` is of BOOL; activations are of bf16 or f32", "build", path, "--tensor", "mask")

    def test_a_file_that_could_not_be_written_or_read_is_refused_before_the_work(self):
        """There is no model here: what is refused first is the file."""
        def refused(code, says, *arguments):
            done = primectl("generate", "/nowhere", *arguments, state=self.directory)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertIn(says, done.stderr)

        one = ("--prompt", "x", "--prove")
        refused(1, "Is a directory", *one, self.directory)
        refused(1, "File name too long", *one, self.directory / ("n" * 300))
        refused(1, "No such file or directory", *one, self.directory / "missing" / "proof.json")
        self.assertEqual([path.name for path in self.directory.iterdir() if path.name.endswith(".writing")], [])
        prompts = self.directory / "prompts"
        prompts.write_text("x" * 100 + "\n")
        refused(2, f"--prove {prompts} would write over what is read: name another file", "--prompts", prompts, "--prove", prompts)
        refused(2, "--prove /dev/stdout would be mixed with what this command prints: name a file", *one, "/dev/stdout")
        refused(2, "holds 4194304 values and 67108864 bytes at most", "--prompts", prompts, "--tokens", "1000000", "--k", "8192", "--prove", self.directory / "p.json")
        if not os.environ.get("PRIME_SANITIZED"):  # a sanitizer takes minutes to read so many
            prompts.write_text("".join("[" + "1," * 99999 + "1]\n" for _ in range(170)))
            refused(2, "the prompts have 17000000 tokens; 16777216 at most are taken at a time", "--prompt-tokens", prompts)
        # More values than a file of proofs may have, handed over to the program that computes: what it lacks is the model.
        prompts.write_text("x" * (4400 << 10) + "\n")
        refused(1, "/nowhere/config.json" if (BIN / "prime-inference").exists() else "prime-inference: ", "--prompts", prompts)

    def test_generate_says_what_it_lacks(self):
        def refused(says, *arguments):
            done = primectl("generate", *arguments, state=self.directory)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(says, done.stderr)

        refused("give --prompt TEXT", "/nowhere")
        prompts = self.directory / "prompts"
        prompts.write_text("one\n\ntwo\n")
        refused("line 2 is empty", "/nowhere", "--prompts", prompts)
        refused("not both", "/nowhere", "--prompt", "x", "--prompt-tokens", prompts)
        refused("line 1 is no list of token ids", "/nowhere", "--prompt-tokens", prompts)
        prompts.write_text("")
        refused("holds no prompt", "/nowhere", "--prompts", prompts)


if __name__ == "__main__":
    unittest.main(verbosity=2)
