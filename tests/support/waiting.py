"""Owns how tests of whole processes wait: for an event, never for a time."""

import os
import pathlib
import time

# A guard against hangs, far above what anything takes; never an expectation of speed.
LIMIT_S = float(os.environ.get("PRIME_CHAOS_LIMIT_S", "180"))


def lives(pid):
    """A process that has ended may stay in the table until somebody reaps it, and may leave it between two looks."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(what, condition):
    """Polls for an event; the value of `condition` when it is true."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {LIMIT_S:.0f} s for {what}")
