"""What a peer at a narrow link costs a run: three peers in namespaces of this machine, default settings, one of them with few Mbit/s each way.

Arguments after the name: millions of parameters (25), Mbit/s (2), outer steps (2), and settings of the manifest as KEY=VALUE for `--set`. At 25 M and
2 Mbit/s an outer step takes ten minutes. Needs root, for the namespaces; they and all processes are gone afterwards.
"""

import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("PRIME_BIN", str(pathlib.Path(sys.argv[1]).parent))
sys.path[:0] = [str(ROOT / "tests" / "chaos"), str(ROOT / "tests" / "support")]
import namespaces  # noqa: E402
from prime_run import Run  # noqa: E402

# As the manifest has them when it says nothing, where the tests' runs say something else.
DEFAULTS = {"deadline": "2min", "beat": "2s", "dead_after": "10s", "inner_steps": 20, "stall_limit": "5min", "wait_limit": "10min"}
SLOW = 2


def narrow(names, mbit):
    """Both ways, with a queue of 200 ms as of a good router."""
    shape = ("root", "tbf", "rate", f"{mbit}mbit", "burst", "16kb", "latency", "200ms")
    namespaces.run("tc", "-n", names[SLOW], "qdisc", "add", "dev", namespaces.DEVICE, *shape)
    namespaces.run("tc", "-n", namespaces.switch_name(), "qdisc", "add", "dev", f"port{SLOW}", *shape)


def said(status):
    """What `status` says of the peers while a step is under way."""
    return " | ".join(f"{peer['name']}: {peer['transfer']}" for peer in status["peers"] if peer.get("transfer"))


def play(run, steps, every_s=60):
    begun = next_look = time.monotonic()
    seen = 0
    while not (run.events("run_done") or run.events("run_failed")):
        time.sleep(1)
        now = time.monotonic()
        for commit in run.events("outer_step_committed")[seen:]:
            seen += 1
            print(f"{now - begun:7.0f} s  step {commit['outer_step']}: {len(commit['contributors'])} contributors, reduced in {commit['operation_s']:.0f} s", flush=True)
        if now >= next_look:
            next_look = now + every_s
            print(f"{now - begun:7.0f} s  status: {said(run.status())}", flush=True)
    (end,) = run.events("run_done") + run.events("run_failed")
    print(f"{time.monotonic() - begun:7.0f} s  {end['event']}; {seen} of {steps} steps, {len(run.events('outer_step_aborted'))} aborted, {len(run.events('peer_lost'))} peers lost")


def main():
    words = [word for word in sys.argv[2:] if "=" not in word]
    settings = [part for word in sys.argv[2:] if "=" in word for part in ("--set", word)]
    millions, mbit, steps = (int(word) for word in [*words, *["25", "2", "2"][len(words):]])
    print(f"{millions} M parameters, one of three peers at {mbit} Mbit/s, {steps} outer steps", flush=True)
    env = {"PRIME_QUADRATIC_ELEMENTS": str(millions * 1_000_000)}
    with namespaces.machines(3) as names:
        narrow(names, mbit)
        with Run(1, machine=names[0], up_flags=("--quorum", "3", "--listen", "0.0.0.0:0", *settings), env=env, outer_steps=steps, **DEFAULTS) as run:
            for name in names[1:]:
                run.join(machine=name)
            play(run, steps)


if __name__ == "__main__":
    main()
