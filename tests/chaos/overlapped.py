"""Owns what the tests of algorithms that overlap share: a run in which somebody is lost, and one that somebody joins in the middle."""

import os
import re
import signal
import unittest

from fragments_test import ELEMENTS, TENSORS, checkpoints_of, tensors_of
from prime_run import wait_until

ENV = {"PRIME_QUADRATIC_TENSORS": str(TENSORS), "PRIME_QUADRATIC_ELEMENTS": str(ELEMENTS)}
STEPS = 6


class Overlapped(unittest.TestCase):
    def rounds(self, run):
        return [line for line in run.coordinator() if line["event"] == "round_committed"]

    def equals(self, run, expected):
        """The last checkpoint has these values, by fragment; its bytes."""
        final = checkpoints_of(run)[-1]
        self.assertEqual(final.name, f"step-{STEPS:06}")
        for name, values in tensors_of(final / "model.safetensors").items():
            part = int(re.match(r"\d+", name).group()) % len(expected)
            self.assertEqual(len(set(values)), 1, "all values of a tensor are alike")
            self.assertLessEqual(abs(values[0] - expected[part]), 1e-6 * STEPS, f"tensor {name[0]}: {values[0]}, by hand {expected[part]}")
        return (final / "model.safetensors").read_bytes(), (final / "prime/outer_momentum.safetensors").read_bytes()

    def ends_well(self, run, joiner, lost=0):
        self.assertEqual(run.wait_for_end(), 0)
        wait_until("the joiner's end", lambda: joiner.poll() is not None)
        run.check(outer_steps=STEPS, lost=lost)

    def lives_through_two_deaths_of_its_coordinator(self, run):
        for times, step in enumerate((2, 3), 1):
            run.wait_for("reduce_started", outer_step=step)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            run.wait_for("coordinator_restarted", times)
        run.hold.unlink(missing_ok=True)  # of a run that is held at its last step
        self.assertEqual(run.wait_for_end(), 0)
        run.check(outer_steps=STEPS)

    def joined_in_between(self, run):
        """Of a run that is held at a step."""
        run.wait_until_held()
        joiner = run.join()
        run.wait_for("peer_admitted", 3)
        run.hold.unlink()
        self.ends_well(run, joiner)
        self.assertEqual(joiner.returncode, 0)
