"""What the algorithms become at the ends of their settings, in runs of real processes: averaging, plain gradient descent, Lookahead, Nesterov's momentum,
and peers that have nothing to do with each other."""

import unittest

from fragments_test import ENV, Reference, checkpoints_of, f32, tensors_of
from prime_run import Run

STEPS = 6
RATE = f32(0.1)


def descend(x, target, steps):
    for _ in range(steps):
        x = f32(x - f32(RATE * f32(x - f32(target))))
    return x


class Identities(unittest.TestCase):
    def run_of(self, peers, inner_steps, lr, momentum, *keys, env=None, **manifest):
        flags = ["--quorum", str(peers), *(word for key in keys for word in ("--set", key))]
        return Run(peers, up_flags=flags, env={**ENV, **(env or {})}, every=1, outer_steps=STEPS, inner_steps=inner_steps, lr=lr, momentum=momentum, **manifest)

    def ends_at(self, run, expected, within):
        self.assertEqual(run.wait_for_end(), 0)
        run.check(outer_steps=STEPS)
        for values in tensors_of(checkpoints_of(run)[-1] / "model.safetensors").values():
            self.assertEqual(len(set(values)), 1)
            self.assertLessEqual(abs(values[0] - expected), within, f"{values[0]}, by hand {expected}")

    def test_without_momentum_and_with_a_whole_outer_step_it_is_federated_averaging(self):
        for peers, inner_steps in ((2, 4), (3, 4), (5, 2)):
            with self.subTest(peers=peers), self.run_of(peers, inner_steps, 1.0, 0.0) as run:
                x = 4.0
                for _ in range(STEPS):
                    x = sum(descend(f32(x), rank, inner_steps) for rank in range(peers)) / peers
                self.ends_at(run, x, 1e-6 * STEPS)

    def test_with_one_inner_step_it_is_gradient_descent_on_the_mean(self):
        for peers in (2, 3):
            with self.subTest(peers=peers), self.run_of(peers, 1, 1.0, 0.0) as run:
                x = 4.0
                for _ in range(STEPS):
                    x -= 0.1 * sum(x - rank for rank in range(peers)) / peers
                self.ends_at(run, x, 1e-6 * STEPS)

    def test_peers_that_are_alike_are_lookahead(self):
        with self.run_of(2, 5, 0.5, 0.0, env={"PRIME_QUADRATIC_TARGET": "1"}) as run:
            x = 4.0
            for _ in range(STEPS):
                x += 0.5 * (descend(f32(x), 1, 5) - x)
            self.ends_at(run, x, 1e-6 * STEPS)

    def test_peers_that_are_alike_are_descent_with_nesterovs_momentum_over_what_was_made(self):
        with self.run_of(2, 4, 0.7, 0.9, env={"PRIME_QUADRATIC_TARGET": "1"}) as run:
            x, velocity = 4.0, 0.0
            for _ in range(STEPS):  # as torch.optim.SGD(lr=0.7, momentum=0.9, nesterov=True) has it
                gradient = x - descend(f32(x), 1, 4)
                velocity = 0.9 * velocity + gradient
                x -= 0.7 * (gradient + 0.9 * velocity)
            self.ends_at(run, x, 1e-6 * STEPS)

    def test_an_eager_peer_that_is_alone_expects_all_that_comes(self):
        with self.run_of(1, 4, 0.4, 0.9, algorithm="eager", minimum=1) as run:
            x, velocity = 4.0, 0.0
            for _ in range(STEPS):  # as of `diloco`: nothing of what it goes on from is missing
                gradient = x - descend(f32(x), 0, 4)
                velocity = 0.9 * velocity + gradient
                x -= 0.4 * (gradient + 0.9 * velocity)
            self.ends_at(run, x, 1e-6 * STEPS)

    def test_who_keeps_all_of_its_own_trains_as_if_it_were_alone(self):
        with self.run_of(3, 8, 0.4, 0.9, "sync.overlap=2", "sync.mix=1", algorithm="streaming") as run:
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=STEPS)
            reference = Reference(run)
            said = {(line["peer"], line["outer_step"]): line["loss"] for line in run.events("peer_ready")}
            self.assertEqual(len(said), 3 * STEPS)
            for peer in {peer for peer, _ in said}:
                x = 4.0
                for step in range(1, STEPS + 1):
                    target, losses = reference.rank(peer, step), []
                    for _ in range(8):
                        x = descend(x, target, 1)
                        losses.append(0.5 * f32(f32(x - target) * f32(x - target)))
                    self.assertAlmostEqual(said[peer, step], sum(losses) / 8, delta=1e-12 * sum(losses))


if __name__ == "__main__":
    unittest.main(verbosity=2)
