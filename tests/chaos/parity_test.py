"""A thousand outer steps of each algorithm, with 2, 3 and 5 peers: two join in the middle, the agent of one is killed in a reduce, the trainer of
the other while its work is voted on, and all that are left hold the same bits after each commit (law 3)."""

import os
import unittest

from prime_run import Run

STEPS = int(os.environ.get("PRIME_PARITY_STEPS", "1000"))
HELD, LOST, AGAIN = STEPS // 5, STEPS // 2, STEPS * 7 // 10
ALGORITHMS = {"diloco": (0.7, 0.5, 1), "delayed": (0.4, 0.5, 1), "eager": (0.4, 0.5, 1), "streaming": (0.4, 0.5, 4)}


class Parity(unittest.TestCase):
    def many_rounds(self, algorithm):
        lr, momentum, fragments = ALGORITHMS[algorithm]
        for peers in (2, 3, 5):
            env = {"PRIME_QUADRATIC_TENSORS": "8", "PRIME_QUADRATIC_ELEMENTS": "400"}
            with self.subTest(peers=peers), Run(peers, env=env, algorithm=algorithm, lr=lr, momentum=momentum, fragments=fragments, in_flight=2, outer_steps=STEPS,
                                                inner_steps=4, held_at=HELD, up_flags=["--quorum", str(peers)]) as run:
                run.wait_until_held()
                run.join(env={"PRIME_FAULT": f"agent@reducing:50:{LOST}.0"})
                survivor = run.join(env={"PRIME_FAULT": f"trainer@voting:{AGAIN}.0"})
                run.release(peers + 2)
                self.assertEqual(run.wait_for_end(), 0)
                self.assertEqual(survivor.wait(), 0)
                commits = run.check(outer_steps=STEPS, lost=1)
                restarted = [name for name, lines in run.peer_journals().items() for line in lines if line["event"] == "trainer_restarting"]
                self.assertEqual(len(restarted), 1, restarted)
                sizes = {commit["outer_step"]: len(commit["contributors"]) for commit in commits}
                self.assertEqual([sizes[step] for step in (1, HELD + 5, STEPS)], [peers, peers + 2, peers + 1])
                self.assertEqual(len({commit["digest"] for commit in commits}), STEPS, "each step changes something")

    def test_diloco(self):
        self.many_rounds("diloco")

    def test_delayed(self):
        self.many_rounds("delayed")

    def test_eager(self):
        self.many_rounds("eager")

    def test_streaming(self):
        self.many_rounds("streaming")


if __name__ == "__main__":
    unittest.main(verbosity=2)
