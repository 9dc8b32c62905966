"""Owns the question what `primectl verify` finds out and what it lets pass: a model that is trained here, honest provers of all kinds, and
every fraud of a list. The short version is tests/golden/verify_test.py, the long one `./dev bench verification`."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import struct
import time

import torch
import transformers

PRESETS = {"exact-f32": (0, 0.01999, 0), "toploc-bf16": (38, 10, 8)}
SAMPLED = ["--temperature", "0.8", "--seed", "1"]


@dataclasses.dataclass
class Size:
    """Of the model, of its training, and of what is written."""

    dim: int
    layers: int
    ffn: int
    training_steps: int
    prompts: int
    tokens: int
    family: str = "llama"
    head_width: int = 24


SMALL = Size(dim=96, layers=2, ffn=256, training_steps=30, prompts=10, tokens=40)
SMALL_GPT2 = dataclasses.replace(SMALL, ffn=384, family="gpt2")
# What GPUs choose other kernels for than for the small ones; trained there, too.
WIDE = Size(dim=768, layers=8, ffn=2048, training_steps=200, prompts=16, tokens=40, head_width=64)
WIDE_GPT2 = dataclasses.replace(WIDE, ffn=3072, family="gpt2")
LONG = {"0.3m": Size(dim=96, layers=2, ffn=320, training_steps=300, prompts=200, tokens=128),
        "10m": Size(dim=384, layers=6, ffn=1024, training_steps=80, prompts=200, tokens=128)}


def corpus():
    root = pathlib.Path(__file__).resolve().parents[2]
    files = sorted(root.glob("runtime/**/*.cpp")) + sorted(root.glob("docs/*.md"))
    return b"".join(path.read_bytes() for path in files)


transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)  # others may be at work, too


def instruction_sets():
    """Those of ATen's that this processor has: it is told which to take, and does not ask."""
    flags = next((line.split() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), [])
    needs = {"default": set(), "avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}}
    return [level for level, wanted in needs.items() if wanted <= set(flags)]


def new_model(size, seed):
    torch.manual_seed(seed)
    if size.family == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=256, n_embd=size.dim, n_inner=size.ffn, n_layer=size.layers, n_head=size.dim // size.head_width,
                                                                    n_positions=256, bos_token_id=None, eos_token_id=None)).eval()
    config = transformers.LlamaConfig(vocab_size=256, hidden_size=size.dim, intermediate_size=size.ffn, num_hidden_layers=size.layers,
                                      num_attention_heads=size.dim // size.head_width, num_key_value_heads=size.dim // size.head_width // 2, max_position_embeddings=256,
                                      rope_theta=10000.0, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
    return transformers.LlamaForCausalLM(config)


def train(model, steps, text, generator, learning_rate=2e-3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    for _ in range(steps):
        begins = torch.randint(0, len(text) - 129, (8,), generator=generator)
        batch = torch.stack([torch.tensor(list(text[i:i + 129])) for i in begins.tolist()]).to(model.device)
        loss = model(input_ids=batch[:, :-1], use_cache=False).logits.flatten(0, 1)
        torch.nn.functional.cross_entropy(loss, batch[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


def quantized(model):
    """Each row of each matrix as 8 bits and a scale."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                step = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
                weight.copy_((weight / step).round() * step)
    return model


def partly_changed(model):
    """5 % of the numbers of one matrix are multiplied by 1.5."""
    with torch.no_grad():
        weight = next(weight for name, weight in reversed(list(model.named_parameters())) if name.endswith((".mlp.down_proj.weight", ".mlp.c_proj.weight")))
        chosen = torch.rand(weight.shape, generator=torch.Generator().manual_seed(5)) < 0.05
        weight[chosen] *= 1.5
    return model


class Bench:
    def __init__(self, bin_directory, work, size, say=print):
        self.primectl = pathlib.Path(bin_directory) / "primectl"
        self.work = pathlib.Path(work)
        self.size = size
        self.say = say
        self.since = time.monotonic()
        self.models = {}
        self.rows = []
        self.calibrated = None
        self.prompts = self.work / "prompts.txt"

    def write_prompts(self, text):
        lines = [line for line in text.decode("utf-8", "replace").encode("ascii", "replace").decode().splitlines() if 20 <= len(line) <= 100]
        stride = max(1, len(lines) // self.size.prompts)
        self.prompts.write_text("\n".join(lines[::stride][: self.size.prompts]) + "\n")

    def prepare(self):
        text = corpus()
        self.write_prompts(text)
        generator = torch.Generator().manual_seed(1)
        model = train(new_model(self.size, 1), self.size.training_steps, text, generator)
        self.save("older", model)
        train(model, 10, text, generator, 1e-3)  # an outer step
        self.save("claimed", model)
        again = lambda: self.load("claimed")  # noqa: E731
        self.save("changed", partly_changed(again()))
        self.save("int8", quantized(again()))
        other = train(new_model(self.size, 2), max(10, self.size.training_steps // 3), text, generator)
        self.save("seed", other)
        self.say(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")

    def prepare_across(self, device="cpu"):
        """The claimed model and another one; `device` is torch's, and trains them."""
        text = corpus()
        self.write_prompts(text)
        for seed, name in ((1, "claimed"), (2, "seed")):
            model = new_model(self.size, seed).to(device)
            self.save(name, train(model, self.size.training_steps, text, torch.Generator().manual_seed(seed), 2e-3 if self.size.dim < 512 else 5e-4))
        self.say(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")

    def save(self, name, model):
        self.models[name] = self.work / name
        model.save_pretrained(self.models[name])

    def load(self, name):
        return transformers.AutoModelForCausalLM.from_pretrained(self.models[name]).eval()

    def call(self, *arguments, environment=None):
        command = [str(self.primectl), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})}, check=False, timeout=3000)

    def generate(self, name, model="claimed", *arguments, environment=None):
        path = self.work / f"{name}.json"
        done = self.call("generate", self.models[model], "--prompts", self.prompts, "--tokens", self.size.tokens, "--prove", path, *arguments,
                         environment=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(path.read_text())

    def verify(self, case, file, *arguments, environment=None):
        """Verdicts of one file with the claimed model: the object of `-o json`."""
        path = self.work / "verified.json"
        path.write_text(json.dumps(file))
        done = self.call("verify", path, "--model", self.models["claimed"], "-o", "json", *arguments, environment=environment)
        assert done.returncode in (0, 5), f"{case}: {done.stderr}"
        report = json.loads(done.stdout)
        assert report["accepted"] == (done.returncode == 0)
        return report

    def judge(self, case, file, honest, *arguments, environment=None):
        report = self.verify(case, file, *arguments, environment=environment)
        row = {"case": case, "honest": honest, "accepted": report["accepted"], "reasons": report["reasons"]}
        segments = report["segments"]
        others = {int(reason.split()[1].rstrip(":")) for reason in report["reasons"] if reason.startswith("sequence")}
        row["segments"] = len(segments)
        compared = [s for s in segments if s["exponent_mismatches"] is not None]
        row["exponents"] = sum(s["exponent_mismatches"] + s["sign_mismatches"] for s in compared) / max(1, len(compared))
        means = [s["mantissa_mean"] for s in compared if s["mantissa_mean"] < 1e18]
        row["mantissa"] = sum(means) / max(1, len(means))
        row["worst"] = max(means, default=0)
        for name, (mismatches, mean, median) in PRESETS.items():
            refused = set(others)
            for s in compared:
                allowed = mismatches * s["values"] // 128
                steps = round(s["mantissa_mean"] * (s["values"] - s["exponent_mismatches"]))
                if s["values"] > s["exponent_mismatches"] and steps <= min(int(mean * 128), 2):
                    mean_median_hold = True
                else:
                    mean_median_hold = s["mantissa_mean"] <= mean and s["mantissa_median"] <= median
                if s["exponent_mismatches"] + s["sign_mismatches"] > allowed or not mean_median_hold:
                    refused.add(s["sequence"])
            row[name] = len(refused)
        row["sequences"] = report["sequences"]
        self.rows.append(row)
        self.say(f"{time.monotonic() - self.since:.0f} s: {case}: {'accepted' if row['accepted'] else 'refused'}")
        return row

    def run_across(self, device):
        """Provers and verifiers on the CPU and on `device`, in each dtype at the thresholds that it has by default."""
        for dtype in ("f32", "bf16"):
            computed = ["--dtype", dtype]
            honest, others = {}, {}
            for prover, verifier in (("cpu", device), (device, "cpu"), (device, device)):
                case = f"{dtype}: {prover} proves, {verifier} verifies"
                with_device = [*computed, "--device", verifier]
                for name, sampling in (("greedy", []), ("sampled", SAMPLED)):
                    if (prover, name) not in honest:
                        honest[prover, name] = self.generate("honest", "claimed", *computed, "--device", prover, *sampling)
                    self.judge(f"{case}, {name}", honest[prover, name], True, *with_device)
                if prover not in others:
                    others[prover] = self.generate("other", "seed", *computed, "--device", prover)
                greedy = honest[prover, "greedy"]
                self.judge(f"{case}: another model", {**others[prover], "model": greedy["model"]}, False, *with_device)
                self.judge(f"{case}: another prompt", self.reversed_prompt(greedy), False, *with_device)

    def run(self):
        claimed = self.generate("claimed-greedy")
        sampled = self.generate("claimed-sampled", "claimed", *SAMPLED)
        as_claimed = lambda file: {**file, "model": claimed["model"], "dtype": "f32"}  # noqa: E731

        # Honest provers.
        self.judge("decode with cache, batch 16", claimed, True)
        self.judge("sampled, temperature 0.8", sampled, True)
        self.judge("one thread verifies, one sequence at a time", claimed, True, "--threads", 1, "--batch", 1)
        self.judge("one prompt at a time", self.generate("one", "claimed", "--batch", 1), True)
        self.judge("one thread proves", self.generate("thread", "claimed", "--threads", 1), True)
        self.judge("f64", as_claimed(self.generate("double", "claimed", "--dtype", "f64")), True)
        for level in instruction_sets():
            self.judge(f"ATEN_CPU_CAPABILITY={level}", self.generate(level, "claimed", environment={"ATEN_CPU_CAPABILITY": level}), True)
        self.judge("transformers proves", self.by_transformers(claimed), True)

        # Frauds.
        for name, what in {"older": "one outer step older", "seed": "another seed", "changed": "5 % of one matrix changed", "int8": "int8 weights"}.items():
            self.judge(what, as_claimed(self.generate(name, name)), False)
        self.judge("bf16 for f32", as_claimed(self.generate("half", "claimed", "--dtype", "bf16")), False)
        self.judge("another prompt", self.other_prompt(claimed), False)
        other_seed = self.generate("other-seed", "claimed", "--temperature", 0.8, "--seed", 2)
        self.judge("another seed of the sampling", {**other_seed, "sampling": sampled["sampling"]}, False)
        hotter = self.generate("hotter", "claimed", "--temperature", 1.5, "--seed", 1)
        self.judge("another temperature", {**hotter, "sampling": sampled["sampling"]}, False)
        self.judge("proofs of another file", self.other_proofs(claimed, sampled), False)

    @staticmethod
    def other_prompt(file):
        changed = json.loads(json.dumps(file))
        for sequence in changed["sequences"]:
            sequence["prompt"][len(sequence["prompt"]) // 2] ^= 1
        return changed

    @staticmethod
    def reversed_prompt(file):
        """More than one letter, which thresholds for bf16 may let pass."""
        changed = json.loads(json.dumps(file))
        for sequence in changed["sequences"]:
            sequence["prompt"].reverse()
        return changed

    @staticmethod
    def other_proofs(file, other):
        changed = json.loads(json.dumps(file))
        for sequence, foreign in zip(changed["sequences"], other["sequences"][1:] + other["sequences"][:1]):
            sequence["proofs"] = foreign["proofs"]
        return changed

    def by_transformers(self, claimed):
        """Tokens, states and sampling are transformers', the proofs are those of `primectl commitment build`."""
        model = self.load("claimed")
        file = json.loads(json.dumps(claimed))
        states = []
        for sequence in file["sequences"]:
            prompt = torch.tensor([sequence["prompt"]])
            with torch.no_grad():
                tokens = model.generate(prompt, max_new_tokens=self.size.tokens, do_sample=False, use_cache=True, pad_token_id=0, attention_mask=torch.ones_like(prompt))[0].tolist()
                hidden = model.base_model(input_ids=torch.tensor([tokens[:-1]])).last_hidden_state[0]
            sequence["tokens"] = tokens[len(sequence["prompt"]):]
            states.append(hidden)
        path = self.work / "states.safetensors"
        write_tensors(path, {f"s{i}": state for i, state in enumerate(states)})
        self.calibrate(model, file["sequences"], states)
        for i, sequence in enumerate(file["sequences"]):
            done = self.call("commitment", "build", path, "--tensor", f"s{i}", f"--prefill={len(sequence['prompt'])}")
            assert done.returncode == 0, done.stderr
            sequence["proofs"] = json.loads(done.stdout)["proofs"]
        return file

    def calibrate(self, model, sequences, states):
        """Thresholds of two honest runs, as a user finds them: transformers in f32 and in f64."""
        model.double()
        other = []
        for sequence in sequences:
            with torch.no_grad():
                other.append(model.base_model(input_ids=torch.tensor([sequence["prompt"] + sequence["tokens"][:-1]])).last_hidden_state[0].float())
        paths = [self.work / "f32.safetensors", self.work / "f64.safetensors"]
        for path, run in zip(paths, (states, other)):
            write_tensors(path, {"hidden": torch.cat(run)})
        done = self.call("commitment", "calibrate", *paths, "--tensor", "hidden")
        assert done.returncode == 0, done.stderr
        self.calibrated = done.stdout.split()[0]

    def table_across(self):
        lines = ["| provers and verifiers | honest | exponents | mantissas | worst | refused |", "|---|---|---|---|---|---|"]
        for row in self.rows:
            refused = row["exact-f32" if row["case"].startswith("f32") else "toploc-bf16"]
            lines.append(f"| {row['case']} | {'yes' if row['honest'] else 'no'} | {row['exponents']:.2f} | {row['mantissa']:.4f} | {row['worst']:.3f} | "
                         f"{refused} of {row['sequences']} |")
        return "\n".join(lines)

    def table(self):
        lines = ["| prover | honest | exponents | mantissas | worst | refused at exact-f32 | at toploc-bf16 |", "|---|---|---|---|---|---|---|"]
        for row in self.rows:
            lines.append(f"| {row['case']} | {'yes' if row['honest'] else 'no'} | {row['exponents']:.2f} | {row['mantissa']:.4f} | {row['worst']:.3f} | "
                         f"{row['exact-f32']} of {row['sequences']} | {row['toploc-bf16']} of {row['sequences']} |")
        honest = [row for row in self.rows if row["honest"]]
        frauds = [row for row in self.rows if not row["honest"]]
        for name, (mismatches, mean, median) in PRESETS.items():
            false_alarms = sum(row[name] for row in honest)
            missed = sum(row["sequences"] - row[name] for row in frauds)
            lines.append(f"\n{name} (at most {mismatches} of 128 mismatches, a mean of {mean:g}, a median of {median}): "
                         f"{false_alarms} false alarms of {sum(row['sequences'] for row in honest)} honest sequences, "
                         f"{missed} missed of {sum(row['sequences'] for row in frauds)} frauds")
        if self.calibrated:
            lines.append(f"\ncalibrated from transformers in f32 and in f64: {self.calibrated}")
        return "\n".join(lines)


def write_tensors(path, tensors):
    """safetensors of f32, by hand: the format is three lines."""
    header, blobs, offset = {}, [], 0
    for name, tensor in tensors.items():
        data = tensor.to(torch.float32).contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        blobs.append(data)
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def remove(path):
    shutil.rmtree(path, ignore_errors=True)
