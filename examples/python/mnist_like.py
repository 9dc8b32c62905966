"""Handwritten digits (scikit-learn's own, no download), by peers that come and go. As every peer of a run:

    primectl up manifests/quickstart.yaml --local 2 --trainer 'python3 examples/python/mnist_like.py'

By hand, into a run whose peers train the same: PRIMECTL_INVITE='prime://…' python3 examples/python/mnist_like.py
"""

import prime_runtime as prime
import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from torch.utils.data import TensorDataset

HELD_OUT = 297

digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
objective = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def evaluate(index: int, of: int) -> tuple[float, int]:
    """The ``index``-th of ``of`` parts of the held-out digits."""
    part = slice(-HELD_OUT + HELD_OUT * index // of, -HELD_OUT + HELD_OUT * (index + 1) // of or None)
    with torch.no_grad():
        return objective(model(images[part]), labels[part]).item(), len(labels[part])


with prime.join() as run:
    run.bind(model, optimizer, evaluate=evaluate)
    for step, (inputs, wanted) in run.data(TensorDataset(images[:-HELD_OUT], labels[:-HELD_OUT])):
        optimizer.zero_grad()
        loss = objective(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        for commit in step.report(loss, len(wanted)):
            print(f"step {commit.step}: mean over {commit.peers} peers, loss {loss.item():.3f}, state {commit.state}", flush=True)

with torch.no_grad():
    right = (model(images[-HELD_OUT:]).argmax(1) == labels[-HELD_OUT:]).float().mean()
print(f"{right:.1%} of {HELD_OUT} digits that nobody trained on are recognised")
