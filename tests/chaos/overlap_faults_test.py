"""Machines that stand still and connections that break, under each algorithm whose rounds overlap with training: the run goes on, nothing is made
void that need not be, all hold the same bits, and each version is what a replay makes of what the peers brought."""

import os
import re
import signal
import subprocess
import time
import unittest

from fragments_test import ELEMENTS, TENSORS
from prime_run import LIMIT_S, PRIMECTL, Run, wait_until
from reconnect_test import Proxy

STEPS = 12
ENV = {"PRIME_QUADRATIC_TENSORS": str(TENSORS), "PRIME_QUADRATIC_ELEMENTS": str(ELEMENTS), "PRIME_QUADRATIC_DELAY_MS": "5",
       "PRIME_QUADRATIC_SPREAD": "1"}
OF_ALGORITHM = {"delayed": {"sync.overlap": 8}, "eager": {}, "streaming": {"sync.overlap": 2}, "decoupled": {"sync.quorum": 2, "sync.grace": "50ms"}}


class OverlapFaults(unittest.TestCase):
    def run_of(self, algorithm, **manifest):
        keys = {"checkpoint.keep_contributions": "true", **OF_ALGORITHM[algorithm]}
        flags = ["--quorum", "3", *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]
        return Run(2, up_flags=flags, env=ENV, **{"algorithm": algorithm, "fragments": 4 if algorithm in ("streaming", "decoupled") else 1, "in_flight": 2,
                                                  "outer_steps": STEPS, "inner_steps": 8, "lr": 0.4, "momentum": 0.5, **manifest})

    def ends_well(self, run, joiner, lost=0):
        self.assertEqual(run.wait_for_end(), 0)
        wait_until("the joiner's end", lambda: joiner.poll() is not None)
        commits = run.check(outer_steps=STEPS, lost=lost)
        replay = subprocess.run([PRIMECTL, "replay", run.up["run_id"], "--state-dir", run.state, "--contributions", run.directory], capture_output=True,
                                text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(replay.returncode, 0, replay.stdout + replay.stderr)
        return commits

    def of_each(self, play):
        for algorithm in OF_ALGORITHM:
            with self.subTest(algorithm=algorithm):
                play(algorithm)

    def test_a_peer_that_is_frozen_for_long_is_evicted_and_joins_anew(self):
        def play(algorithm):
            with self.run_of(algorithm, dead_after="4s") as run:
                joiner = run.join()
                run.wait_for("outer_step_committed", 2)
                os.kill(joiner.pid, signal.SIGSTOP)
                run.wait_for("peer_lost")
                os.kill(joiner.pid, signal.SIGCONT)
                self.ends_well(run, joiner, lost=1)

        self.of_each(play)

    def test_a_peer_that_is_frozen_for_a_moment_keeps_its_seat(self):
        def play(algorithm):
            with self.run_of(algorithm, dead_after="5min", deadline="5min") as run:
                joiner = run.join()
                run.wait_for("reduce_started", outer_step=3)
                os.kill(joiner.pid, signal.SIGSTOP)
                time.sleep(1)  # nothing is expected of it: whatever it comes to, the peer is back in time
                os.kill(joiner.pid, signal.SIGCONT)
                self.ends_well(run, joiner)
                self.assertEqual(joiner.returncode, 0)

        self.of_each(play)

    def test_a_connection_that_breaks_costs_nobody_its_seat(self):
        def play(algorithm):
            with self.run_of(algorithm, dead_after="5min", deadline="5min") as run:
                at = re.search(r"prime://([^/]+)/", run.up["invite"])[1]
                with Proxy(at) as proxy:
                    run.up["invite"] = run.up["invite"].replace(at, proxy.address)
                    joiner = run.join()
                    for step in (3, 6):
                        run.wait_for("reduce_started", outer_step=step)
                        back = len(run.events("peer_returned"))
                        proxy.ask("cut")
                        run.wait_for("peer_returned", back + 1)
                    self.ends_well(run, joiner)
                    self.assertEqual(joiner.returncode, 0)

        self.of_each(play)


if __name__ == "__main__":
    unittest.main(verbosity=2)
