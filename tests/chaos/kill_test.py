"""SIGKILL of an agent and of a trainer in each phase: survivors finish, the divisor is right, digests are equal, nobody hangs."""

import os
import signal
import unittest

from prime_run import BULKY, Run, wait_until

# How often each case is repeated.
REPEATS = int(os.environ.get("PRIME_CHAOS_RUNS", "20"))
POINTS = ["training:3", "reducing:10:3", "reducing:50:3", "reducing:90:3", "voting:3"]


class AgentKilled(unittest.TestCase):
    def kill_at(self, point):
        with Run(2, up_flags=["--quorum", "3"], env=BULKY) as run:
            victim = run.join(env={"PRIME_FAULT": f"agent@{point}"})
            wait_until("the victim's death", lambda: victim.poll() is not None)
            self.assertEqual(victim.returncode, -signal.SIGKILL, run.join_log(0))
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=6, lost=1)
            # It died in step 3: the survivors abort and reduce again, unless its vote was the last one missing and came before its end.
            third = {2, 3} if point.startswith("voting") else {2}
            averaged = [len(c["contributors"]) for c in commits]
            self.assertEqual(averaged[:2] + averaged[3:], [3, 3, 2, 2, 2])
            self.assertIn(averaged[2], third)


def repeated(cls, name, method, argument):
    def case(self):
        for _ in range(REPEATS):
            getattr(self, method)(argument)
    case.__name__ = name
    setattr(cls, name, case)


for _point in POINTS:
    repeated(AgentKilled, "test_" + _point.replace(":", "_"), "kill_at", _point)


class FetchingAgentKilled(unittest.TestCase):
    def test_a_joiner_that_dies_while_it_fetches_costs_nobody_a_seat(self):
        for _ in range(REPEATS):
            with Run(2, outer_steps=12, held_at=11, env={**BULKY, "PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
                run.wait_for("outer_step_committed", 1)
                # Whatever revision it is sent for, it dies while fetching it.
                victim = run.join(env={"PRIME_FAULT": "agent@fetching:any"})
                wait_until("the victim's death", lambda: victim.poll() is not None)
                self.assertEqual(victim.returncode, -signal.SIGKILL, run.join_log(0))
                run.release(2)
                self.assertEqual(run.wait_for_end(), 0)
                run.check(outer_steps=12, lost=1)


class TrainerKilled(unittest.TestCase):
    def kill_at(self, point):
        with Run(2, up_flags=["--quorum", "3"], env=BULKY) as run:
            victim = run.join(env={"PRIME_FAULT": f"trainer@{point}"})
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: victim.poll() is not None)
            self.assertEqual(victim.returncode, 0, run.join_log(0))
            commits = run.check(outer_steps=6, lost=0)
            self.assertEqual({len(c["contributors"]) for c in commits}, {3}, "the seat was kept")
            restarts = [line for lines in run.peer_journals().values() for line in lines if line["event"] == "trainer_restarting"]
            self.assertEqual(len(restarts), 1, "the trainer was killed, and started again, once")
            self.assertIn("SIGKILL", restarts[0]["reason"])


for _point in POINTS:
    repeated(TrainerKilled, "test_" + _point.replace(":", "_"), "kill_at", _point)


if __name__ == "__main__":
    unittest.main(verbosity=2)
