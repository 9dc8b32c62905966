"""`sync.algorithm: eager`: an outer step is reduced while the next one is trained, which begins with the peer's own part of it (Eager Updates,
arXiv:2502.12996, algorithm 1). The shared state is to the bit the same on all peers, and what the paper's algorithm makes of the journaled
contributors; what each peer begins from is its own."""

import unittest

from fragments_test import INNER_STEPS, Reference, f32
from overlapped import ENV, STEPS, Overlapped
from prime_run import Run

LR, MOMENTUM = 0.4, 0.9


class EagerReference(Reference):
    """As the paper has it: each peer makes outer steps of its own, with Δ̄ of the round before, in which its own part is replaced by that of this
    round. The runtime keeps one shared state instead, and beside it what a peer expects."""

    def __init__(self, run, parts):
        super().__init__(run, parts, LR, MOMENTUM)
        self.at = {(line["fragment"], line["version"]): line for line in self.rounds}
        self.members = {line["outer_step"]: line["peers"] for line in run.coordinator() if line["event"] == "outer_step_begun"}

    def inner(self, peer, step, start):
        target, own = float(self.rank(peer, step)), start
        for _ in range(INNER_STEPS):
            own = f32(own - f32(f32(0.1) * f32(own - target)))
        return f32(start - own)

    def version(self, part, revision):
        """A trainer that was started again may find that of its own last work: then there is nothing left to expect."""
        return sum(line["fragment"] == part and line["revision"] <= revision for line in self.rounds)

    def final(self):
        return [self.of_part(part) for part in range(self.parts)]

    def of_part(self, part):
        shared, momentum, states = self.start, 0.0, [self.start]
        own, velocity, before = {}, {}, {}  # of each peer: G, v, and its share of the last mean
        last_mean = 0.0
        for step in range(1, STEPS + 1):
            line = self.at[part, step]
            peers = [peer for peer, at in self.begun if at == step]
            bases = dict(zip(line["contributors"], line["base_versions"], strict=True))
            delta = {}
            for peer in peers:
                begun = self.version(part, bases.get(peer, 0))
                start = states[step - 1] if begun == step - 1 or peer not in own else own[peer]
                delta[peer] = self.inner(peer, step, start)
            for peer in peers:
                share = delta[peer] / self.members[step]
                estimate = last_mean + share - before.get(peer, 0.0)
                velocity[peer] = self.decay * velocity.get(peer, 0.0) + estimate
                own[peer] = own.get(peer, self.start) - self.lr * (estimate + self.decay * velocity[peer])
                before[peer] = share
            weights = dict(zip(line["contributors"], line["weights"], strict=True))
            last_mean = sum(delta[peer] * weight for peer, weight in weights.items()) / sum(weights.values())
            momentum = self.decay * momentum + last_mean
            shared -= self.lr * (last_mean + self.decay * momentum)
            states.append(shared)
        return shared


class Eager(Overlapped):
    def run_of(self, peers, parts=1, in_flight=1, quorum=None, **manifest):
        return Run(peers, up_flags=["--quorum", str(quorum or peers)], **{"env": ENV, "algorithm": "eager", "fragments": parts, "in_flight": in_flight,
                                                                       "every": 1, "outer_steps": STEPS, "lr": LR, "momentum": MOMENTUM, **manifest})

    def equals_reference(self, run, parts):
        return self.equals(run, EagerReference(run, parts).final())

    def test_it_is_the_algorithm_of_the_paper(self):
        for peers in (2, 3, 5):
            saved = []
            for parts, in_flight in ((1, 1), (4, 3)):
                with self.run_of(peers, parts, in_flight) as run:
                    self.assertEqual(run.wait_for_end(), 0)
                    run.check(outer_steps=STEPS)
                    saved.append(self.equals_reference(run, parts))
            self.assertEqual(saved[0], saved[1], f"{peers} peers")

    def lose(self, fault, lost, parts=1, in_flight=1):
        with self.run_of(2, parts, in_flight, quorum=3) as run:
            victim = run.join(env={"PRIME_FAULT": fault})
            self.ends_well(run, victim, lost)
            self.equals_reference(run, parts)

    def test_who_dies_in_a_reduce_or_with_its_vote_costs_no_bit(self):
        self.lose("agent@reducing:50:3.0", lost=1)
        self.lose("agent@voting:3.1", lost=1, parts=4, in_flight=3)

    def test_a_trainer_that_dies_begins_again_with_what_its_peer_expects(self):
        for parts in (1, 4):
            self.lose("trainer@voting:3.0", lost=0, parts=parts)

    def test_a_joiner_comes_in_between(self):
        with self.run_of(2, held_at=4) as run:
            self.joined_in_between(run)


if __name__ == "__main__":
    unittest.main(verbosity=2)
