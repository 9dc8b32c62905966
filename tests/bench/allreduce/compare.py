"""Our all-reduce beside torch's Gloo: the same sizes and peers on this machine, in turns, as ratios of medians.

`primectl bench allreduce` times prime::Group between processes, the commit included; Gloo commits nothing. The processes of both live through
all rounds and keep their memory; while one side has its turn, the other sleeps. Were they started anew for each turn, whatever one had freed
would be new memory for the next, which on a virtual machine is slow for half a minute.
"""

import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing

ROUNDS = 9
SIZES = [4 << 10, 16 << 20, 256 << 20]
# Through shared memory with tensors that the group has allocated, and with ordinary ones.
KINDS = [("tcp", "own"), ("shm", "allocated"), ("shm", "own")]


def gloo_rank(rank, peers, store, orders, times):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=peers)
    tensors = {size: torch.ones(size // 4) for size in SIZES}
    for size in iter(orders[rank].get, None):
        tensors[size].fill_(1.0)
        torch.distributed.barrier()
        begin = time.perf_counter()
        torch.distributed.all_reduce(tensors[size])
        seconds = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        torch.distributed.all_reduce(seconds, op=torch.distributed.ReduceOp.MAX)
        if rank == 0:
            times.put(seconds.item())
    torch.distributed.destroy_process_group()


class Gloo:
    """Processes that reduce when they are asked to, and sleep otherwise."""

    def __init__(self, peers):
        store = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"prime-gloo-{os.getpid()}-{peers}"
        store.unlink(missing_ok=True)
        context = torch.multiprocessing.get_context("spawn")
        self.orders = [context.SimpleQueue() for _ in range(peers)]
        self.times = context.Queue()
        self.ranks = torch.multiprocessing.spawn(gloo_rank, args=(peers, store, self.orders, self.times), nprocs=peers, join=False, daemon=True)

    def reduce(self, size):
        for order in self.orders:
            order.put(size)
        while True:
            try:
                return self.times.get(timeout=1)
            except queue.Empty:
                self.ranks.join(timeout=0)  # raises when one has died

    def end(self):
        for order in self.orders:
            order.put(None)
        self.ranks.join()


def in_turns(primectl, peers):
    """Seconds of Gloo by size, and medians of ours by size and kind."""
    gloo = Gloo(peers)
    command = [primectl, "bench", "allreduce", "--paced", "--peers", str(peers), "--size", ",".join(map(str, SIZES)),
               "--lane", "tcp,shm", "--tensors", "allocated,own", "--repeat", str(ROUNDS), "-o", "json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ours:
        theirs = {size: [] for size in SIZES}
        for line in ours.stderr:  # one before each of our rounds, which waits for our word
            if "Measuring" not in line:
                sys.exit(line)
            for size in SIZES:
                seconds = gloo.reduce(size)
                if "warming" not in line:
                    theirs[size].append(seconds)
            ours.stdin.write("\n")
            ours.stdin.flush()
        rows = [json.loads(row) for row in ours.stdout]
    gloo.end()
    return theirs, {(row["bytes"], row["lane"], row["tensors"]): row["time_s"]["median"] for row in rows}


def main():
    primectl = pathlib.Path(sys.argv[1]).parent / "primectl"
    names = ["tcp", "shm", "shm own"]
    print(f"{'peers':>5} {'bytes':>10} {'Gloo ms':>9}" + "".join(f" {name + ' ms':>10}" for name in names) + "".join(f" {'/' + name:>9}" for name in names))
    for peers in (2, 4):
        theirs, ours = in_turns(primectl, peers)
        for size in SIZES:
            a = statistics.median(theirs[size]) * 1e3
            times = [ours[size, *kind] * 1e3 for kind in KINDS]
            print(f"{peers:>5} {size:>10} {a:>9.3f}" + "".join(f" {b:>10.3f}" for b in times) + "".join(f" {a / b:>9.2f}" for b in times), flush=True)


if __name__ == "__main__":
    main()
