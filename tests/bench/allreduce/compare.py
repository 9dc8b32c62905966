"""Our all-reduce beside torch's Gloo: the same sizes and peers on this machine, in turns, as ratios of medians.

`primectl bench allreduce` times prime::Group between processes, the commit included; Gloo commits nothing.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing

ROUNDS = 3
REPEAT = 3
SIZES = [4 << 10, 16 << 20, 256 << 20]


def gloo_rank(rank, peers, size, store, times):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=peers)
    tensor = torch.ones(size // 4)
    for turn in range(2 + REPEAT):
        torch.distributed.barrier()
        begin = time.perf_counter()
        torch.distributed.all_reduce(tensor)
        seconds = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        torch.distributed.all_reduce(seconds, op=torch.distributed.ReduceOp.MAX)
        if rank == 0 and turn >= 2:
            times.append(seconds.item())
    torch.distributed.destroy_process_group()


def gloo(peers, size):
    store = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"prime-gloo-{os.getpid()}"
    store.unlink(missing_ok=True)
    with torch.multiprocessing.Manager() as manager:
        times = manager.list()
        torch.multiprocessing.spawn(gloo_rank, args=(peers, size, store, times), nprocs=peers)
        store.unlink(missing_ok=True)
        return list(times)


def ours(primectl, peers, size, lane):
    done = subprocess.run([primectl, "bench", "allreduce", "--peers", str(peers), "--size", str(size), "--lane", lane, "--repeat", str(REPEAT), "-o", "json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["time_s"]["median"]


def main():
    primectl = pathlib.Path(sys.argv[1]).parent / "primectl"
    print(f"{'peers':>5} {'bytes':>10} {'Gloo ms':>9} {'tcp ms':>9} {'shm ms':>9} {'Gloo/tcp':>9} {'Gloo/shm':>9}")
    for peers in (2, 4):
        for size in SIZES:
            theirs, tcp, shm = [], [], []
            for _ in range(ROUNDS):
                theirs += gloo(peers, size)
                tcp.append(ours(primectl, peers, size, "tcp"))
                shm.append(ours(primectl, peers, size, "shm"))
            a, b, c = (statistics.median(each) * 1e3 for each in (theirs, tcp, shm))
            print(f"{peers:>5} {size:>10} {a:>9.3f} {b:>9.3f} {c:>9.3f} {a / b:>9.2f} {a / c:>9.2f}", flush=True)


if __name__ == "__main__":
    main()
