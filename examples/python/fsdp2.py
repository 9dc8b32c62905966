"""A transformer whose parameters and moments FSDP2 shards over the processes of one machine; together they are the trainer of one peer. As every peer of a run:

    primectl up manifests/quickstart.yaml --local 2 --trainer 'torchrun --standalone --nproc-per-node=2 examples/python/fsdp2.py'

By hand, into a run whose peers train the same: PRIMECTL_INVITE='prime://…' torchrun --standalone --nproc-per-node=2 examples/python/fsdp2.py
"""

import os

import prime_runtime as prime
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

CONTEXT, DIM, VOCABULARY, LAYERS = 32, 32, 64, 2

dist.init_process_group("gloo")
torch.manual_seed(0)  # all ranks, and all peers, begin with the same parameters


class Model(nn.Module):
    """Learns to tell, at each place, the number at the place before."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCABULARY, DIM), nn.Embedding(CONTEXT, DIM)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(DIM, 2, 4 * DIM, dropout=0.0, batch_first=True) for _ in range(LAYERS))
        self.head = nn.Linear(DIM, VOCABULARY)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        x = self.embed(numbers) + self.place.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(x)  # type: ignore[no-any-return]


model = Model()
for layer in model.layers:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

with prime.join(ranks=dist.get_world_size()) as run:
    run.bind(model, optimizer)
    for step in run:
        numbers = torch.stack([torch.randint(VOCABULARY, (CONTEXT,), generator=torch.Generator().manual_seed(sample)) for sample in step.samples])
        loss = nn.functional.cross_entropy(model(numbers).flatten(0, 1), numbers.roll(1, 1).flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        for commit in step.report(loss, numbers.numel()):
            if os.environ["RANK"] == "0":
                print(f"step {commit.step}: mean over {commit.peers} peers, loss {loss.item():.3f}, state {commit.state}", flush=True)
dist.destroy_process_group()
