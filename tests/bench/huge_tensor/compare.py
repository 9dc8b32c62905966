"""One tensor above 2 GiB from end to end: bind, an outer step, a joiner that fetches it, the checkpoint, and a run that goes on from it.

Arguments after the name: millions of parameters in the one tensor (540: 2.01 GiB). One peer trains; where there is memory for it, a second one joins,
fetches, and is gone before a reduce. Of the tensor's sizes the first needs seven of memory (14 GiB) and six of disk, the second as many of memory. It
gives up when the machine has less than 2 GiB left.
"""

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("PRIME_BIN", str(pathlib.Path(sys.argv[1]).parent))
os.environ.setdefault("PRIME_CHAOS_LIMIT_S", "1800")
sys.path.insert(0, str(ROOT / "tests" / "chaos"))
from prime_run import PRIMECTL, Run, wait_until  # noqa: E402

GIB = 2**30
# What a joiner takes: parameters, momentum, what its trainer contributes, that trainer's own, and what its agent makes ready for a reduce.
JOINER_SIZES = 7


def available():
    fields = dict(line.split(":", 1) for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


# All processes of the run have it in their environment.
MARK = {"PRIME_BENCH": f"huge_tensor-{os.getpid()}"}


def of_run(process):
    return MARK["PRIME_BENCH"].encode() in (process / "environ").read_bytes()


def keeps_memory(process):
    """Whether it is the process that an agent shares its memory with, so that this outlives it: it would be counted twice."""
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    parent = process.parent / status["PPid"].strip()
    return (process / "cmdline").read_bytes() == (parent / "cmdline").read_bytes()


def in_use():
    """By the processes of the run, without files; what several share counts once."""
    total = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if of_run(process) and not keeps_memory(process):
                fields = dict(line.split(":", 1) for line in (process / "smaps_rollup").read_text().splitlines()[1:])
                total += sum(int(fields[kind].split()[0]) for kind in ("Pss_Anon", "Pss_Shmem")) * 1024
        except (OSError, KeyError):
            continue  # it has ended
    return total


class Guard(threading.Thread):
    """The most memory that the run has in use; where too little is left, it ends this process, and with it the run."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most = 0
        self.start()

    def run(self):
        while True:
            self.most = max(self.most, in_use())
            if available() < 2 * GIB:
                print("less than 2 GiB of memory are left: given up", flush=True)
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.1)

    def take(self):
        most, self.most = self.most, 0
        return most


def only_tensor(file):
    """Its name, its length in bytes, and its first and last value."""
    with open(file, "rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(size))
        ((name, entry),) = ((name, entry) for name, entry in header.items() if name != "__metadata__")
        begin, end = entry["data_offsets"]
        values = []
        for at in (begin, end - 4):
            opened.seek(8 + size + at)
            values.append(struct.unpack("<f", opened.read(4))[0])
        return name, end - begin, values


class Told:
    def __init__(self, size):
        self.last, self.size, self.guard = time.monotonic(), size, Guard()

    def __call__(self, what):
        now, most = time.monotonic(), self.guard.take()
        print(f"{now - self.last:7.1f} s  {most / GIB:5.1f} GiB, {most / self.size:4.1f} sizes  {what}", flush=True)
        self.last = now


def join_and_leave(run, told):
    joiner = run.join()
    fetched = run.wait_for("peer_fetched")[-1]
    assert fetched["digest"] == run.events("outer_step_committed")[-1]["digest"], "the bits of the donor"
    told("a joiner has it, digested and equal")
    joiner.send_signal(signal.SIGTERM)
    wait_until("the joiner's end", lambda: joiner.poll() is not None)
    told("the joiner has left")


def main():
    elements = int(sys.argv[2] if len(sys.argv) > 2 else "540") * 1_000_000
    print(f"one tensor of {elements * 4 / GIB:.2f} GiB; {available() / GIB:.1f} GiB of memory are available", flush=True)
    told = Told(elements * 4)
    manifest = {"minimum": 1, "inner_steps": 1, "deadline": "10min", "beat": "2s", "stall_limit": "30min", "wait_limit": "30min"}
    with Run(1, outer_steps=2, held_at=2, env={"PRIME_QUADRATIC_ELEMENTS": str(elements), **MARK}, **manifest) as run:
        run.wait_for("outer_step_committed")
        told("bound, and an outer step committed")
        needed = JOINER_SIZES * elements * 4
        if available() < needed + 2 * GIB:
            print(f"           no joiner: it would take {needed / GIB:.1f} GiB more, {available() / GIB:.1f} are available", flush=True)
        else:
            join_and_leave(run, told)
        run.hold.unlink()
        assert run.wait_for_end() == 0, "the run has failed"
        told("the second outer step, the checkpoint, the end")
        (saved,) = run.run_directory.glob("peers/*/checkpoints/step-000002")
        _, size, values = only_tensor(saved / "model.safetensors")
        assert size == elements * 4 and values[0] == values[1], (size, values)
        command = [PRIMECTL, "up", run.manifest, "--local", "1", "--from", saved, "--set", "train.outer_steps=3", "-o", "json", "--state-dir", run.state]
        again = subprocess.run([str(word) for word in command], env=run.env, capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr
        told("a run that went on from it: a third outer step, and its checkpoint")
        (later,) = run.state.glob("*/peers/*/checkpoints/step-000003")
        _, size, values = only_tensor(later / "model.safetensors")
        assert size == elements * 4 and values[0] == values[1], (size, values)


if __name__ == "__main__":
    main()
