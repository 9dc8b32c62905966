"""What an agent holds in memory, in sizes of the model: resident anonymous and shared bytes at their peak, asked of the kernel.

Arguments after the name: millions of parameters (250; takes 14 GiB), outer steps (6). Two peers of this machine and a trainer that only moves its
tensors. Of the sizes, one each are: parameters, momentum, what the trainer publishes, the mean, and the next parameters; of the last two
only a fragment is there at a time.
"""

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from large_run import large_run, play  # noqa: E402


class Watch(threading.Thread):
    """The peak of a process from now on; what only files back, as its program, is not counted."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status = pathlib.Path(f"/proc/{pid}/status")
        self.peak = 0
        self.ended = threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.02):
            try:
                fields = dict(line.split(":", 1) for line in self.status.read_text().splitlines())
            except OSError:
                return
            self.peak = max(self.peak, sum(int(fields[kind].split()[0]) * 1024 for kind in ("RssAnon", "RssShmem") if kind in fields))

    def stop(self):
        self.ended.set()
        self.join()
        return self.peak


def measure(name, millions, steps, *, every, joins, fragments=1):
    with large_run(millions, steps, every=every, fragments=fragments) as run:
        watches = [Watch(peer["pid"]) for peer in run.up["peers"]]
        play(run, joins=joins)
        peaks = [watch.stop() / (millions * 1_000_000 * 4) for watch in watches]
        print(f"{name:34} {peaks[0]:8.2f} {peaks[1]:8.2f} {len(run.events('peer_lost')):8}")


def main():
    millions, steps = (int(word) for word in [*sys.argv[2:], *["250", "6"][len(sys.argv) - 2:]])
    print(f"{millions} M parameters, {steps} outer steps; peak of each agent in sizes of the model\n")
    print(f"{'':34}  peer 1   peer 2  evicted")
    measure("no checkpoint on the way", millions, steps, every=0, joins=False)
    measure("a checkpoint after each step", millions, steps, every=1, joins=False)
    measure("that, and a third peer joins", millions, 2 * steps, every=1, joins=True)
    measure("8 fragments, no checkpoint", millions, steps, every=0, joins=False, fragments=8)
    measure("8 fragments, one after each step", millions, steps, every=1, joins=False, fragments=8)


if __name__ == "__main__":
    main()
