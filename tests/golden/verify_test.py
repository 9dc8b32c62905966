"""Owns the checks of `primectl generate` and `verify` on models that transformers made: who is honest passes, every fraud is found.

usage: verify_test.py BIN_DIRECTORY
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
BIN = None


class Verify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import verification

        cls.directory = tempfile.TemporaryDirectory(prefix="prime-verify-")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.bench = verification.Bench(BIN, cls.directory.name, verification.SMALL)
        cls.bench.prepare()

    def refused(self, file, *says, arguments=()):
        report = self.bench.verify("", file, *arguments)
        self.assertFalse(report["accepted"])
        text = json.dumps(report)
        for part in says:
            self.assertIn(part, text)
        return report

    def test_honest_provers_pass_and_frauds_are_found(self):
        self.bench.run()
        print(self.bench.table())
        for row in self.bench.rows:
            if row["honest"]:
                self.assertTrue(row["accepted"], row)
                self.assertEqual((row["exact-f32"], row["toploc-bf16"]), (0, 0), row)
            else:
                self.assertFalse(row["accepted"], row)
                self.assertEqual(row["exact-f32"], row["sequences"], row)

    def test_the_text_is_what_transformers_writes(self):
        import torch
        import transformers

        model = transformers.LlamaForCausalLM.from_pretrained(self.bench.models["claimed"]).eval()
        file = self.bench.generate("text")
        for sequence in file["sequences"][:3]:
            prompt = torch.tensor([sequence["prompt"]])
            with torch.no_grad():
                tokens = model.generate(prompt, max_new_tokens=self.bench.size.tokens, do_sample=False, pad_token_id=0, attention_mask=torch.ones_like(prompt))
            self.assertEqual(sequence["tokens"], tokens[0, prompt.shape[1]:].tolist())
            self.assertEqual(len(sequence["proofs"]), 1 + -(-(self.bench.size.tokens - 1) // 32))

    def test_what_is_wrong_with_a_file_is_named(self):
        good = self.bench.generate("good")
        self.assertTrue(self.bench.verify("good", good)["accepted"])
        change = lambda edit: (lambda copy: (edit(copy), copy)[1])(json.loads(json.dumps(good)))  # noqa: E731
        bad = json.loads(json.dumps(good))
        sequences = bad["sequences"]
        sequences[0]["proofs"].pop()
        sequences[1]["proofs"].append(sequences[1]["proofs"][0])
        sequences[2]["proofs"].reverse()
        sequences[3]["proofs"][1] = sequences[3]["proofs"][2]
        sequences[4]["proofs"][0] = "AAAA"
        sequences[5]["proofs"][0] = "!"
        sequences[6]["tokens"][3] = 300
        sequences[7]["tokens"][3] = (sequences[7]["tokens"][3] + 1) % 256
        report = self.refused(bad, "missing: there are 2 proofs for 3 segments", "one too many", "out of order: it proves segment",
                              "repeated: it is the proof of segment 2", "malformed: 3 bytes, where k = 128 takes 258", "malformed: no base64",
                              "sequence 6: token 300 is none of the model's 256", "are not what the promised sampling chooses, the first at 3")
        whole = {segment["sequence"] for segment in report["segments"]} - {s["sequence"] for s in report["segments"] if not s["accepted"]}
        self.assertEqual(whole, {8, 9}, "what is not changed is accepted")
        self.refused(change(lambda file: file.update(model="0" * 64)), "another model: the file names 000")
        self.refused(change(lambda file: file.update(tokenizer="0" * 64)), "another tokenizer")
        self.refused(change(lambda file: file.update(k=64)), "each proof holds 64 values; at least 128 are asked for (--k)")
        self.refused(good, "it was computed in f32; bf16 is asked for (--dtype)", arguments=("--dtype", "bf16"))
        self.refused(self.bench.generate("few", "claimed", "--k", "16"), "at least 128 are asked for")
        self.refused(self.bench.generate("wide", "claimed", "--segment", "64"), "each proof is of 64 tokens; at most 32 are asked for")
        self.assertTrue(self.bench.verify("few", self.bench.generate("few", "claimed", "--k", "16"), "--k", "16")["accepted"])

    def test_models_of_every_shape_and_type_are_read(self):
        import transformers

        model = transformers.LlamaForCausalLM.from_pretrained(self.bench.models["claimed"])
        folder = pathlib.Path(self.directory.name)
        expected = [sequence["tokens"] for sequence in self.bench.generate("whole")["sequences"]]
        model.save_pretrained(folder / "sharded", max_shard_size="300KB")
        self.assertGreater(len(list((folder / "sharded").glob("*.safetensors"))), 1)
        self.bench.models["sharded"] = folder / "sharded"
        sharded = self.bench.generate("sharded", "sharded")
        self.assertEqual([sequence["tokens"] for sequence in sharded["sequences"]], expected)
        self.assertEqual(sharded["model"], self.bench.generate("whole")["model"], "how tensors are spread over files is no part of the model")
        for name in ("bfloat16", "float16"):
            self.bench.models[name] = folder / name
            import torch

            model.to(getattr(torch, name)).save_pretrained(folder / name)
            again = self.bench.generate(name, name)
            self.assertNotEqual(again["model"], sharded["model"])
        tied = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**model.config.to_dict(), "tie_word_embeddings": True, "num_key_value_heads": 1, "dtype": "float32"}))
        self.bench.models["tied"] = folder / "tied"
        tied.save_pretrained(folder / "tied")
        self.bench.generate("tied", "tied")

    def test_a_checkpoint_of_ours_is_run(self):
        folder = pathlib.Path(self.directory.name) / "ours"
        folder.mkdir()
        (folder / "data").mkdir()
        for number in range(40):
            (folder / "data" / f"file{number}.h").write_text(f"int value_{number};\n" * 40)
        manifest = folder / "run.yaml"
        manifest.write_text("version: 1\nrun: tiny\nmodel: {layers: 1, dim: 24, heads: 2, kv_heads: 1, ffn: 40, vocab: 256, context: 40, tie_embeddings: true}\n"
                            f"data: {{path: {folder / 'data'}}}\ntrain: {{batch: 2, outer_steps: 1}}\nsync: {{inner_steps: 2}}\nmembership: {{peers: 1..2}}\n")
        subprocess.run([BIN / "diloco-reference", "run", manifest, "--peers", "1", "--steps", "1", "--out", folder / "out"], check=True, stdout=subprocess.DEVNULL)
        proof = folder / "proof.json"
        done = self.bench.call("generate", folder / "out" / "final", "--prompt", "int", "--tokens", 30, "--prove", proof)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("int"), done.stdout)
        done = self.bench.call("verify", proof, "--model", folder / "out" / "final")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_cannot_be_run_is_refused_by_name(self):
        folder = pathlib.Path(self.directory.name) / "other"
        folder.mkdir()
        config = json.loads((self.bench.models["claimed"] / "config.json").read_text())
        (folder / "model.safetensors").write_bytes((self.bench.models["claimed"] / "model.safetensors").read_bytes())

        def says(edit, *parts, arguments=("--prompt", "x")):
            (folder / "config.json").write_text(json.dumps({**config, **edit}))
            done = self.bench.call("generate", folder, "--tokens", 2, *arguments)
            self.assertNotEqual(done.returncode, 0)
            for part in parts:
                self.assertIn(part, done.stderr)

        says({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "PR0903", "\"gpt2\"", "accepted is `llama`")
        says({"attention_bias": True}, "without biases")
        says({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "its rotations are scaled (`\"llama3\"`)")
        says({"quantization_config": {"bits": 4}}, "it is quantized")
        says({"hidden_size": 128, "head_dim": 32}, "PR0702", "another shape than config.json says")
        says({"num_attention_heads": 7}, "do not divide a width")
        says({"vocab_size": "many"}, "`vocab_size` is `\"many\"`")
        says({}, "it has 300 tokens with what is written, and the model's context 256", arguments=("--prompt", "x" * 298))
        (folder / "tokenizer.json").write_text("{}")
        says({}, "its tokenizer is not `bytes`", "--prompt-tokens FILE")
        ids = folder / "ids"
        ids.write_text("[1, 2, 3]\n[4]\n")
        (folder / "config.json").write_text(json.dumps(config))
        done = self.bench.call("generate", folder, "--tokens", 2, "--prompt-tokens", ids, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(line["prompt"], len(line["tokens"]), line["text"]) for line in lines], [([1, 2, 3], 2, None), ([4], 2, None)])


def main():
    global BIN
    if importlib.util.find_spec("transformers") is None:
        print("skipped: transformers is not installed for this Python")
        return SKIPPED
    BIN = pathlib.Path(sys.argv[1])
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    outcome = unittest.main(argv=sys.argv[:1] + sys.argv[2:], exit=False, verbosity=2)
    return 0 if outcome.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
