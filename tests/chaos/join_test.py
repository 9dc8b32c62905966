"""Joins while others train and while they reduce; the digest is equal from the first outer step on."""

import os
import re
import signal
import socket
import unittest

from prime_run import Run, wait_until


class Join(unittest.TestCase):
    def first_commit(self, run, index):
        journals = [lines for name, lines in run.peer_journals().items()]
        joined = [lines for lines in journals if any(line["event"] == "state_fetched" for line in lines)]
        self.assertEqual(len(joined), index + 1, "each joiner fetched the state")
        return joined

    def test_a_joiner_during_inner_steps_enters_at_the_next_outer_step(self):
        with Run(2, outer_steps=8, held_at=3) as run:
            run.wait_for("outer_step_begun", 3)
            joiner = run.join()
            run.release(3)
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 0, run.join_log(0))
            commits = run.check(outer_steps=8)
            self.first_commit(run, 0)
            admitted = [e for e in run.events("peer_admitted") if e["revision"] > 0]
            self.assertEqual(len(admitted), 1)
            by_step = {c["outer_step"]: len(c["contributors"]) for c in commits}
            self.assertEqual(admitted[0]["revision"], 2)
            self.assertEqual([by_step[3], by_step[4]], [2, 3], "in the step under way it weighs nothing, in the next one it contributes")

    def test_a_joiner_during_a_reduce_does_not_disturb_it(self):
        # Large tensors and no delay: most of the time is spent in reduces.
        with Run(2, outer_steps=12, held_at=11, env={"PRIME_QUADRATIC_ELEMENTS": "4000000"}) as run:
            run.wait_for("reduce_started", 2)
            joiners = [run.join(), run.join()]
            run.release(4)
            self.assertEqual(run.wait_for_end(), 0)
            for index, joiner in enumerate(joiners):
                wait_until("the joiner's end", lambda p=joiner: p.poll() is not None)
                self.assertEqual(joiner.returncode, 0, run.join_log(index))
            commits = run.check(outer_steps=12)
            self.assertEqual(len(commits[-1]["contributors"]), 4)
            self.assertEqual(run.events("outer_step_aborted"), [])

    def test_joiners_that_come_too_late_hear_that_the_run_has_ended_and_do_not_hold_it(self):
        for _ in range(int(os.environ.get("PRIME_CHAOS_RUNS", "3"))):
            with Run(2, minimum=1, outer_steps=40, env={"PRIME_QUADRATIC_DELAY_MS": "10", "PRIME_QUADRATIC_ELEMENTS": "1000"}) as run:
                wait_until("the end to come near", lambda: any(e["revision"] >= 37 for e in run.events("outer_step_committed")))
                started = []
                wait_until("the last commit", lambda: (sum(each.poll() is None for each in started) < 12 and started.append(run.join())) or run.events("run_done"))
                self.assertEqual(run.wait_for_end(), 0)
                for index, joiner in enumerate(started):
                    wait_until("the joiner's end", lambda p=joiner: p.poll() is not None)
                    self.assertIn(joiner.returncode, (0, 3, 4), run.join_log(index))
                    if joiner.returncode != 0:
                        self.assertRegex(run.join_log(index), "PR0404|PR0401|PR0414", "ended, nobody serves it any more, or full")
                run.check(outer_steps=40)
                self.assertEqual(run.events("last_word_unanswered"), [], "nobody holds the coordinator when the run is over")

    def test_a_wrong_key_is_refused_with_exit_code_4(self):
        with Run(2, outer_steps=1_000_000, env={"PRIME_QUADRATIC_DELAY_MS": "20"}) as run:
            key = run.up["invite"].rsplit("#", 1)[1]
            wrong = ("A" if key[0] != "A" else "B") + key[1:]
            run.up["invite"] = run.up["invite"].replace(key, wrong)
            joiner = run.join()
            wait_until("the refusal", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 4, run.join_log(0))
            self.assertIn("run key does not match", run.join_log(0))

    def test_who_is_told_to_end_while_it_dials_ends_as_told(self):
        with socket.create_server(("127.0.0.1", 0)) as mute, Run(1, minimum=1, outer_steps=1) as run:
            host, port = mute.getsockname()
            run.up["invite"] = re.sub(r"//[^/]+/", f"//{host}:{port}/", run.up["invite"])
            joiner = run.join()
            with mute.accept()[0]:  # and says nothing
                joiner.send_signal(signal.SIGTERM)
                wait_until("the end", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 130, run.join_log(0))
            self.assertNotIn("no answer in time", run.join_log(0))

    def test_a_wrong_run_is_refused_with_exit_code_4(self):
        with Run(2, outer_steps=1_000_000, env={"PRIME_QUADRATIC_DELAY_MS": "20"}) as run:
            run.up["invite"] = run.up["invite"].replace("/" + run.up["run_id"], "/another-run")
            joiner = run.join()
            wait_until("the refusal", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 4, run.join_log(0))
            self.assertIn("another run", run.join_log(0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
