"""SIGTERM and `leave`: a deathrattle, seen at once; a trainer that keeps dying takes its peer out with the cause; never alone."""

import os
import signal
import subprocess
import unittest

from prime_run import PRIMECTL, Run, wait_until

SMALL = {"PRIME_QUADRATIC_DELAY_MS": "20", "PRIME_QUADRATIC_ELEMENTS": "100000"}


class Leave(unittest.TestCase):
    def test_a_peer_that_is_told_to_end_leaves_and_the_run_goes_on(self):
        with Run(3, outer_steps=40, held_at=30, dead_after="1min", env=SMALL) as run:
            run.wait_for("outer_step_committed", 2)
            os.kill(run.up["peers"][0]["pid"], signal.SIGTERM)
            left = run.wait_for("peer_left")
            self.assertEqual(left[0]["peer"], run.up["peers"][0]["id"])
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=40)
            self.assertEqual(len(commits[-1]["contributors"]), 2)

    def test_the_leave_command_does_the_same(self):
        with Run(3, outer_steps=40, held_at=30, dead_after="1min", env=SMALL) as run:
            run.wait_for("outer_step_committed", 2)
            name = run.up["peers"][1]["name"]
            done = subprocess.run([str(PRIMECTL), "leave", name, "--run", run.up["run_id"], "--state-dir", str(run.state)], capture_output=True, text=True,
                                  timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            run.wait_for("peer_left", peer=run.up["peers"][1]["id"])
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=40)

    def test_a_trainer_that_keeps_dying_takes_its_peer_out_with_the_cause(self):
        with Run(3, outer_steps=6, restarts=2, trainer="/bin/false", wait_limit="20s", up_flags=["--quorum", "3"]) as run:
            lost = run.wait_for("peer_lost", 3)
            self.assertNotEqual(run.wait_for_end(), 0)
            self.assertEqual(len(lost), 3)
            for line in lost:
                self.assertIn("the trainer failed", line["reason"])

    def test_a_trainer_that_never_attaches_has_stalled(self):
        flags = ["--set", 'local.trainer_command=["/bin/sleep", "600"]', "--set", "local.trainer.stall_limit=1s"]
        with Run(2, restarts=1, wait_limit="20s", up_flags=flags) as run:
            lost = run.wait_for("peer_lost", 2)
            self.assertNotEqual(run.wait_for_end(), 0)
            self.assertEqual(len(lost), 2)
            for line in lost:
                self.assertIn("it stalled: no sign of life for 1.0 s (`local.trainer.stall_limit`)", line["reason"])
                self.assertEqual(line["reason"].count("[PR0601]"), 1)

    def test_a_peer_that_is_left_alone_stops_when_the_manifest_says_so(self):
        with Run(2, outer_steps=5000, alone="stop", env=SMALL) as run:
            run.wait_for("outer_step_committed", 2)
            os.kill(run.up["peers"][0]["pid"], signal.SIGKILL)
            self.assertEqual(run.wait_for_end(), 1)
            failed = run.events("run_failed")
            self.assertIn("alone: stop", failed[0]["reason"])
            commits = run.check(lost=1)
            self.assertEqual({len(c["contributors"]) for c in commits}, {2}, "law 5: never alone by accident")


if __name__ == "__main__":
    unittest.main(verbosity=2)
