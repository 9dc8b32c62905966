"""`sync.wire.feedback`: what 4 bits lose of a peer's contributions is neither lost nor brought twice. An independent account of each value: what the
peers made, less what the outer steps took in, is what the peers keep."""

import collections
import re
import unittest

from fragments_test import TENSORS, Reference, f32, tensors_of
from prime_run import Run, wait_until

ELEMENTS = 4000
INNER_STEPS = 4
PEERS = 2
STEPS = 2
ENV = {"PRIME_QUADRATIC_TENSORS": str(TENSORS), "PRIME_QUADRATIC_ELEMENTS": str(ELEMENTS), "PRIME_QUADRATIC_SPREAD": "1"}
MOMENTUM = 0.5


def flags(*settings):
    return [word for each in ("sync.wire.codec=int4", "sync.wire.result_codec=none", "checkpoint.keep=10", *settings) for word in ("--set", each)]


def made(start, target):
    own = start
    for _ in range(INNER_STEPS):
        own = f32(own - f32(f32(0.1) * f32(own - target)))
    return f32(start - own)


class Account:
    """Read from checkpoints: all tensors of each outer step, one after the other, and the pseudo-gradient that each step took in."""

    def __init__(self, run):
        self.states, self.taken = [], []
        before = collections.defaultdict(float)
        for step in range(STEPS + 1):
            (checkpoint,) = run.state.glob(f"*/peers/*/checkpoints/step-{step:06}") if step else (None,)
            if checkpoint is None:
                self.states.append([f32(4.0 + f32(f32(i % 13) * f32(0.37))) for i in range(ELEMENTS)])
                continue
            momentum = self.flat(checkpoint / "prime/outer_momentum.safetensors")
            self.states.append(self.flat(checkpoint / "model.safetensors"))
            self.taken.append([value - MOMENTUM * before[i] for i, value in enumerate(momentum)])
            before = dict(enumerate(momentum))

    @staticmethod
    def flat(path):
        tensors = tensors_of(path)
        by_number = sorted(tensors, key=lambda name: int(re.match(r"\d+", name).group()))
        return [value for name in by_number for value in tensors[name]]

    def missing(self, ranks):
        """Of each value, in sum over the peers."""
        total = [0.0] * ELEMENTS
        for step in range(STEPS):
            for i, start in enumerate(self.states[step]):
                total[i] += sum(made(start, float(rank)) for rank in ranks) - PEERS * self.taken[step][i]
        return total


class Feedback(unittest.TestCase):
    def run_of(self, *settings):
        return Run(PEERS, env=ENV, up_flags=flags(*settings), outer_steps=STEPS, inner_steps=INNER_STEPS, momentum=MOMENTUM, every=1, held_at=STEPS)

    def end(self, run):
        """Both steps are on a disk: the first before the second can end."""
        run.wait_until_held()
        wait_until("the first step on a disk", lambda: list(run.state.glob("*/peers/*/checkpoints/step-000001/model.safetensors")))
        run.hold.unlink()
        self.assertEqual(run.wait_for_end(), 0)
        run.check(outer_steps=STEPS)

    def kept(self, run):
        """What the peers keep, in sum."""
        total = [0.0] * ELEMENTS
        saved = list(run.state.glob(f"*/peers/*/checkpoints/private-{STEPS:06}/private.safetensors"))
        self.assertEqual(len(saved), PEERS)
        for path in saved:
            (residual,) = tensors_of(path).values()
            total = [a + b for a, b in zip(total, residual, strict=True)]
        return total

    def test_what_is_lost_is_kept_to_the_last_bit_that_counts(self):
        with self.run_of("sync.wire.feedback=true") as run:
            self.end(run)
            reference = Reference(run)
            for step in range(1, STEPS + 1):
                self.assertEqual(sorted(reference.rank(peer, at) for peer, at in reference.begun if at == step), [0, 1])
            missing, kept = Account(run).missing((0, 1)), self.kept(run)
            self.assertGreater(max(map(abs, kept)), 1e-3, "4 bits lose something")
            self.assertLess(max(abs(a - b) for a, b in zip(missing, kept, strict=True)), 2e-5)

    def test_without_it_the_loss_is_gone(self):
        with self.run_of() as run:
            self.end(run)
            self.assertGreater(max(map(abs, Account(run).missing((0, 1)))), 1e-3)
            self.assertEqual(list(run.state.glob("*/peers/*/checkpoints/private-*")), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
