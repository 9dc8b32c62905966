"""Owns what all peers in Python train: a Llama of the shape of the quickstart (0.27 M parameters), its inner steps, and the line of each outer step.

Same products, same fused query-key-value and gate-up matrices, torch's fused AdamW and attention, one thread; its values are not bit-equal to ours.
"""

import argparse
import json
import time
import zlib

import torch
from torch.nn import functional

LAYERS, DIM, HEADS, VOCAB, CONTEXT, FFN = 2, 96, 4, 256, 128, 256
BATCH, INNER_STEPS = 16, 20
OUTER = {"lr": 0.7, "momentum": 0.5, "nesterov": True}


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        return functional.rms_norm(x, (DIM,), self.weight, 1e-5)


def matrix(rows, columns, deviation=0.02):
    return torch.nn.Parameter(torch.randn(rows, columns) * deviation)


def turn(x, cosine, sine):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        residual = 0.02 / (2 * LAYERS) ** 0.5
        self.before, self.between = Norm(), Norm()
        self.qkv, self.output = matrix(3 * DIM, DIM), matrix(DIM, DIM, residual)
        self.gate_up, self.down = matrix(2 * FFN, DIM), matrix(DIM, FFN, residual)

    def forward(self, x, cosine, sine):
        windows, time_, _ = x.shape
        heads = functional.linear(self.before(x), self.qkv).view(windows, time_, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        query, key = turn(heads[0], cosine, sine), turn(heads[1], cosine, sine)
        attended = functional.scaled_dot_product_attention(query, key, heads[2], is_causal=True)
        x = x + functional.linear(attended.transpose(1, 2).reshape(windows, time_, DIM), self.output)
        gate, up = functional.linear(self.between(x), self.gate_up).chunk(2, dim=-1)
        return x + functional.linear(functional.silu(gate) * up, self.down)


class Llama(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = matrix(VOCAB, DIM), matrix(VOCAB, DIM)
        self.blocks, self.norm = torch.nn.ModuleList(Block() for _ in range(LAYERS)), Norm()
        half = DIM // HEADS // 2
        angle = torch.outer(torch.arange(CONTEXT, dtype=torch.float64), 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half))
        self.register_buffer("cosine", angle.cos().float(), persistent=False)
        self.register_buffer("sine", angle.sin().float(), persistent=False)

    def forward(self, ids):
        x = functional.embedding(ids, self.embedding)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return functional.linear(self.norm(x), self.head)


class Learner:
    """One peer's model, inner optimizer and data."""

    def __init__(self, data, seed):
        torch.set_num_threads(1)
        torch.manual_seed(1)  # all peers begin alike
        self.model = Llama()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        with open(data, "rb") as file:
            self.bytes = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
        self.draws = torch.Generator().manual_seed(seed)

    def inner_step(self):
        """One step; the optimizer's hooks, if there are any, run within."""
        self.gradients()
        self.optimizer.step()

    def gradients(self):
        starts = torch.randint(0, len(self.bytes) - CONTEXT - 1, (BATCH, 1), generator=self.draws)
        windows = self.bytes[starts + torch.arange(CONTEXT + 1)].long()
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(windows[:, :-1])
        functional.cross_entropy(logits.reshape(-1, VOCAB), windows[:, 1:].reshape(-1)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def digest(self):
        sum_ = 0
        for parameter in self.model.parameters():
            sum_ = zlib.crc32(parameter.detach().numpy(), sum_)
        return f"{sum_:08x}"


class Steps:
    """The lines of one peer (figures.py), each written whole."""

    def __init__(self, options):
        self.peer = options.name
        self.file = open(options.events, "a", encoding="utf-8")  # noqa: SIM115: it lives as long as the process

    def write(self, step, begun, trained, resumed, members, contributed, digest):
        line = {"peer": self.peer, "step": step, "begun": begun, "trained": trained, "resumed": resumed, "members": members,
                "contributed": contributed, "digest": digest}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def arguments(*more):
    parser = argparse.ArgumentParser()
    for name in ("--name", "--data", "--events", *more):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    options.seed = zlib.crc32(options.name.encode())  # torch's generator has 32 bits of it
    return options


def now():
    return time.time()
