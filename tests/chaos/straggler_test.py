"""A peer much slower than the others does not hold them up where the manifest says so: its work comes late, and counts."""

import os
import signal
import subprocess
import unittest

from prime_run import LIMIT_S, PRIMECTL, Run, wait_until

FAST = {"PRIME_QUADRATIC_DELAY_MS": "15"}
SLOW = {"PRIME_QUADRATIC_DELAY_MS": "120"}
FLAGS = ["--set", "sync.quorum=2", "--set", "sync.grace=0ms"]


def brought_late(run, peer):
    """A commit that contains what this peer began in an earlier step, while others were waited for no longer."""
    begun = None
    for line in run.coordinator():
        if line["event"] == "peer_late" and line["peer"] == peer:
            begun = line["begun"]
        if line["event"] == "outer_step_committed" and begun is not None and peer in line["contributors"]:
            if line["outer_step"] > begun:
                return line
            begun = None  # an attempt that came to nothing was made without it, and the next one with it
    return None


class Stragglers(unittest.TestCase):
    def end(self, run, slow):
        done = subprocess.run([str(PRIMECTL), "down", run.up["run_id"], "--state-dir", str(run.state)], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        run.wait_for_end()
        slow.wait()
        return run.check()

    def test_steps_close_without_a_slow_peer_and_its_work_comes_with_a_later_one(self):
        with Run(2, outer_steps=1_000_000, env=FAST, up_flags=FLAGS) as run:
            slow = run.join(env=SLOW)
            peer = run.wait_for("peer_late")[0]["peer"]
            commit = wait_until("late work in a commit", lambda: brought_late(run, peer))
            self.assertIn(peer, commit["contributors"])
            commits = self.end(run, slow)
            self.assertTrue([c for c in commits if len(c["contributors"]) == 2 and c["peers"] == 3], "steps closed without one of three")

    def test_a_trainer_that_dies_while_it_is_late_costs_nobody_a_seat(self):
        with Run(2, outer_steps=1_000_000, env=FAST, up_flags=FLAGS) as run:
            slow = run.join(env=SLOW)
            peer = run.wait_for("peer_late")[0]["peer"]
            victim = next(p["trainer_pid"] for p in run.status()["peers"] if p["id"] == peer)
            os.kill(victim, signal.SIGKILL)
            wait_until("work of the trainer that came after it", lambda: [
                line for line in run.events("peer_ready") if line["peer"] == peer and line["trainer_pid"] != victim])
            self.end(run, slow)


if __name__ == "__main__":
    unittest.main(verbosity=2)
