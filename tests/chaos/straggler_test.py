"""A peer much slower than the others does not hold them up where the manifest says so: its work comes late, and counts."""

import os
import signal
import unittest

from prime_run import Run

FAST = {"PRIME_QUADRATIC_DELAY_MS": "15"}
SLOW = {"PRIME_QUADRATIC_DELAY_MS": "120"}


class Stragglers(unittest.TestCase):
    def test_steps_close_without_a_slow_peer_and_its_work_comes_with_a_later_one(self):
        flags = ["--set", "sync.quorum=2", "--set", "sync.grace=0ms"]
        with Run(2, outer_steps=60, env=FAST, up_flags=flags) as run:
            slow = run.join(env=SLOW)
            self.assertEqual(run.wait_for_end(), 0)
            self.assertEqual(slow.wait(), 0, run.join_log(0))
            commits = run.check(outer_steps=60)
            late = run.events("peer_late")
            self.assertGreater(len(late), 0)
            self.assertEqual(run.events("peer_lost"), [])
            # What was begun in one step and is among the contributors of a later one.
            begun = {(line["peer"], line["begun"]) for line in late}
            ready = [line for line in run.events("peer_ready") if (line["peer"], line["outer_step"]) in begun]
            self.assertGreater(len(ready), 0, "late work was told")
            brought = [commit for commit in commits for line in ready
                       if line["peer"] in commit["contributors"] and commit["outer_step"] > line["outer_step"]]
            self.assertGreater(len(brought), 0, "late work was averaged")
            self.assertGreater(len([commit for commit in commits if len(commit["contributors"]) == 2]), 0)

    def test_a_trainer_that_dies_while_it_is_late_costs_nobody_a_seat(self):
        flags = ["--set", "sync.quorum=2", "--set", "sync.grace=0ms"]
        with Run(2, outer_steps=80, env=FAST, up_flags=flags) as run:
            slow = run.join(env=SLOW)
            late = run.wait_for("peer_late")[0]
            os.kill(next(peer["trainer_pid"] for peer in run.status()["peers"] if peer["id"] == late["peer"]), signal.SIGKILL)
            self.assertEqual(run.wait_for_end(), 0)
            self.assertEqual(slow.wait(), 0, run.join_log(0))
            run.check(outer_steps=80)
            self.assertEqual(run.events("peer_lost"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
