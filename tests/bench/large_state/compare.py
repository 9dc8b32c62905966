"""What a large state costs those who train: checkpoints after every step, and a joiner that fetches while the others go on.

Arguments after the name: millions of parameters (100; 250 takes 14 GiB), outer steps (8), seconds that an inner step of the last part takes
(10). Two peers of this machine, later with a third that joins; a trainer that only moves its tensors, so that every step is memory traffic.
One part shares its first core with a program that never rests. In the last part the trainer waits besides, so that a fetch is shorter than
an outer step. Heartbeats every 100 ms, `dead_after` 1 s: whoever waits for memory before it sends one is evicted.
"""

import contextlib
import datetime
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from large_run import large_run, play  # noqa: E402


def instant(line):
    return datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp()


BEAT = {"beat": "100ms", "dead_after": "1s"}


@contextlib.contextmanager
def busy_core():
    core = min(os.sched_getaffinity(0))
    program = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    os.sched_setaffinity(program.pid, {core})
    try:
        yield
    finally:
        program.kill()
        program.wait()


def behind(run):
    """In the outer step in which it was most, so many seconds after the first of those who contributed the last one did."""
    arrived = {}
    for line in run.events("peer_ready"):
        if line["weight"] > 0:
            arrived.setdefault(line["outer_step"], []).append(instant(line))
    return max(max(times) - min(times) for times in arrived.values())


def measure(name, millions, steps, *, every, joins):
    with large_run(millions, steps, every=every, **BEAT) as run:
        play(run, joins=joins)
        commits = run.events("outer_step_committed")
        seconds = (instant(commits[-1]) - instant(commits[0])) / max(1, len(commits) - 1)
        first = [line["outer_step"] for line in commits if line["peers"] > 2]
        print(f"{name:34} {len(run.events('peer_lost')):7} {seconds:12.2f} {behind(run):14.2f} {len(run.events('peer_fetching')):8} {first[0] if first else '-':>13}")


def seconds_between(lines):
    return [instant(after) - instant(before) for before, after in zip(lines, lines[1:])]


def measure_join(millions, seconds):
    """A joiner beside steps that are longer than its fetch."""
    with large_run(millions, 8, every=0, **BEAT, delay_ms=1000 * seconds) as run:
        run.wait_for("outer_step_committed", 2)
        run.join()
        play(run, joins=False)
        (seated,) = run.events("peer_seated")[2:]
        (fetched,) = run.events("peer_fetched")
        (joiner,) = run.directory.glob("joiner-*/*/peers/*/journal.jsonl")
        (bound,) = (line for line in run.journal(joiner) if line["event"] == "trainer_bound")
        fetching = run.events("peer_fetching")
        welcome = run.events("peer_joining")[2]
        commits = run.events("outer_step_committed")
        entered = next(line["outer_step"] for line in commits if line["peers"] > 2)
        contributes = next(line["outer_step"] for line in commits if len(line["contributors"]) > 2)
        alone = seconds_between([line for line in commits if line["outer_step"] < entered])
        beside = seconds_between([line for line in commits if line["outer_step"] <= entered])
        print(f"\na third peer joins; inner steps of {seconds} s")
        print(f"  seated {instant(seated) - instant(welcome):.2f} s after its welcome: its trainer starts and fills its tensors, its agent digests them; {instant(seated) - instant(bound):.2f} s after these are bound")
        print(f"  fetches {len(fetching)}, {instant(fetched) - instant(fetching[-1]):.2f} s: {len(fetching):.1f} x the state")
        print(f"  a member in outer step {entered}, contributes to {contributes}")
        print(f"  the others' steps: {max(alone):.2f} s at most before, {beside[-1]:.2f} s while it came; evicted {len(run.events('peer_lost'))}")


def main():
    millions, steps, delay = (int(word) for word in [*sys.argv[2:], *["100", "8", "10"][len(sys.argv) - 2:]])
    print(f"{millions} M parameters, {steps} outer steps\n")
    print(f"{'':34} evicted s/outer step  last behind s  fetches  three members")
    measure("no checkpoint on the way", millions, steps, every=0, joins=False)
    measure("a checkpoint after each step", millions, steps, every=1, joins=False)
    measure("that, and a third peer joins", millions, 2 * steps, every=1, joins=True)
    with busy_core():
        measure("that, and a core is busy", millions, 2 * steps, every=1, joins=True)
    measure_join(millions, delay)


if __name__ == "__main__":
    main()
