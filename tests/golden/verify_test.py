"""Owns the checks of `primectl generate` and `verify` on models that transformers made: who is honest passes, every fraud is found.

usage: verify_test.py BIN_DIRECTORY
"""

import importlib.util
import json
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
BIN = None


class Family:
    """What holds of every family of models. Subclasses name the size."""

    SIZE = None

    @classmethod
    def setUpClass(cls):
        import verification

        cls.directory = tempfile.TemporaryDirectory(prefix="prime-verify-")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.bench = verification.Bench(BIN, cls.directory.name, getattr(verification, cls.SIZE))
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
        self.assertEqual(self.bench.calibrated, "exact-f32", "honest runs in f32 differ by nothing")

    def test_short_texts_and_segments_of_honest_provers_pass(self):
        """A segment of few values commits to small ones, too, which differ by many steps of bf16 between a prefill and a decoder."""
        draw = random.Random(5)
        folder = pathlib.Path(self.directory.name)
        cases = [(8, 2), (20, 34), (20, 3), (20, 20, "--segment", 1), (20, 20, "--segment", 2), (20, 20, "--segment", 4), (20, 34, "--k", 4096),
                 (20, 20, "--segment", 1, "--dtype", "bf16"), (8, 2, "--dtype", "bf16")]
        for length, tokens, *arguments in cases:
            (folder / "ids").write_text("".join(json.dumps([draw.randrange(256) for _ in range(length)]) + "\n" for _ in range(128)))
            done = self.bench.call("generate", self.bench.models["claimed"], "--prompt-tokens", folder / "ids", "--tokens", tokens, "--prove", folder / "short.json", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            dtype = arguments[-2:] if "--dtype" in arguments else []
            report = self.bench.verify("short", json.loads((folder / "short.json").read_text()), *dtype)
            refused = [segment for segment in report["segments"] if not segment["accepted"]]
            self.assertTrue(report["accepted"], f"{length} and {tokens} tokens, {arguments}: {len(refused)} of {len(report['segments'])}: {refused[:2]} {report['reasons'][:2]}")
            self.assertLessEqual(max(segment["values"] for segment in report["segments"]), max(128, self.bench.size.dim * 32 // 8))

    def changed(self, name, edit):
        """The claimed model with some weights replaced."""
        import torch

        model = self.bench.load("claimed")
        with torch.no_grad():
            edit(model)
        self.bench.save(name, model)
        return self.bench.models[name]

    def write_ids(self, prompts):
        path = pathlib.Path(self.directory.name) / "ids"
        path.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
        return path

    def test_logits_that_are_no_numbers_are_refused_by_name(self):
        nothing, infinity = float("nan"), float("inf")
        good = self.bench.generate("good-logits")
        proof = pathlib.Path(self.directory.name) / "never.json"

        def head(value):
            def edit(model):
                # A head of its own where it was the embedding: the states stay as they were.
                model.config.tie_word_embeddings = False
                model.lm_head.weight = type(model.lm_head.weight)(model.lm_head.weight.clone())
                model.lm_head.weight[5, 0] = value
            return edit

        for value in (nothing, infinity, -infinity):
            folder = self.changed("odd", head(value))
            for arguments in ((), ("--prove", proof), ("--temperature", 1)):
                done = self.bench.call("generate", folder, "--prompt", "int main", "--tokens", 3, *arguments)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertIn("prompt 1: the logits of token 1 that it writes", done.stderr)
                self.assertIn("PR0506", done.stderr)
                self.assertFalse(proof.exists())
        digest = re.search("here is ([0-9a-f]{64})", json.dumps(self.verdicts(folder, good)["reasons"]))
        report = self.verdicts(folder, {**good, "model": digest[1]})
        self.assertFalse(report["accepted"])
        for sequence in report["verdicts"]:
            self.assertEqual(sequence["reason"], "NaN or infinity: the logits of token 1 that it writes")
        folder = self.changed("large", lambda model: model.get_output_embeddings().weight.mul_(1e6))
        done = self.bench.call("generate", folder, "--prompt", "int main", "--tokens", 3, "--dtype", "f16")
        self.assertEqual(done.returncode, 1, "f16 ends at 65504")
        self.assertIn("PR0506", done.stderr)

    def verdicts(self, folder, file):
        path = pathlib.Path(self.directory.name) / "judged.json"
        path.write_text(json.dumps(file))
        done = self.bench.call("verify", path, "--model", folder, "-o", "json")
        self.assertIn(done.returncode, (0, 5), done.stderr)
        return json.loads(done.stdout)

    def test_padding_changes_nothing_whatever_the_model_makes_of_it(self):
        def edit(model):
            model.get_input_embeddings().weight[0] = float("nan")  # what shorter rows are filled up with
            if hasattr(model, "transformer"):
                model.transformer.wpe.weight[60] = float("nan")  # a place that only the longer one has
                model.lm_head.weight = type(model.lm_head.weight)(model.lm_head.weight.clone())
                model.lm_head.weight[0] = 0
                model.config.tie_word_embeddings = False

        folder = self.changed("padded", edit)
        prompts = self.write_ids([[100] * 7, list(range(1, 101)), [101, 102]])
        written = []
        for batch in (16, 1):
            done = self.bench.call("generate", folder, "--prompt-tokens", prompts, "--tokens", 20, "--batch", batch, "-o", "json", "--prove", folder / "p.json")
            written.append({line["index"]: line["tokens"] for line in map(json.loads, done.stdout.splitlines())})
            if self.SIZE == "SMALL":
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(self.verdicts(folder, json.loads((folder / "p.json").read_text()))["accepted"])
            else:
                self.assertIn("prompt 2: ", done.stderr)
                report = self.verdicts(folder, json.loads((folder / "p.json").read_text()))
                self.assertEqual([verdict["accepted"] for verdict in report["verdicts"]], [True, False, True])
        self.assertEqual(written[0], written[1])
        self.assertEqual(set(written[0]), {0, 1, 2} if self.SIZE == "SMALL" else {0, 2})

    def test_the_text_is_what_transformers_writes(self):
        import torch

        model = self.bench.load("claimed")
        file = self.bench.generate("text")
        for sequence in file["sequences"][:3]:
            prompt = torch.tensor([sequence["prompt"]])
            with torch.no_grad():
                tokens = model.generate(prompt, max_new_tokens=self.bench.size.tokens, do_sample=False, pad_token_id=0, attention_mask=torch.ones_like(prompt))
            self.assertEqual(sequence["tokens"], tokens[0, prompt.shape[1]:].tolist())
            self.assertEqual(len(sequence["proofs"]), 1 + -(-(self.bench.size.tokens - 1) // 32))

    def test_what_is_drawn_is_drawn_from_the_logits_of_transformers(self):
        import torch

        model = self.bench.load("claimed")
        file = self.bench.generate("drawn", "claimed", "--temperature", "0.7", "--seed", "9")
        for index, sequence in enumerate(file["sequences"][:4]):
            length = len(sequence["prompt"])
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([sequence["prompt"] + sequence["tokens"]])).logits[0, length - 1:-1].double()
            ends = torch.softmax(logits / 0.7, dim=-1).cumsum(dim=-1)
            for step, token in enumerate(sequence["tokens"]):
                drawn = uniform(9, index, length + step)
                self.assertLess(drawn, ends[step, token].item() + 1e-5)
                self.assertGreater(drawn, (ends[step, token - 1].item() if token > 0 else 0) - 1e-5)

    def test_every_type_is_verified_as_what_it_is(self):
        for dtype in ("f64", "bf16", "f16"):
            file = self.bench.generate(dtype, "claimed", "--dtype", dtype)
            self.assertEqual(file["dtype"], dtype)
            self.refused(file, f"it says that it was computed in {dtype}; f32 is asked for (--dtype)")
            report = self.bench.verify(dtype, file, "--dtype", dtype)
            self.assertTrue(report["accepted"], report["reasons"])
            self.assertEqual(report["thresholds"], "exact-f32" if dtype == "f64" else "toploc-bf16")

    def test_thresholds_are_those_that_are_asked_for(self):
        half = {**self.bench.generate("half", "claimed", "--dtype", "bf16"), "dtype": "f32"}
        accepted = lambda *arguments: [segment["accepted"] for segment in self.bench.verify("half", half, *arguments)["segments"]]  # noqa: E731
        self.assertFalse(any(accepted()))
        self.assertTrue(all(accepted("--thresholds", "toploc-bf16")))
        self.assertFalse(any(accepted("--thresholds", "38/0.01/8")))

    def by_transformers(self, model, file, sequence, tokens):
        """The verifier of another engine: its states of these tokens, and `primectl commitment check` of the proofs of our own."""
        import torch
        import verification

        folder = pathlib.Path(self.directory.name)
        with torch.no_grad():
            verification.write_tensors(folder / "theirs.safetensors", {"hidden": model.base_model(input_ids=torch.tensor([tokens])).last_hidden_state[0]})
        proofs = {"schema": "primectl.commitment/1", "k": file["k"], "tokens": file["segment_tokens"], "prefill": len(sequence["prompt"]), "proofs": sequence["proofs"]}
        (folder / "proofs.json").write_text(json.dumps(proofs))
        return self.bench.call("commitment", "check", folder / "theirs.safetensors", "--tensor", "hidden", "--proofs", folder / "proofs.json", f"--prefill={len(sequence['prompt'])}", "--thresholds", "exact-f32")

    def test_transformers_accepts_our_proofs(self):
        model = self.bench.load("claimed")
        file = self.bench.generate("ours")
        for changed in (False, True):
            for sequence in file["sequences"][:3]:
                tokens = sequence["prompt"] + sequence["tokens"][:-1]
                if changed:
                    tokens[1] ^= 1
                done = self.by_transformers(model, file, sequence, tokens)
                self.assertEqual(done.returncode, 5 if changed else 0, done.stdout + done.stderr)


class Llama(Family, unittest.TestCase):
    SIZE = "SMALL"

    def test_one_prompt_that_cannot_be_computed_leaves_the_others(self):
        folder = self.changed("odd-token", lambda model: model.get_input_embeddings().weight.__setitem__(7, float("nan")))
        prompts = self.write_ids([[1, 2, 3], [4, 7, 5], [6, 8]])
        proof = folder / "p.json"
        for sampling in ((), ("--temperature", 0.8)):
            done = self.bench.call("generate", folder, "--prompt-tokens", prompts, "--tokens", 40, "-o", "json", "--prove", proof, *sampling)
            self.assertEqual(done.returncode, 1)
            self.assertIn("prompt 2: activation ", done.stderr)
            self.assertIn("2 of 3 prompts are written, and the file holds no tokens of the others", done.stderr)
            self.assertEqual([json.loads(line)["index"] for line in done.stdout.splitlines()], [0, 2])
            file = json.loads(proof.read_text())
            report = self.verdicts(folder, file)
            self.assertEqual([verdict["accepted"] for verdict in report["verdicts"]], [True, False, True])
            self.assertEqual(report["verdicts"][1]["reason"], "nothing was written of it")
            self.assertTrue(all(segment["accepted"] for segment in report["segments"]))
            # Whoever makes up an answer to it is judged alone as well.
            file["sequences"][1].update(tokens=file["sequences"][0]["tokens"], proofs=file["sequences"][0]["proofs"])
            report = self.verdicts(folder, file)
            self.assertEqual([verdict["accepted"] for verdict in report["verdicts"]], [True, False, True])
            self.assertIn("NaN or infinity: tokens 0 to 2: activation ", report["verdicts"][1]["reason"])
        done = self.bench.call("generate", folder, "--prompt-tokens", self.write_ids([[7], [7, 7]]), "--tokens", 2, "--prove", folder / "none.json")
        self.assertEqual(done.returncode, 1)
        self.assertFalse((folder / "none.json").exists(), "nothing was written at all")

    def test_without_a_number_as_much_is_written_as_fits_and_a_text_of_somebody_else_is_refused(self):
        folder, claimed = pathlib.Path(self.directory.name), self.bench.models["claimed"]
        context = json.loads((claimed / "config.json").read_text())["max_position_embeddings"]
        prompt = "x" * (context - 20)
        done = self.bench.call("generate", claimed, "--prompt", prompt, "--prove", folder / "fits.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        file = json.loads((folder / "fits.json").read_text())
        self.assertEqual(len(file["sequences"][0]["tokens"]), 20)
        self.assertIn("--tokens 20 at most", self.bench.call("generate", claimed, "--prompt", prompt, "--tokens", 21).stderr)
        self.assertTrue(self.verdicts(claimed, file)["verdicts"][0]["accepted"])
        file["sequences"][0]["text"] += "!"
        verdict = self.verdicts(claimed, file)["verdicts"][0]
        self.assertFalse(verdict["accepted"])
        self.assertEqual(verdict["reason"], "its `text` is not what its tokens say")

    def test_what_a_context_could_hold_takes_no_memory(self):
        folder = pathlib.Path(self.directory.name) / "wide-context"
        shutil.copytree(self.bench.models["claimed"], folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1 << 24}))
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        done = self.bench.call("generate", folder, "--prompt", "int main", "--tokens", 12, "-q")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, self.bench.call("generate", self.bench.models["claimed"], "--prompt", "int main", "--tokens", 12, "-q").stdout)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, max(before, 1 << 20), "kilobytes")

    def test_prompts_are_taken_from_anywhere(self):
        folder = pathlib.Path(self.directory.name)
        claimed = self.bench.models["claimed"]
        plain, windows = folder / "plain", folder / "windows"
        plain.write_bytes(b"int a\nint b\n")
        windows.write_bytes(b"\xef\xbb\xbfint a\r\nint b\r\n")
        expected = self.bench.call("generate", claimed, "--prompts", plain, "--tokens", 3, "-o", "json").stdout
        self.assertEqual(len(expected.splitlines()), 2)
        self.assertEqual(self.bench.call("generate", claimed, "--prompts", windows, "--tokens", 3, "-o", "json").stdout, expected)
        shell = 'p=$1; shift; "$p" generate "$1" --prompts <(cat "$2") --tokens 3 --prove "$3" -o json && cat "$3" | "$p" verify /dev/stdin --model "$1"'
        done = subprocess.run(["bash", "-c", shell, "x", self.bench.primectl, claimed, plain, folder / "piped.json"], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(expected), done.stdout)
        self.assertIn('prompt 0, 5 tokens: "int a"\nprompt 1, 5 tokens: "int b"\n', done.stdout)
        # Through a pipe instead of a file, and as many prompts as make more values than one proof file may hold.
        os.mkfifo(folder / "fifo")
        reader = subprocess.Popen(["cat", folder / "fifo"], stdout=subprocess.PIPE)
        self.assertEqual(self.bench.call("generate", claimed, "--prompts", plain, "--tokens", 3, "--prove", folder / "fifo").returncode, 0)
        self.assertEqual(json.loads(reader.communicate(timeout=60)[0])["schema"], "primectl.proof/1")
        self.assertTrue((folder / "fifo").is_fifo())

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
        # Each alone is enough, also where no segment is compared.
        self.refused(change(lambda file: file["sequences"][6]["tokens"].append(300)), "sequence 6: token 300 is none of the model's 256")
        self.refused(change(lambda file: file["sequences"][6]["tokens"].extend([0] * 256)), "the model's context 256")
        self.refused(change(lambda file: file["sequences"][6]["tokens"].__setitem__(-1, file["sequences"][6]["tokens"][-1] ^ 1)), "the first at 39")
        self.refused(change(lambda file: file.update(model="0" * 64)), "another model: the file names 000")
        self.refused(change(lambda file: file.update(tokenizer="0" * 64)), "another tokenizer")
        self.refused(change(lambda file: file.update(k=64)), "each proof holds 64 values; at least 128 are asked for (--k)")
        self.refused(good, "it says that it was computed in f32; bf16 is asked for (--dtype)", arguments=("--dtype", "bf16"))
        # Who computes with 8 bits hides under the thresholds of bf16, and may not choose them.
        cheap = {**self.bench.generate("cheap", "int8"), "model": good["model"], "dtype": "bf16"}
        self.refused(cheap, "it says that it was computed in bf16; f32 is asked for (--dtype)")
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

    def test_biases_and_scaled_rotations_are_computed(self):
        import torch
        import transformers

        claimed = self.bench.load("claimed")
        digests = {self.bench.generate("plain")["model"]}
        linear = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
        llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 100, "rope_theta": 10000.0}
        for name, edit in {"biased": {"attention_bias": True}, "linear": {"rope_parameters": linear}, "llama3": {"rope_parameters": llama3}}.items():
            torch.manual_seed(3)
            model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**claimed.config.to_dict(), **edit})).eval()
            for missing in model.load_state_dict(claimed.state_dict(), strict=False).missing_keys:
                self.assertTrue(missing.endswith("_proj.bias"), missing)
                torch.nn.init.normal_(model.get_parameter(missing), std=0.5)
            self.bench.save(name, model)
            file = self.bench.generate(name, name)
            digests.add(file["model"])
            for sequence in file["sequences"][:3]:
                done = self.by_transformers(model, file, sequence, sequence["prompt"] + sequence["tokens"][:-1])
                self.assertEqual(done.returncode, 0, name + ": " + done.stdout + done.stderr)
        self.assertEqual(len(digests), 4, "each is a model of its own")

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
        self.assertIn("2 of 2 segments accepted (exact-f32)", done.stdout)
        self.assertTrue(done.stdout.endswith("\naccepted: 30 tokens of 1 sequence, f32, greedy\n"), done.stdout)
        file = json.loads(proof.read_text())
        proof.write_text(json.dumps({**file, "sampling": {"temperature": 0.5, "seed": 3}}))
        done = self.bench.call("verify", proof, "--model", folder / "out" / "final")
        self.assertEqual(done.returncode, 5)
        self.assertIn("tokens are not what the promised sampling chooses", done.stdout)
        self.assertTrue(done.stdout.endswith("\nnot accepted: 30 tokens of 1 sequence, f32, temperature 0.5, seed 3\n"), done.stdout)

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

        says({"model_type": "mistral", "architectures": ["MistralForCausalLM"]}, "PR0903", "\"mistral\"", "accepted are `llama`")
        says({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "PR0702", "`n_layer` is missing")
        says({"mlp_bias": True}, "`mlp_bias` is `true`; accepted is `false`")
        says({"rope_parameters": {"rope_type": "yarn", "factor": 8.0}}, "its rotations are scaled (`\"yarn\"`)")
        says({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "`low_freq_factor` is missing")
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


class Gpt2(Family, unittest.TestCase):
    SIZE = "SMALL_GPT2"

    def save(self, name, model):
        self.bench.models[name] = pathlib.Path(self.directory.name) / name
        model.save_pretrained(self.bench.models[name])

    def written(self, name, *arguments):
        file = self.bench.generate(name, name, *arguments)
        return file["model"], [sequence["tokens"] for sequence in file["sequences"]]

    def test_models_of_every_shape_and_type_are_read(self):
        import torch
        import transformers

        whole = self.written("claimed")
        claimed = self.bench.load("claimed")
        claimed.save_pretrained(pathlib.Path(self.directory.name) / "sharded", max_shard_size="200KB")
        self.bench.models["sharded"] = pathlib.Path(self.directory.name) / "sharded"
        self.assertGreater(len(list(self.bench.models["sharded"].glob("*.safetensors"))), 1)
        self.assertEqual(self.written("sharded"), whole)
        for name, edit in {"bfloat16": {"dtype": "bfloat16"}, "exact": {"activation_function": "gelu"}, "untied": {"tie_word_embeddings": False}}.items():
            torch.manual_seed(3)
            model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**claimed.config.to_dict(), **edit})).eval()
            missing = model.load_state_dict(claimed.state_dict(), strict=False).missing_keys
            self.assertEqual(missing, [])
            if name == "untied":
                torch.nn.init.normal_(model.lm_head.weight)
            with torch.no_grad():  # numbers of a size at which either function of GELU shows
                for block in model.transformer.h if name != "bfloat16" else []:
                    block.mlp.c_fc.weight.mul_(3)
            self.save(name, model.to(torch.bfloat16) if name == "bfloat16" else model)
            digest, tokens = self.written(name)
            self.assertNotEqual(digest, whole[0])
            again = self.bench.load(name).float()
            sequence = json.loads((pathlib.Path(self.directory.name) / f"{name}.json").read_text())["sequences"][0]
            prompt = torch.tensor([sequence["prompt"]])
            with torch.no_grad():
                expected = again.generate(prompt, max_new_tokens=self.bench.size.tokens, do_sample=False, pad_token_id=0, attention_mask=torch.ones_like(prompt))
            self.assertEqual(tokens[0], expected[0, prompt.shape[1]:].tolist(), name)

    def test_the_names_and_files_of_the_original_are_read(self):
        """The models of 2019 have no `transformer.` before their names, masks beside the weights, and a tokenizer of words."""
        import safetensors.torch

        whole = self.written("claimed")
        folder = pathlib.Path(self.directory.name) / "original"
        folder.mkdir()
        self.bench.models["original"] = folder
        source = self.bench.models["claimed"]
        (folder / "config.json").write_bytes((source / "config.json").read_bytes())
        tensors = safetensors.torch.load_file(source / "model.safetensors")
        tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        import torch

        for layer in range(self.bench.size.layers):
            tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 256, 256, dtype=[torch.float32, torch.bool][layer % 2]).tril()
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        self.assertEqual(self.written("original"), whole)
        (folder / "vocab.json").write_text("{}")
        (folder / "merges.txt").write_text("")
        done = self.bench.call("generate", folder, "--tokens", 2, "--prompt", "x")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("its tokenizer is not `bytes`", done.stderr)
        ids = folder / "ids"
        ids.write_text("[1, 2, 3]\n[4]\n")
        done = self.bench.call("generate", folder, "--tokens", 4, "--prompt-tokens", ids, "--prove", folder / "proof.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.bench.call("verify", folder / "proof.json", "--model", folder).returncode, 0)
        self.refused(json.loads((folder / "proof.json").read_text()), "another tokenizer")


def uniform(seed, sequence, position):
    """runtime/trainer/inference/sampler.cpp, once more."""
    ones, odd = 2**64 - 1, 0x9E3779B97F4A7C15

    def mix(value):
        value &= ones
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & ones
        value = (value ^ value >> 27) * 0x94D049BB133111EB & ones
        return value ^ value >> 31

    return (mix(mix(mix(seed + odd) ^ (sequence * odd & ones)) + position * odd) >> 11) * 2.0**-53


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
