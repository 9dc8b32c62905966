"""A GPT of 0.28 million parameters on the headers of this machine, byte by byte: a loop of plain PyTorch, whatever algorithm the manifest names.

    primectl up manifests/quickstart.yaml --local 2 --trainer 'python3 examples/python/gpt_diloco.py'

By hand, into a run whose peers train the same: PRIMECTL_INVITE='prime://…' python3 examples/python/gpt_diloco.py
$GPT_TEXT names another folder of text (files *.h), $GPT_LAYERS and $GPT_DIM another size; all peers of a run have the same.
"""

import hashlib
import math
import os
import pathlib

import prime_runtime as prime
import torch
from torch import nn
from torch.utils.data import Dataset

CONTEXT, HEADS, VOCABULARY = 128, 4, 256
DIM = int(os.environ.get("GPT_DIM", "96"))
LAYERS = int(os.environ.get("GPT_LAYERS", "2"))
TEXT = pathlib.Path(os.environ.get("GPT_TEXT", "/usr/include"))
LEARNING_RATE, WARM_UP = 3e-3, 20


class Windows(Dataset[torch.Tensor]):
    """A text, cut into windows of one byte more than the context."""

    def __init__(self, text: bytes) -> None:
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8)

    def __len__(self) -> int:
        return (len(self.text) - 1) // CONTEXT

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.text[index * CONTEXT : (index + 1) * CONTEXT + 1].long()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.mix, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        query, key, value = self.mix(self.before_attention(x)).view(batch, length, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, DIM))
        return x + self.mlp(self.before_mlp(x))  # type: ignore[no-any-return]


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCABULARY, DIM), nn.Embedding(CONTEXT, DIM)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCABULARY, bias=False)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """The mean loss of windows (batch, context + 1), in nats per byte."""
        x = self.embed(windows[:, :-1]) + self.place.weight
        logits = self.head(self.norm(self.blocks(x)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def rate(clock: int, total: int) -> float:
    return LEARNING_RATE * min(1.0, (clock + 1) / WARM_UP) * (0.1 + 0.45 * (1 + math.cos(math.pi * clock / total)))


def main() -> None:
    text = b"".join(path.read_bytes()[:32768] for path in sorted(TEXT.glob("**/*.h"))[:500])
    windows = Windows(text)
    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    with prime.join() as run:
        run.describe_data(hashlib.md5(text).hexdigest(), f"{len(text)} bytes of headers")
        run.bind(model, optimizer)
        for step, batch in run.data(windows):
            for group in optimizer.param_groups:
                group["lr"] = rate(step.clock, step.total)
            optimizer.zero_grad()
            loss = model(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            for commit in step.report(loss, batch.shape[0] * CONTEXT):
                print(f"step {commit.step}: mean over {commit.peers} peers, loss {loss.item():.3f}, state {commit.state}", flush=True)


if __name__ == "__main__":
    main()
