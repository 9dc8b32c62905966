"""Owns the comparison of the trainer with plain PyTorch: same model, batch and threads, alternating in one run.

usage: compare.py TRAIN_THROUGHPUT [--threads 2] [--steps 60] [--rounds 5]

Prints both medians and plain time over our time: 1.0 is equally fast, more is faster than PyTorch.
"""
import argparse
import statistics
import subprocess
import sys
import time

WARM_UP = 5


def plain_pytorch(steps, threads):
    """A Llama as one writes it from torch.nn's parts; eager, AdamW with its defaults, gradient clipping."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    layers, dim, heads, ffn, vocab, context, batch = 2, 96, 4, 256, 256, 128, 16
    width = dim // heads
    angle = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(0, width, 2) / width))
    cosine, sine = torch.cat([angle, angle], 1).cos(), torch.cat([angle, angle], 1).sin()

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
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    for _ in range(steps):
        ids = torch.randint(0, 256, (batch, context + 1))
        begin = time.perf_counter()
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        print(f"{time.perf_counter() - begin:.6f}")


def seconds(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(line) for line in out.split()][WARM_UP:]


def main():
    parser = argparse.ArgumentParser(description="inner steps per second: prime-trainer against plain PyTorch")
    parser.add_argument("program", help="the built train-throughput, or `plain` (used by the script itself)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.program == "plain":
        return plain_pytorch(arguments.steps, arguments.threads)
    ours, plain = [], []
    sizes = [str(arguments.steps + WARM_UP), str(arguments.threads)]
    for _ in range(arguments.rounds):
        ours += seconds([arguments.program, *sizes])
        plain += seconds([sys.executable, __file__, "plain", "--steps", sizes[0], "--threads", sizes[1]])
    mine, theirs = statistics.median(ours), statistics.median(plain)
    print(f"trainer {1e3 * mine:.1f} ms  pytorch {1e3 * theirs:.1f} ms  ratio {theirs / mine:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
