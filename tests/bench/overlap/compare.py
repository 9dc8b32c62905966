"""What overlap gains over a thin link. Two machines are namespaces capped by `tbf`; each algorithm's rate of outer steps is told as a share of the
rate without a cap, beside what `primectl plan` predicts. Then the bytes of an outer step beside the planned ones, and how much of the blocking
burst one machine sends at most within the inner steps that overlap.

Arguments after the name: outer steps (8), Mbit/s (10). An inner step sleeps, so that both cores are free for the network; at the default rate the
contribution takes the link about three quarters of the inner steps' time. Needs root; the namespaces and all processes are gone afterwards.
"""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
PRIMECTL = pathlib.Path(sys.argv[1]).parent / "primectl"
os.environ.setdefault("PRIME_BIN", str(PRIMECTL.parent))
sys.path[:0] = [str(ROOT / "tests" / "chaos"), str(ROOT / "tests" / "support")]
import namespaces  # noqa: E402
from prime_run import Run  # noqa: E402

OUTER_STEPS, MBIT = (int(word) for word in [*sys.argv[2:], *["8", "10"][len(sys.argv[2:]):]])
INNER_STEPS, STEP_MS = 20, 220
SETTLED = 2  # outer steps that are not counted: peers connect
FRAGMENTS, OVERLAP = 4, 5
MODEL = ("model.layers=4", "model.dim=144", "model.heads=4", "model.kv_heads=4", "model.ffn=384")
TERMS = {"lr": 0.4, "momentum": 0.5, "inner_steps": INNER_STEPS, "outer_steps": OUTER_STEPS, "deadline": "2min", "stall_limit": "5min"}
ALGORITHMS = {"diloco": {}, "delayed": {}, "eager": {}, "streaming": {"fragments": FRAGMENTS, "overlap": OVERLAP}}


def cap(names):
    for name in names:
        namespaces.run("tc", "-n", name, "qdisc", "add", "dev", namespaces.DEVICE, "root", "tbf", "rate", f"{MBIT}mbit", "burst", "16kb", "latency", "200ms")


def instant(line):
    return datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp()


class Sent(threading.Thread):
    """What a process's machine has sent, again and again."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.path, self.samples, self.over = pathlib.Path(f"/proc/{pid}/net/dev"), [], threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            try:
                line = next(line for line in self.path.read_text().splitlines() if line.strip().startswith(f"{namespaces.DEVICE}:"))
            except (OSError, StopIteration):
                return
            self.samples.append((time.time(), int(line.split(":")[1].split()[8])))

    def most_within(self, seconds, begin):
        samples = [sample for sample in self.samples if sample[0] >= begin]
        most, first = 0, 0
        for at, sent in samples:
            while at - samples[first][0] > seconds:
                first += 1
            most = max(most, sent - samples[first][1])
        return most


def flags_of(algorithm):
    keys = ALGORITHMS[algorithm]
    flags = [*MODEL, *([f"sync.overlap={keys['overlap']}"] if "overlap" in keys else [])]
    return [word for flag in flags for word in ("--set", flag)]


def measure(algorithm, elements, capped):
    """Seconds and bytes of an outer step, in the mean, and what one machine sends at most within the inner steps that overlap."""
    env = {"PRIME_QUADRATIC_ELEMENTS": str(elements), "PRIME_QUADRATIC_TENSORS": "8", "PRIME_QUADRATIC_DELAY_MS": str(STEP_MS)}
    with namespaces.machines(2) as names:
        if capped:
            cap(names)
        terms = {**TERMS, "algorithm": algorithm, "fragments": ALGORITHMS[algorithm].get("fragments", 1), "in_flight": 2}
        with Run(1, machine=names[0], up_flags=("--quorum", "2", "--listen", "0.0.0.0:0", *flags_of(algorithm)), env=env, **terms) as run:
            run.join(machine=names[1])
            sent = Sent(run.up["peers"][0]["pid"])
            sent.start()
            run.wait_for_end()
            sent.over.set()
            lines = run.events("outer_step_committed")
            commits = [instant(line) for line in lines][SETTLED - 1:-1]
            run.check(outer_steps=OUTER_STEPS)
            wire = [line["wire_bytes"] for line in lines][SETTLED:-1]
            peak = sent.most_within(OVERLAP * STEP_MS / 1000, commits[0])
            return (commits[-1] - commits[0]) / (len(commits) - 1), sum(wire) / len(wire), peak


def plan(algorithm):
    keys = ALGORITHMS[algorithm]
    sets = [f"sync.inner_steps={INNER_STEPS}", f"sync.algorithm={algorithm}", "sync.outer.nesterov.lr=0.4", "sync.outer.nesterov.momentum=0.5",
            "train.evaluate.every=0", f"sync.fragments.count={keys.get('fragments', 1)}"]
    command = [PRIMECTL, "plan", ROOT / "manifests" / "quickstart.yaml", *flags_of(algorithm), *(word for each in sets for word in ("--set", each)),
               "--link", f"{MBIT}Mbit/s", "--peers", "2", "--step-time", f"{STEP_MS}ms", "-o", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    plans = {algorithm: plan(algorithm) for algorithm in ALGORITHMS}
    elements = plans["diloco"]["parameters"] // 8 * 8
    free, _, _ = measure("diloco", elements, capped=False)
    print(f"two peers, {elements / 1e6:.2f} M parameters, {INNER_STEPS} inner steps of {STEP_MS} ms, {MBIT} Mbit/s; without a cap {free:.2f} s an "
          f"outer step; streaming: {FRAGMENTS} fragments, {OVERLAP} inner steps overlap\n")
    print(f"{'':10} {'s':>6} {'of the rate without a cap':>26} {'planned':>8} {'bytes':>11} {'of the plan':>12} {f'most in {OVERLAP} steps, of a burst':>30}")
    burst = None
    for algorithm in ALGORITHMS:
        took, wire, peak = measure(algorithm, elements, capped=True)
        planned = plans[algorithm]
        burst = burst or wire / 2
        print(f"{algorithm:10} {took:6.2f} {free / took:26.1%} {planned['compute_utilization']:8.1%} {wire:11,.0f} "
              f"{wire / planned['outer_step_wire_bytes']:12.3f} {peak / burst:30.2f}", flush=True)


if __name__ == "__main__":
    main()
