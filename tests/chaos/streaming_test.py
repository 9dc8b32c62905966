"""`sync.algorithm: streaming`: each fragment is published at its own time, reduced while training goes on, and mixed into the trainer's own
parameters. To the bit the same on all peers, and what an independent reference makes of the journaled contributors (Streaming DiLoCo,
arXiv:2501.18512, algorithm 2)."""

import re
import unittest

from fragments_test import Reference, checkpoints_of, f32, tensors_of
from overlapped import ENV, STEPS, Overlapped
from prime_run import Run

INNER = 8
PARTS = 4
LR, MOMENTUM = 0.4, 0.9


class Streamed(Reference):
    """All peers go through the inner steps together: who is behind only waits longer."""

    def __init__(self, run, parts, overlap, mix):
        super().__init__(run, parts, LR, MOMENTUM)
        self.overlap, self.mix = overlap, mix
        self.weights = {(line["fragment"], line["version"]): dict(zip(line["contributors"], line["weights"], strict=True)) for line in self.rounds}
        self.published = {}  # (fragment, version) → peer → Δ

    def next_of(self, part):
        version = len(self.states[part])
        weights = self.weights[part, version]
        mean = sum(self.published[part, version][peer] * weight for peer, weight in weights.items()) / sum(weights.values())
        self.momentum[part] = self.decay * self.momentum[part] + mean
        self.states[part].append(self.states[part][-1] - self.lr * (mean + self.decay * self.momentum[part]))

    def state(self, part, version):
        while len(self.states[part]) <= version:
            self.next_of(part)
        return self.states[part][version]

    def boundary(self, peer, step, inner, own, base):
        for part in range(self.parts):
            at = -(-INNER * (part + 1) // self.parts)
            if at == inner:
                self.published.setdefault((part, step), {})[peer] = f32(base[part] - own[part])

    def take_over(self, step, inner, own, base):
        for part in range(self.parts):
            due = -(-INNER * (part + 1) // self.parts) + self.overlap
            version = step if due <= INNER else step - 1
            if version > 0 and inner == (due if due <= INNER else due - INNER):
                base[part] = self.state(part, version)
                own[part] = f32(self.mix * own[part] + (1 - self.mix) * base[part])

    def final(self):
        self.states = [[self.start] for _ in range(self.parts)]
        self.momentum = [0.0] * self.parts
        peers = {peer for peer, _ in self.begun}
        own = {peer: [self.start] * self.parts for peer in peers}
        base = {peer: [self.start] * self.parts for peer in peers}
        for step in range(1, STEPS + 1):
            at_it = [peer for peer in peers if (peer, step) in self.begun]
            for inner in range(1, INNER + 1):
                for peer in at_it:
                    target = float(self.rank(peer, step))
                    own[peer] = [f32(x - f32(f32(0.1) * f32(x - target))) for x in own[peer]]
                    self.boundary(peer, step, inner, own[peer], base[peer])
                for peer in at_it:
                    self.take_over(step, inner, own[peer], base[peer])
        return [self.state(part, STEPS) for part in range(self.parts)]


class Streaming(Overlapped):
    def run_of(self, peers, parts=PARTS, overlap=1, mix=0.5, quorum=None, in_flight=2, more=(), **manifest):
        flags = ["--quorum", str(quorum or peers), "--set", f"sync.overlap={overlap}", "--set", f"sync.mix={mix}", *more]
        return Run(peers, up_flags=flags, **{"env": ENV, "algorithm": "streaming", "fragments": parts, "in_flight": in_flight, "every": 1,
                                             "outer_steps": STEPS, "inner_steps": INNER, "lr": LR, "momentum": MOMENTUM, **manifest})

    def saved(self, run):
        final = checkpoints_of(run)[-1]
        self.assertEqual(final.name, f"step-{STEPS:06}")
        return final / "model.safetensors", (final / "prime/outer_momentum.safetensors").read_bytes()

    def equals_reference(self, run, parts, overlap, mix):
        expected = Streamed(run, parts, overlap, mix).final()
        for name, values in tensors_of(self.saved(run)[0]).items():
            part = int(re.match(r"\d+", name).group()) % parts
            self.assertEqual(len(set(values)), 1, "all values of a tensor are alike")
            self.assertLessEqual(abs(values[0] - expected[part]), 1e-6 * STEPS, f"tensor {name}: {values[0]}, by hand {expected[part]}")

    def test_it_is_what_the_paper_says(self):
        for peers, parts, overlap, mix in ((2, 4, 1, 0.5), (3, 4, 2, 0), (5, 4, 2, 0.5), (2, 4, 0, 0.25), (2, 1, 3, 0.5), (3, 2, 5, 0.5)):
            with self.subTest(peers=peers, parts=parts, overlap=overlap, mix=mix), self.run_of(peers, parts, overlap, mix) as run:
                self.assertEqual(run.wait_for_end(), 0)
                run.check(outer_steps=STEPS)
                self.equals_reference(run, parts, overlap, mix)

    def test_published_at_the_end_and_awaited_at_once_it_is_diloco_to_the_bit(self):
        with self.run_of(2, overlap=0, mix=0, more=["--set", "sync.fragments.offsets=end"]) as run:
            self.assertEqual(run.wait_for_end(), 0)
            path, momentum = self.saved(run)
            one = path.read_bytes(), momentum
        with Run(2, env=ENV, every=1, outer_steps=STEPS, inner_steps=INNER, lr=LR, momentum=MOMENTUM) as run:
            self.assertEqual(run.wait_for_end(), 0)
            path, momentum = self.saved(run)
            self.assertEqual((path.read_bytes(), momentum), one)

    def lose(self, fault, lost, overlap=2, exact=True):
        with self.run_of(2, overlap=overlap, quorum=3, in_flight=1) as run:  # one after the other: which is committed by then is certain
            victim = run.join(env={"PRIME_FAULT": fault})
            self.ends_well(run, victim, lost)
            if exact:
                self.equals_reference(run, PARTS, overlap, 0.5)
            return {(line["version"], line["fragment"]): len(line["contributors"]) for line in self.rounds(run)}

    def test_who_dies_in_a_reduce_is_in_what_was_committed_before_it(self):
        for overlap in (0, 2):
            contributors = self.lose("agent@reducing:50:3.1", lost=1, overlap=overlap)
            self.assertEqual([contributors[3, part] for part in range(PARTS)], [3, 2, 2, 2])

    def test_who_dies_with_its_vote_costs_no_bit(self):
        contributors = self.lose("agent@voting:3.3", lost=1)
        self.assertEqual([contributors[3, part] for part in range(PARTS - 1)], [3, 3, 3])
        self.assertEqual([contributors[4, part] for part in range(PARTS)], [2, 2, 2, 2])

    def test_a_trainer_that_dies_publishes_nothing_twice(self):
        contributors = self.lose("trainer@voting:3.1", lost=0, exact=False)
        self.assertEqual(set(contributors.values()), {3})

    def test_the_coordinator_that_dies_between_two_fragments_loses_and_doubles_nothing(self):
        with self.run_of(3, held_at=STEPS) as run:
            self.lives_through_two_deaths_of_its_coordinator(run)
            self.equals_reference(run, PARTS, 1, 0.5)

    def test_a_joiner_comes_in_between(self):
        with self.run_of(2, held_at=4) as run:
            self.joined_in_between(run)
            self.assertEqual(len(self.rounds(run)[-1]["contributors"]), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
