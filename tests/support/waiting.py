"""Owns how tests of whole processes wait: for an event, never for a time."""

import os
import time

# A guard against hangs, far above what anything takes; never an expectation of speed.
LIMIT_S = float(os.environ.get("PRIME_CHAOS_LIMIT_S", "180"))


def wait_until(what, condition):
    """Polls for an event; the value of `condition` when it is true."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {LIMIT_S:.0f} s for {what}")
