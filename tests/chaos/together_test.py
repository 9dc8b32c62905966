"""Several peers are lost at the same time: all of them fall silent, or a third dies."""

import contextlib
import os
import signal
import unittest

from prime_run import Run, wait_until

SLOW = {"PRIME_QUADRATIC_DELAY_MS": "5", "PRIME_QUADRATIC_ELEMENTS": "100000"}


class Together(unittest.TestCase):
    def agents(self, run):
        return [event["pid"] for event in run.events("peer_joining")]

    def signal_all(self, pids, number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def contributors(self, run):
        return len(run.events("outer_step_committed")[-1]["contributors"])

    def test_peers_that_are_all_frozen_are_waited_for_and_go_on(self):
        with Run(3, outer_steps=5000, dead_after="4s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 3)
            frozen = self.agents(run)
            self.signal_all(frozen, signal.SIGSTOP)
            absent = run.wait_for("peer_absent")[0]
            self.assertIn("no heartbeat", absent["reason"])
            wait_until("a wait that says whom and why",
                       lambda: "nobody else holds the state" in run.status()["run"]["waiting_for"])
            before = len(run.events("outer_step_committed"))
            self.signal_all(frozen, signal.SIGCONT)
            run.wait_for("peer_returned")
            wait_until("a step of all three", lambda: len(run.events("outer_step_committed")) > before and self.contributors(run) == 3)
            run.check(lost=len(run.events("peer_lost")))
            self.assertEqual(run.events("run_failed"), [])

    def test_a_run_whose_peers_are_all_killed_waits_for_them_and_ends_with_the_cause(self):
        with Run(2, outer_steps=5000, dead_after="5s", grace="1s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 3)
            self.signal_all(self.agents(run), signal.SIGKILL)
            run.wait_for("peer_absent")
            failed = run.wait_for("run_failed")[0]
            self.assertIn("the last peer that held revision", failed["reason"])
            run.check(lost=2)

    def test_after_the_loss_of_two_of_four_it_pauses_until_two_have_come(self):
        with Run(4, outer_steps=5000, correlated="pause", env=SLOW) as run:
            run.wait_for("outer_step_committed", 3)
            self.signal_all(self.agents(run)[:2], signal.SIGKILL)
            loss = run.wait_for("correlated_loss")[0]
            self.assertEqual((loss["lost"], loss["of"], loss["policy"]), (2, 4, "pause"))
            wait_until("the pause", lambda: run.status()["run"]["state"] == "paused")
            before = len(run.events("outer_step_committed"))
            run.join()
            run.wait_for("peer_admitted", 5)
            os.kill(run.coordinator_pid(), signal.SIGKILL)  # the next one knows of the pause
            run.wait_for("coordinator_restarted")
            run.wait_for("peer_returned", 3)
            self.assertEqual(len(run.events("outer_step_committed")), before)
            run.join()
            self.assertEqual(run.wait_for("pause_ended")[0]["members"], 4)
            wait_until("a step of all four", lambda: self.contributors(run) == 4)
            self.assertEqual(run.status()["run"]["state"], "training")
            run.check(lost=2)

    def test_after_the_loss_of_two_of_six_it_goes_back_to_the_checkpoint_with_the_same_bits(self):
        with Run(6, outer_steps=5000, correlated="rollback", every=50, env={**SLOW, "PRIME_QUADRATIC_MOMENTUM": "1"}) as run:
            # Far from both checkpoints: where there is nothing to go back, it would go on.
            saved = run.wait_for("outer_step_committed", 51)[49]
            self.signal_all(self.agents(run)[:2], signal.SIGKILL)
            back = run.wait_for("rolled_back")[0]
            self.assertEqual((back["revision"] % 50, back["from"] > back["revision"]), (0, True))
            if back["revision"] == 50:
                self.assertEqual(back["digest"], saved["digest"])
            # The next one knows of it, and tells what this one, killed right after it, had no time to tell.
            os.kill(run.guard(), signal.SIGSTOP)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            wait_until("the coordinator's end", lambda: not run.ours(run.coordinator_pid()))
            path = run.run_directory / "coordinator" / "journal.jsonl"
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(lines[:1 + next(i for i, line in enumerate(lines) if '"event":"rolled_back"' in line)]))
            os.kill(run.guard(), signal.SIGCONT)
            run.wait_for("coordinator_restarted")
            run.wait_for("peer_admitted", 10)
            wait_until("a step of all four", lambda: self.contributors(run) == 4 and run.status()["run"]["outer_step"] > back["revision"])
            taken = [line for lines in run.peer_journals().values() for line in lines if line["event"] == "private_state_taken"]
            self.assertEqual({line["outer_step"] for line in taken}, {back["outer_step"]}, "trainers have what they had for themselves then")
            run.check(lost=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
