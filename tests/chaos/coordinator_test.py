"""SIGKILL of the coordinator: every peer ends by itself with a named error, its state saved; a frozen one likewise."""

import json
import os
import pathlib
import signal
import unittest

from prime_run import Run, wait_until


class CoordinatorLost(unittest.TestCase):
    def lose(self, sign):
        with Run(3, outer_steps=500, dead_after="4s", env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
            run.wait_for("outer_step_committed", 3)
            os.kill(run.up["coordinator"]["pid"], sign)
            for peer in run.up["peers"]:
                wait_until(f"the end of {peer['name']}", lambda pid=peer["pid"]: not run.ours(pid))
            revisions = set()
            for name, lines in run.peer_journals().items():
                ended = lines[-1]
                self.assertEqual(ended["event"], "process_ended")
                self.assertIn("coordinator was lost", ended["reason"])
                self.assertEqual(ended["exit_code"], 1)
                saved = [line for line in lines if line["event"] == "checkpoint_written"]
                self.assertEqual(len(saved), 1, f"{name} saved its state")
                state = json.loads((pathlib.Path(saved[0]["path"]) / "prime" / "state.json").read_text())
                revisions.add(json.dumps(state, sort_keys=True))
            # All stand at the last commit that they heard of: the same one, or two that follow each other.
            self.assertLessEqual(len(revisions), 2)
            if sign == signal.SIGKILL:
                status = run.status()
                self.assertEqual(status["run"]["state"], "failed")

    def test_killed(self):
        self.lose(signal.SIGKILL)

    def test_frozen(self):
        self.lose(signal.SIGSTOP)


if __name__ == "__main__":
    unittest.main(verbosity=2)
