"""What a large state costs those who train: checkpoints after every step, and a joiner that fetches while the others go on.

Arguments after the name: millions of parameters (100; 250 takes 14 GiB), outer steps (8). Two peers of this machine, and in the second part
a third that joins; a trainer that only moves its tensors, so that every step is memory traffic. Heartbeats every 250 ms, `dead_after`
1 s: whoever waits for memory before it sends one is evicted.
"""

import datetime
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from large_run import large_run, play  # noqa: E402


def instant(line):
    return datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp()


def measure(name, millions, steps, *, every, joins):
    with large_run(millions, steps, every=every, beat="250ms", dead_after="1s") as run:
        play(run, joins=joins)
        commits = run.events("outer_step_committed")
        seconds = (instant(commits[-1]) - instant(commits[0])) / max(1, len(commits) - 1)
        first = [line["outer_step"] for line in commits if line["peers"] > 2]
        print(f"{name:34} {len(run.events('peer_lost')):7} {seconds:12.2f} {len(run.events('peer_fetching')):8} {first[0] if first else '-':>13}")


def main():
    millions, steps = (int(word) for word in [*sys.argv[2:], *["100", "8"][len(sys.argv) - 2:]])
    print(f"{millions} M parameters, {steps} outer steps\n")
    print(f"{'':34} evicted s/outer step  fetches  three members")
    measure("no checkpoint on the way", millions, steps, every=0, joins=False)
    measure("a checkpoint after each step", millions, steps, every=1, joins=False)
    measure("that, and a third peer joins", millions, 2 * steps, every=1, joins=True)


if __name__ == "__main__":
    main()
