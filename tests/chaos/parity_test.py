"""A thousand outer steps of each algorithm, with 2, 3 and 5 peers: two join in the middle, the agent of one is killed in a reduce, the trainer of
the other while its work is voted on, and all that are left hold the same bits after each commit (law 3). Decoupled peers have no step in common:
there the journal tells when, and beside parity what an independent reference makes of the journal is what the run came to, all the way."""

import json
import os
import re
import signal
import unittest

from decoupled_test import LR, MOMENTUM, SLOWLY, TARGET, FromJournal
from decoupled_test import OTHER as JOINERS_TARGET
from fragments_test import PARTS, checkpoints_of, tensors_of
from overlapped import ENV
from prime_run import Run, wait_until

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

    def equals_journal(self, run):
        """Each checkpoint that is there, of whatever revision; how many."""
        states = FromJournal(run, PARTS).states()
        compared = checkpoints_of(run)
        for checkpoint in compared:
            expected = states[json.loads((checkpoint / "prime/state.json").read_text())["revision"]]
            for name, values in tensors_of(checkpoint / "model.safetensors").items():
                part = int(re.match(r"\d+", name).group()) % PARTS
                self.assertEqual(len(set(values)), 1, "all values of a tensor are alike")
                self.assertLessEqual(abs(values[0] - expected[part]), 1e-5, f"{checkpoint.name}, tensor {name[0]}: {values[0]}, by hand {expected[part]}")
        return len(compared)

    def versions_by(self, run, name):
        """Of any fragment, to which the peer of this name has contributed."""
        peers = {line["peer"] for line in run.events("peer_admitted") if line["name"] == name}
        return [line["version"] for line in run.events("round_committed") if peers & set(line["contributors"])]

    def test_decoupled(self):
        env = {**ENV, **SLOWLY, "PRIME_QUADRATIC_TARGET": str(TARGET)}
        for peers in (2, 3, 5):
            flags = ["--quorum", str(peers), "--set", "sync.grace=1ms", "--set", "checkpoint.keep=1000"]
            with self.subTest(peers=peers), Run(peers, env=env, algorithm="decoupled", lr=LR, momentum=MOMENTUM, fragments=PARTS, in_flight=2, outer_steps=STEPS,
                                                inner_steps=4, every=max(1, STEPS // 25), up_flags=flags) as run:
                run.wait_for("outer_step_committed", outer_step=HELD)
                victim, survivor = (run.join(env={"PRIME_QUADRATIC_TARGET": str(JOINERS_TARGET)}, flags=("--name", name)) for name in ("victim", "survivor"))
                for name in ("victim", "survivor"):
                    wait_until(f"a contribution by {name}", lambda name=name: self.versions_by(run, name))
                run.wait_for("reduce_started", outer_step=LOST)
                victim.kill()
                run.wait_for("outer_step_committed", outer_step=AGAIN)
                (lines,) = (lines for lines in run.peer_journals().values() if lines[0]["name"] == "survivor")
                os.kill(next(line["trainer_pid"] for line in lines if line["event"] == "trainer_bound"), signal.SIGKILL)
                self.assertEqual(run.wait_for_end(), 0)
                wait_until("the joiner's end", lambda: survivor.poll() is not None)
                self.assertEqual(survivor.returncode, 0)
                commits = run.check(outer_steps=STEPS, lost=1)
                self.assertEqual([line["event"] for line in lines].count("trainer_restarting"), 1)
                self.assertGreater(self.versions_by(run, "survivor")[-1], AGAIN, "its second trainer contributes, too")
                sizes = [commit["peers"] for commit in commits]
                self.assertEqual((sizes[0], max(sizes), sizes[-1]), (peers, peers + 2, peers + 1))
                self.assertEqual(len({commit["digest"] for commit in commits}), STEPS, "each step changes something")
                self.assertGreaterEqual(self.equals_journal(run), 10)

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
