"""What is left of the fast peers' training while others are slow, die and freeze: `decoupled` beside `diloco`, each under the same churn, and
beside one peer alone, in one run. And what many replicas make while faults meet them, by what they make without.

Arguments after the name: seconds of each part (60), replicas (none: only the fast ones), faults a minute that meet them (2),
algorithms of these (decoupled diloco).

A trainer's inner step is a pause of 20 ms, so that cores are not what is measured: the machine has fewer than peers. Two fast peers are
watched. Beside them one is four times as slow, one is killed and joins again every 15 s, and one is frozen for 10 s of each 20. Goodput is
inner steps of the fast ones by those of one alone. Predicted is, for `decoupled`, 1: nobody else holds them up; for `diloco` at most 1/4, the
slow one's speed.

Of many replicas one is killed, and joins again, and another one is frozen for 10 s, in turns, and all count, those that are down as well. B is the
time between two faults of one replica, R how long it is without a seat after one, by the journal: predicted is B / (B + R).
"""

import contextlib
import datetime
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("PRIME_BIN", str(pathlib.Path(sys.argv[1]).parent))
sys.path.insert(0, str(ROOT / "tests" / "chaos"))
from prime_run import Run  # noqa: E402

PAUSE_MS, CROWD_PAUSE_MS = 20, 100
ELEMENTS = 200000  # and so many tokens an inner step
KILLED_EVERY_S, FROZEN_EVERY_S, FROZEN_S = 15, 20, 10
ENV = {"PRIME_QUADRATIC_TENSORS": "8", "PRIME_QUADRATIC_ELEMENTS": str(ELEMENTS), "PRIME_QUADRATIC_TARGET": "1", "PRIME_QUADRATIC_DELAY_MS": str(PAUSE_MS)}


def lines_of(trace):
    return trace.read_bytes().count(b"\n") if trace.exists() else 0


class Churn:
    """Joiners that are lost: by a kill, after which another one comes, and by a stop that passes."""

    def __init__(self, run):
        self.run = run
        self.quiet = {"PRIME_QUADRATIC_TRACE": os.devnull}
        self.slow = run.join(env={**self.quiet, "PRIME_QUADRATIC_DELAY_MS": str(4 * PAUSE_MS)})
        self.mortal = run.join(env=self.quiet)
        self.sleeper = run.join(env=self.quiet)
        run.wait_for("peer_admitted", 5)
        now = time.monotonic()
        self.kill_at, self.stop_at, self.wake_at = now + KILLED_EVERY_S, now + FROZEN_EVERY_S - FROZEN_S, None
        self.losses = 0

    def tick(self, now):
        if now >= self.kill_at:
            self.mortal.kill()
            self.mortal = self.run.join(env=self.quiet)
            self.kill_at += KILLED_EVERY_S
            self.losses += 1
        if self.wake_at is not None and now >= self.wake_at:
            self.sleeper.send_signal(signal.SIGCONT)
            self.wake_at = None
        if now >= self.stop_at:
            self.sleeper.send_signal(signal.SIGSTOP)
            self.wake_at, self.stop_at = self.stop_at + FROZEN_S, self.stop_at + FROZEN_EVERY_S
            self.losses += 1


def measure(peers, seconds, algorithm, churns):
    """Inner steps a second of each watched peer, and how many outer steps there were."""
    flags = ["--quorum", str(peers)] + (["--set", "sync.grace=200ms"] if algorithm == "decoupled" else [])
    with tempfile.TemporaryDirectory(prefix="prime-goodput-") as folder, \
            Run(peers, env=ENV | {"PRIME_QUADRATIC_TRACE": f"{folder}/trace"}, up_flags=flags, algorithm=algorithm, fragments=4, in_flight=2,
                outer_steps=1000000, inner_steps=16, lr=0.4, momentum=0.5, minimum=min(2, peers), beat="100ms", dead_after="2s", deadline="20s") as run:
        trace = pathlib.Path(folder, "trace")
        run.wait_for("outer_step_committed", 2)
        churn = Churn(run) if churns else None
        began, before, committed = time.monotonic(), lines_of(trace), len(run.events("outer_step_committed"))
        while (now := time.monotonic()) < began + seconds:
            if churn:
                churn.tick(now)
            time.sleep(0.05)
        rate = (lines_of(trace) - before) / (time.monotonic() - began) / peers
        outer = len(run.events("outer_step_committed")) - committed
        if churn and churn.wake_at is not None:
            churn.sleeper.send_signal(signal.SIGCONT)
        return rate, outer, churn.losses if churn else 0


class Faults:
    """They meet those that have joined, one after the other, so that each has recovered when it is its turn again."""

    def __init__(self, run, joiners, a_minute):
        self.run, self.joiners, self.every = run, joiners, 60 / a_minute
        self.next = time.monotonic() + self.every / 2
        self.met, self.frozen = [], []  # (when, the name); (until when, the process)

    def tick(self, now):
        while self.frozen and self.frozen[0][0] <= now:
            signal_all(self.frozen.pop(0)[1], signal.SIGCONT)
        if now < self.next:
            return
        self.next += self.every
        at = len(self.met) % len(self.joiners)
        self.met.append((datetime.datetime.now(datetime.UTC), name_of(at)))
        if len(self.met) % 2 == 1:
            self.joiners[at].kill()
            self.joiners[at] = join_as(self.run, at)
        else:
            signal_all(self.joiners[at].pid, signal.SIGSTOP)
            self.frozen.append((now + FROZEN_S, self.joiners[at].pid))

    def end(self):
        for _, pid in self.frozen:
            signal_all(pid, signal.SIGCONT)

    def seconds_without_a_seat(self):
        """After each fault until who is of that name has a seat again."""
        seats = [(datetime.datetime.fromisoformat(line["t"]), line["name"]) for line in self.run.events("peer_admitted")]
        again = [min((when for when, name in seats if name == hit and when > at), default=None) for at, hit in self.met]
        return [(when - at).total_seconds() for when, (at, _) in zip(again, self.met, strict=True) if when]


def signal_all(pid, what):
    """An agent and its trainer, as when their machine stands still."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    for each in [pid, *map(int, children.read_text().split() if children.exists() else [])]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, what)


def name_of(number):
    return f"replica-{number}"


def join_as(run, number):
    return run.join(flags=("--name", name_of(number)))


def committed_a_second(first, last):
    """Inner steps whose tokens the shared state has, between two commits."""
    began, ended = (datetime.datetime.fromisoformat(line["t"]) for line in (first, last))
    return (last["tokens"] - first["tokens"]) / ELEMENTS / (ended - began).total_seconds()


def measure_crowd(replicas, seconds, algorithm, a_minute):
    flags = ["--set", f"membership.peers=2..{replicas + 8}"] + (["--set", "sync.grace=200ms"] if algorithm == "decoupled" else [])
    with tempfile.TemporaryDirectory(prefix="prime-goodput-") as folder, \
            Run(2, env=ENV | {"PRIME_QUADRATIC_TRACE": f"{folder}/trace", "PRIME_QUADRATIC_DELAY_MS": str(CROWD_PAUSE_MS)}, up_flags=flags, algorithm=algorithm,
                fragments=4, in_flight=2, outer_steps=1000000, inner_steps=16, lr=0.4, momentum=0.5, beat="500ms", dead_after="3s", deadline="20s") as run:
        joiners = [join_as(run, number) for number in range(replicas - 2)]
        run.wait_for("peer_admitted", replicas)
        run.wait_for("outer_step_committed", len(run.events("outer_step_committed")) + 2)
        faults = Faults(run, joiners, a_minute) if a_minute else None
        trace = pathlib.Path(folder, "trace")
        began, made, before = time.monotonic(), lines_of(trace), run.events("outer_step_committed")
        while (now := time.monotonic()) < began + seconds:
            if faults:
                faults.tick(now)
            time.sleep(0.05)
        made, lasted, after = lines_of(trace) - made, time.monotonic() - began, run.events("outer_step_committed")
        if faults:
            faults.end()
        return {"made": made / lasted, "in": committed_a_second(before[-1], after[-1]), "outer": len(after) - len(before),
                "faults": len(faults.met) if faults else 0, "without": faults.seconds_without_a_seat() if faults else []}


def crowd(replicas, seconds, a_minute, algorithms):
    """Without faults before and after, since a machine drifts."""
    print(f"{replicas} replicas, each an inner step in {CROWD_PAUSE_MS} ms, {a_minute:g} faults a minute\n")
    print(f"{'':<24} {'inner steps/s':>13} {'committed/s':>11} {'outer steps':>11} {'faults':>6} {'R, s':>6} {'goodput':>8} {'of committed':>12} {'predicted':>9}")
    for algorithm in algorithms:
        before, under, after = (measure_crowd(replicas, seconds, algorithm, rate) for rate in (0, a_minute, 0))
        for name, found in (("before", before), ("after", after)):
            print(f"{algorithm + ', ' + name:<24} {found['made']:>13.1f} {found['in']:>11.1f} {found['outer']:>11} {0:>6}")
        made, committed = (2 * under[what] / (before[what] + after[what]) for what in ("made", "in"))
        without = statistics.mean(under["without"])
        between = replicas * seconds / under["faults"]
        print(f"{algorithm + ', faults':<24} {under['made']:>13.1f} {under['in']:>11.1f} {under['outer']:>11} {under['faults']:>6} {without:>6.1f} {made:>8.4f}"
              f" {committed:>12.4f} {between / (between + without):>9.4f}", flush=True)


def main():
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    if len(sys.argv) > 3:
        return crowd(int(sys.argv[3]), seconds, float(sys.argv[4]) if len(sys.argv) > 4 else 2, sys.argv[5:] or ["decoupled", "diloco"])
    alone, _, _ = measure(1, seconds, "decoupled", False)
    print(f"{'':<28} {'inner steps/s':>13} {'goodput':>8} {'predicted':>9} {'outer steps':>11} {'faults':>6}")
    print(f"{'one fast peer alone':<28} {alone:>13.1f} {1:>8.3f} {'':>9} {'':>11} {0:>6}", flush=True)
    for algorithm, predicted in (("decoupled", 1.0), ("diloco", 0.25)):
        rate, outer, faults = measure(2, seconds, algorithm, True)
        print(f"{algorithm + ', churn':<28} {rate:>13.1f} {rate / alone:>8.3f} {predicted:>9.2f} {outer:>11} {faults:>6}", flush=True)


if __name__ == "__main__":
    main()
