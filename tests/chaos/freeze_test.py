"""SIGSTOP: evicted at the deadline, the run goes on; refused as stale after SIGCONT."""

import os
import signal
import unittest

from prime_run import Run, wait_until


class Freeze(unittest.TestCase):
    def test_a_frozen_peer_is_evicted_and_refused_as_stale_when_it_thaws(self):
        with Run(2, outer_steps=10, dead_after="4s", up_flags=["--quorum", "3"], env={"PRIME_QUADRATIC_DELAY_MS": "20"}) as run:
            victim = run.join()
            run.wait_for("outer_step_committed", 2)
            agent = victim.pid
            os.kill(agent, signal.SIGSTOP)
            lost = run.wait_for("peer_lost")
            self.assertIn("no heartbeat", lost[0]["reason"])
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=10, lost=1)
            self.assertEqual(len(commits[-1]["contributors"]), 2)
            os.kill(agent, signal.SIGCONT)
            wait_until("the thawed peer's end", lambda: victim.poll() is not None)
            self.assertIn(victim.returncode, (4, 1), run.join_log(0))
            self.assertRegex(run.join_log(0), "evicted|coordinator was lost")

    def test_a_thawed_peer_of_a_living_run_is_told_that_it_was_evicted(self):
        with Run(2, outer_steps=200, dead_after="4s", up_flags=["--quorum", "3"], env={"PRIME_QUADRATIC_DELAY_MS": "20"}) as run:
            victim = run.join()
            run.wait_for("outer_step_committed", 2)
            os.kill(victim.pid, signal.SIGSTOP)
            run.wait_for("peer_lost")
            os.kill(victim.pid, signal.SIGCONT)
            wait_until("the thawed peer's end", lambda: victim.poll() is not None)
            self.assertEqual(victim.returncode, 4, run.join_log(0))
            self.assertIn("evicted", run.join_log(0))
            run.check(lost=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
