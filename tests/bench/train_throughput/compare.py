"""Owns the comparison of the trainer with plain PyTorch: same model, batch and threads, alternating in one run.

usage: compare.py TRAIN_THROUGHPUT [--threads 2] [--steps 60] [--rounds 5] [--model quickstart|25m|110m|1b] [--device cuda] [--precision bf16] [--batch N]

Prints both medians and plain time over our time: 1.0 is equally fast, more is faster than PyTorch. For a GPU also tokens a second and
the share of its peak (MFU) by the formula of PaLM (arXiv:2204.02311, appendix B): 6 N + 12 L H Q T operations for a token, with L blocks,
H heads of width Q, T tokens of context, and N parameters without the input embedding, which is looked up and not multiplied by.
"""
import argparse
import statistics
import subprocess
import sys
import time

WARM_UP = 5
MODELS = {"quickstart": {"layers": 2, "dim": 96, "heads": 4, "ffn": 256, "vocab": 256, "context": 128, "batch": 16},
          "25m": {"layers": 8, "dim": 512, "heads": 8, "ffn": 1376, "vocab": 1024, "context": 256, "batch": 4},
          "110m": {"layers": 12, "dim": 768, "heads": 12, "ffn": 2048, "vocab": 16384, "context": 256, "batch": 2},
          "1b": {"layers": 16, "dim": 2048, "heads": 32, "ffn": 8192, "vocab": 32000, "context": 2048, "batch": 8}}


def multiplied_parameters(sizes):
    dim = sizes["dim"]
    return sizes["layers"] * (4 * dim * dim + 3 * dim * sizes["ffn"] + 2 * dim) + dim + sizes["vocab"] * dim


def operations_a_token(sizes):
    return 6 * multiplied_parameters(sizes) + 12 * sizes["layers"] * sizes["dim"] * sizes["context"]


def plain_pytorch(steps, threads, device, precision, layers, dim, heads, ffn, vocab, context, batch):
    """A Llama as one writes it from torch.nn's parts; eager, AdamW with its defaults (fused on a GPU), gradient clipping, autocast for bf16."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    torch.set_default_device(device)
    width = dim // heads
    angle = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(0, width, 2) / width))
    cosine, sine = torch.cat([angle, angle], 1).cos(), torch.cat([angle, angle], 1).sin()
    if precision == "bf16":
        cosine, sine = cosine.bfloat16(), sine.bfloat16()

    def rotate(x):
        return x * cosine + torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1) * sine

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.input_norm, self.post_norm = nn.RMSNorm(dim, 1e-5), nn.RMSNorm(dim, 1e-5)
            self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
            self.gate, self.up = nn.Linear(dim, ffn, bias=False), nn.Linear(dim, ffn, bias=False)
            self.down = nn.Linear(ffn, dim, bias=False)

        def forward(self, x):
            h = self.input_norm(x)
            q, k, v = (p(h).view(batch, context, heads, width).transpose(1, 2) for p in (self.q, self.k, self.v))
            a = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
            x = x + self.o(a.transpose(1, 2).reshape(batch, context, dim))
            h = self.post_norm(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocab, dim)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.RMSNorm(dim, 1e-5), nn.Linear(dim, vocab, bias=False)

        def forward(self, ids):
            return self.head(self.norm(self.blocks(self.embedding(ids))))

    model = Llama()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True if device.startswith("cuda") else None)
    for step in range(steps):
        ids = torch.randint(0, 256, (batch, context + 1))
        begin = time.perf_counter()
        with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=precision == "bf16"):
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()
        print(f"{time.perf_counter() - begin:.6f}")
        print(f"step {step + 1}: loss {value:.4f}", file=sys.stderr)


def seconds(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: exit {done.returncode}\n{done.stderr}")
    return [float(line) for line in done.stdout.split()][WARM_UP:]


def main():
    parser = argparse.ArgumentParser(description="inner steps per second: prime-trainer against plain PyTorch")
    parser.add_argument("program", help="the built train-throughput, or `plain` (used by the script itself)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", choices=MODELS, default="quickstart")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--batch", type=int, help="windows in a step, where the model's usual number is not meant")
    parser.add_argument("--peak", type=float, default=989e12, help="operations a second that MFU is a share of [dense bf16 of an H100 or H200]")
    arguments = parser.parse_args()
    sizes = {**MODELS[arguments.model], **({"batch": arguments.batch} if arguments.batch else {})}
    if arguments.program == "plain":
        return plain_pytorch(arguments.steps, arguments.threads, arguments.device, arguments.precision, **sizes)
    common = ["--steps", str(arguments.steps + WARM_UP), "--threads", str(arguments.threads), "--device", arguments.device, "--precision", arguments.precision]
    ours, plain = [], []
    for _ in range(arguments.rounds):
        ours += seconds([arguments.program, *common, *(word for name, size in sizes.items() for word in (f"--{name}", str(size)))])
        plain += seconds([sys.executable, __file__, "plain", *common, "--model", arguments.model, "--batch", str(sizes["batch"])])
    mine, theirs = statistics.median(ours), statistics.median(plain)
    print(f"trainer {1e3 * mine:.1f} ms  pytorch {1e3 * theirs:.1f} ms  ratio {theirs / mine:.2f}")
    if arguments.device == "cpu":
        return 0
    tokens, each = sizes["batch"] * sizes["context"], operations_a_token(sizes)
    for name, time_each in (("trainer", mine), ("pytorch", theirs)):
        rate = tokens * each / time_each
        print(f"{name}: {tokens / time_each:.0f} tokens/s, {rate / 1e12:.0f} TFLOP/s, MFU {100 * rate / arguments.peak:.1f} % of {arguments.peak / 1e12:.0f}")
    print(f"N = {multiplied_parameters(sizes) / 1e9:.3f} G without the input embedding, {each / 1e9:.2f} GFLOP a token, {tokens} tokens a step")
    return 0


if __name__ == "__main__":
    sys.exit(main())
