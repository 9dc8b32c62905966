"""How soon a loss is known, and the outer step decided without the lost one: real processes, SIGKILL in the middle of a reduce, and SIGSTOP.

Arguments after the name: how many losses of each kind (5), the tensors' size in MiB (256). Three peers of this machine over TCP with TLS.
Beside each figure stands its share of the limit that is aimed at: 50 ms from the kill to the coordinator's verdict, 300 ms from there
until every survivor has aborted and reduces anew; a silent peer is evicted `dead_after` and one heartbeat after its last sign.
"""

import datetime
import os
import pathlib
import random
import signal
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("PRIME_BIN", str(pathlib.Path(sys.argv[1]).parent))
sys.path.insert(0, str(ROOT / "tests" / "chaos"))
from prime_run import Run, wait_until  # noqa: E402

VERDICT_S = 0.050
DECISION_S = 0.300
DEAD_AFTER_S = 4
BEAT_S = 0.1


def instant(line):
    return datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp()


def decided(run, victim, struck):
    """When the last survivor began the reduce without the lost one, by its own journal; nothing while one has not."""
    begun = []
    for directory, lines in run.peer_journals().items():
        if directory.endswith(victim[:8]):
            continue
        again = [instant(line) for line in lines if line["event"] == "reduce_started" and instant(line) >= struck]
        if not again:
            return None
        begun.append(again[0])
    return max(begun)


def lose_one(mib, strike):
    """From the strike to the verdict, and from there to the reduce of the survivors; strikes between two reduces are tried again."""
    elements = mib * (1 << 20) // 4
    while True:
        with Run(3, outer_steps=100000, inner_steps=1, beat=f"{BEAT_S * 1000:.0f}ms", dead_after=f"{DEAD_AFTER_S}s",
                 env={"PRIME_QUADRATIC_ELEMENTS": str(elements)}) as run:
            run.wait_for("outer_step_committed", 2)
            victim = random.choice(run.up["peers"])
            run.wait_for("reduce_started", len(run.events("reduce_started")) + 1)
            time.sleep(random.uniform(0, 0.2))
            struck = time.time()
            os.kill(victim["pid"], strike)
            verdict = instant(run.wait_for("peer_lost")[0])
            again = wait_until("the survivors' reduce", lambda: decided(run, victim["id"], struck))
            run.wait_for("outer_step_committed", len(run.events("outer_step_committed")) + 1)
            run.check(lost=1)
            if any(instant(event) >= struck for event in run.events("outer_step_aborted")):
                return verdict - struck, again - verdict


def row(what, seconds, limit):
    middle, most = statistics.median(seconds), max(seconds)
    print(f"{what:<44} {middle * 1e3:>9.1f} {most * 1e3:>9.1f} {limit * 1e3:>9.0f} {most / limit:>11.2f}", flush=True)


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    mib = int(sys.argv[3]) if len(sys.argv) > 3 else 256
    print(f"3 peers, {mib} MiB, {count} losses of each kind: milliseconds\n{'':<44} {'median':>9} {'most':>9} {'limit':>9} {'most/limit':>11}")
    killed = [lose_one(mib, signal.SIGKILL) for _ in range(count)]
    row("SIGKILL until the coordinator's verdict", [verdict for verdict, _ in killed], VERDICT_S)
    row("from there until all survivors reduce again", [again for _, again in killed], DECISION_S)
    frozen = [lose_one(mib, signal.SIGSTOP) for _ in range(count)]
    row("SIGSTOP until the coordinator's verdict", [verdict for verdict, _ in frozen], DEAD_AFTER_S + BEAT_S)


if __name__ == "__main__":
    main()
