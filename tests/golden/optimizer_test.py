"""The optimizers' steps beside torch's own, with equal gradients and the learning rates of a schedule.

usage: optimizer_test.py BIN   (the folder of optimizer-steps)
"""

import math
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from programs import call

try:
    import torch
except ImportError:
    print("skipped: this Python has no torch to compare with")
    sys.exit(77)

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
STEPS = 100
torch.set_num_threads(1)  # of a few values: threads would wait for each other

# What a Llama has: a table, query with key and value, a square and a wide matrix, a vector.
LEAVES = "table 20 8\nmatrices 8 8 4 4\nmatrices 8 8\nmatrices 24 8\nvector 8\n"
SHAPES = [(20, 8), (16, 8), (8, 8), (8, 24), (8,)]
MATRICES = {1: (8, 4, 4), 2: (8,), 3: (8,)}


def wsd(step, warmup=10, decay=0.3, floor=0.1):
    begin = STEPS - round(decay * STEPS)
    if step < warmup:
        return (step + 1) / warmup
    return 1.0 if step < begin else floor + (1 - floor) * (1 - math.sqrt((step - begin) / (STEPS - 1 - begin)))


def linear(step, warmup=5):
    return (step + 1) / warmup if step < warmup else 1 - (step - warmup) / (STEPS - 1 - warmup)


class Optimizers(unittest.TestCase):
    def check(self, written, schedule, scale, make):
        """`make` has torch's optimizers of the parts, as (name of a leaf's number, part) has them; the learning rate times `scale`."""
        torch.manual_seed(1)
        start = [torch.randn(shape) * 0.3 for shape in SHAPES]
        gradients = [[torch.randn(shape) * (1 + 0.1 * step) for shape in SHAPES] for step in range(STEPS)]
        with tempfile.TemporaryDirectory(prefix="prime-optimizer-") as name:
            folder = pathlib.Path(name)
            manifest = folder / "run.yaml"
            manifest.write_text(f"version: 1\nrun: x\ntrain: {{clip_norm: 1e9, optimizer: {{{written}}}, schedule: {{{schedule}}}}}\n")
            (folder / "leaves").write_text(LEAVES)
            flat = lambda tensors: torch.cat([tensor.reshape(-1) for tensor in tensors]).numpy().tobytes()
            (folder / "start").write_bytes(flat(start))
            (folder / "gradients").write_bytes(b"".join(flat(each) for each in gradients))
            call(BIN / "optimizer-steps", manifest, folder)
            ours = torch.frombuffer(bytearray((folder / "end").read_bytes()), dtype=torch.float32)
        parts = {
            (leaf, part): torch.nn.Parameter(values.clone())
            for leaf, tensor in enumerate(start)
            for part, values in enumerate(tensor.split(MATRICES.get(leaf, (len(tensor),))))
        }
        optimizers = make(parts)
        highest = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
        for step in range(STEPS):
            for (leaf, part), parameter in parts.items():
                parameter.grad = gradients[step][leaf].split(MATRICES.get(leaf, (len(start[leaf]),)))[part].clone()
            for optimizer, rates in zip(optimizers, highest):
                for group, rate in zip(optimizer.param_groups, rates):
                    group["lr"] = rate * scale(step)
                optimizer.step()
        theirs = torch.cat([parameter.detach().reshape(-1) for parameter in parts.values()])
        self.assertGreater((theirs - torch.cat([tensor.reshape(-1) for tensor in start])).abs().max().item(), 0.1, "they moved")
        self.assertLessEqual((ours - theirs).abs().max().item(), 1e-6)

    def test_adamw_is_torchs(self):
        self.check(
            "adamw: {lr: 0.01, betas: [0.9, 0.99], weight_decay: 0.2, epsilon: 1e-7}",
            "wsd: {warmup: 10, decay: 30%, floor: 0.1}",
            wsd,
            lambda parts: [torch.optim.AdamW(parts.values(), lr=0.01, betas=(0.9, 0.99), weight_decay=0.2, eps=1e-7)],
        )

    def test_sgd_is_torchs(self):
        for momentum, nesterov in ((0.9, True), (0.9, False), (0.0, False)):
            with self.subTest(momentum=momentum, nesterov=nesterov):
                self.check(
                    f"sgd: {{lr: 0.002, momentum: {momentum}, nesterov: {str(nesterov).lower()}, weight_decay: 0.01}}",
                    "linear: {warmup: 5}",
                    linear,
                    lambda parts: [torch.optim.SGD(parts.values(), lr=0.002, momentum=momentum, nesterov=nesterov, weight_decay=0.01)],
                )

    @unittest.skipUnless(hasattr(torch.optim, "Muon"), "skipped: this torch has no Muon to compare with")
    # Torch's makes its matrices orthogonal in bf16 everywhere, ours only on a GPU.
    @mock.patch.object(torch.Tensor, "bfloat16", torch.Tensor.clone)
    def test_muon_of_each_matrix_in_a_block_and_adamw_of_the_rest_are_torchs(self):
        for nesterov in (True, False):
            with self.subTest(nesterov=nesterov):
                self.check(
                    f"muon: {{lr: 0.02, momentum: 0.9, nesterov: {str(nesterov).lower()}, weight_decay: 0.05, iterations: 4, adamw: {{lr: 0.003, betas: [0.8, 0.9]}}}}",
                    "constant: {}",
                    lambda step: 1.0,
                    lambda parts: [
                        torch.optim.Muon(
                            [part for (leaf, _), part in parts.items() if leaf in MATRICES],
                            lr=0.02,
                            momentum=0.9,
                            nesterov=nesterov,
                            weight_decay=0.05,
                            ns_steps=4,
                        ),
                        torch.optim.AdamW(
                            [part for (leaf, _), part in parts.items() if leaf not in MATRICES], lr=0.003, betas=(0.8, 0.9), weight_decay=0.1
                        ),
                    ],
                )


if __name__ == "__main__":
    unittest.main()
