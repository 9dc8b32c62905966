"""What overlap gains over a thin link: the rate of outer steps with `diloco` and with `delayed` between two machines that are namespaces capped by
`tbf`, as a share of the rate without a cap, beside what bytes and rate say.

Arguments after the name: outer steps (8), Mbit/s (10). An inner step sleeps, so that both cores are free for the network; the contribution of a
million parameters takes the link about three quarters of the inner steps' time. Needs root; the namespaces and all processes are gone afterwards.
"""

import datetime
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
PRIMECTL = pathlib.Path(sys.argv[1]).parent / "primectl"
os.environ.setdefault("PRIME_BIN", str(PRIMECTL.parent))
sys.path[:0] = [str(ROOT / "tests" / "chaos"), str(ROOT / "tests" / "support")]
import namespaces  # noqa: E402
from prime_run import Run  # noqa: E402

OUTER_STEPS, MBIT = (int(word) for word in [*sys.argv[2:], *["8", "10"][len(sys.argv[2:]):]])
INNER_STEPS, STEP_MS, PARAMETERS = 20, 220, 1_000_000
SETTLED = 2  # outer steps that are not counted: peers connect
ENV = {"PRIME_QUADRATIC_ELEMENTS": str(PARAMETERS), "PRIME_QUADRATIC_DELAY_MS": str(STEP_MS)}
TERMS = {"lr": 0.4, "momentum": 0.5, "inner_steps": INNER_STEPS, "outer_steps": OUTER_STEPS, "deadline": "2min", "stall_limit": "5min"}


def cap(names):
    for name in names:
        namespaces.run("tc", "-n", name, "qdisc", "add", "dev", namespaces.DEVICE, "root", "tbf", "rate", f"{MBIT}mbit", "burst", "16kb", "latency", "200ms")


def instant(line):
    return datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp()


def seconds_of_a_step(algorithm, capped):
    """From one commit to the next, in the mean."""
    with namespaces.machines(2) as names:
        if capped:
            cap(names)
        with Run(1, machine=names[0], up_flags=("--quorum", "2", "--listen", "0.0.0.0:0"), env=ENV, algorithm=algorithm, **TERMS) as run:
            run.join(machine=names[1])
            run.wait_for_end()
            commits = [instant(line) for line in run.events("outer_step_committed")][SETTLED - 1:-1]
            run.check(outer_steps=OUTER_STEPS)
            return (commits[-1] - commits[0]) / (len(commits) - 1)


def planned(algorithm):
    """For a model of as many bytes as the run's."""
    bits = PARAMETERS * 32
    training_s = INNER_STEPS * STEP_MS / 1000
    reduce_s = bits / (MBIT * 1e6)
    return training_s / (training_s + reduce_s) if algorithm == "diloco" else min(1, training_s / reduce_s)


def main():
    free = seconds_of_a_step("diloco", capped=False)
    print(f"two peers, {PARAMETERS / 1e6:.0f} M parameters, {INNER_STEPS} inner steps of {STEP_MS} ms; without a cap {free:.2f} s an outer step\n")
    print(f"{'':10} {'s':>7} {'of the rate without a cap':>26} {'bytes / rate say':>17}")
    for algorithm in ("diloco", "delayed"):
        took = seconds_of_a_step(algorithm, capped=True)
        print(f"{algorithm:10} {took:7.2f} {free / took:26.1%} {planned(algorithm):17.1%}")


if __name__ == "__main__":
    main()
