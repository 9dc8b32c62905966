"""`local.network.cap`: what a peer sends, in reduces and to joiners, takes as long as its cap says, whatever the network could carry."""

import datetime
import unittest

from prime_run import Run, wait_until

ELEMENTS = 200_000
BYTES = 4 * ELEMENTS
CAP = 500_000  # bytes per second: 4 Mbit/s
# What may go ahead of time: 20 ms that were not used, and a portion.
AHEAD_S = 0.03


def instant(line):
    return datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp()


class Cap(unittest.TestCase):
    def test_reduces_and_fetches_take_as_long_as_the_caps_of_their_peers_say(self):
        with Run(1, minimum=1, outer_steps=4, held_at=3, env={"PRIME_QUADRATIC_ELEMENTS": str(ELEMENTS)},
                 up_flags=("--quorum", "2", "--set", "local.network.cap=4Mbit/s", "--set", "local.network.shared_memory=false")) as run:
            flags = ("--set", "local.network.cap=4Mbit/s", "--set", "local.network.shared_memory=false")
            others = [run.join(flags=flags)]
            run.wait_for("outer_step_begun", 3)
            for commit in run.events("outer_step_committed")[:2]:
                self.assertEqual(len(commit["contributors"]), 2)
                # Of two peers each sends the half of the other, and the result of its own.
                self.assertGreater(commit["operation_s"], BYTES / CAP - AHEAD_S)
            others.append(run.join(flags=flags))
            fetched = run.wait_for("peer_fetched")[-1]
            begun = [event for event in run.events("peer_fetching") if event["peer"] == fetched["peer"]]
            # Parameters and momentum.
            self.assertGreater(instant(fetched) - instant(begun[-1]), 2 * BYTES / CAP - AHEAD_S)
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            for index, process in enumerate(others):
                wait_until("a joiner's end", lambda p=process: p.poll() is not None)
                self.assertEqual(process.returncode, 0, run.join_log(index))
            run.check(outer_steps=4)

    def test_a_cap_that_is_no_rate_is_refused_before_anything_starts(self):
        with self.assertRaisesRegex(AssertionError, "local.network.cap.*must be a rate"):
            Run(1, minimum=1, up_flags=("--set", "local.network.cap=4"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
