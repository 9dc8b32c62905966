"""Machines whose clocks are hours apart: nobody compares wall clocks, so nothing comes of it."""

import datetime
import glob
import os
import signal
import unittest

from prime_run import Run, wait_until


def clock(offset):
    """An environment whose wall clock is off by so much; the monotonic clock goes on as it is."""
    library = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    assert library, "libfaketime is missing; `./dev setup --test` installs it"
    # AddressSanitizer would rather be loaded first, but the library takes nothing from it.
    return {"LD_PRELOAD": library[0], "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))}


def hours_off(line):
    told = datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00"))
    return round((told - datetime.datetime.now(datetime.timezone.utc)).total_seconds() / 3600)


class Skew(unittest.TestCase):
    def test_clocks_two_hours_apart_change_nothing(self):
        with Run(1, minimum=3, outer_steps=60, dead_after="5s", env={"PRIME_QUADRATIC_DELAY_MS": "20", **clock("-1h")}) as run:
            joiners = [run.join(env=clock("+1h")), run.join(env=clock("+0"))]
            run.wait_for("outer_step_committed", 5)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            run.wait_for("coordinator_restarted")
            run.wait_for("outer_step_committed", 20)
            self.assertEqual(run.wait_for_end(), 0)
            for index, joiner in enumerate(joiners):
                wait_until("the joiner's end", lambda p=joiner: p.poll() is not None)
                self.assertEqual(joiner.returncode, 0, run.join_log(index))
            run.check(outer_steps=60, lost=0)
            self.assertEqual(hours_off(run.coordinator()[-1]), -1)
            self.assertEqual(sorted(hours_off(lines[-1]) for lines in run.peer_journals().values()), [-1, 0, 1])

    def test_a_silent_peer_is_lost_by_the_limit_whatever_the_clocks_say(self):
        with Run(1, minimum=2, outer_steps=1000000, dead_after="5s", env={"PRIME_QUADRATIC_DELAY_MS": "20", **clock("+1h")}) as run:
            joiners = [run.join(env=clock("-1h")), run.join(env=clock("+0"))]
            run.wait_for("peer_admitted", 3)
            run.wait_for("outer_step_committed", 3)
            os.kill(joiners[0].pid, signal.SIGSTOP)
            lost = run.wait_for("peer_lost")
            self.assertIn("no heartbeat", lost[0]["reason"])
            run.wait_for("outer_step_committed", len(run.events("outer_step_committed")) + 3)
            run.check(lost=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
