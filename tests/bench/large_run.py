"""Owns the runs of the benchmarks of large states: two peers of this machine, and a trainer that only moves its tensors."""

import contextlib
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("PRIME_BIN", str(pathlib.Path(sys.argv[1]).parent))
sys.path.insert(0, str(ROOT / "tests" / "chaos"))
from prime_run import Run, wait_until  # noqa: E402


@contextlib.contextmanager
def large_run(millions, steps, *, every, delay_ms=0, fragments=1, **settings):
    """With millions of parameters; every outer step is memory traffic and `delay_ms`, and a checkpoint follows each `every` of them."""
    env = {"PRIME_QUADRATIC_ELEMENTS": str(millions * 1_000_000), "PRIME_QUADRATIC_DELAY_MS": str(delay_ms), "PRIME_QUADRATIC_TENSORS": str(fragments)}
    with Run(2, outer_steps=steps, inner_steps=1, every=every, deadline="2min", env=env, fragments=fragments, **settings) as run:
        yield run


def play(run, *, joins):
    """To its end, with a third peer or without."""
    run.wait_for("peer_admitted", 2)
    if joins:
        run.join()
    wait_until("its end", lambda: run.events("run_done") or run.events("run_failed"))
