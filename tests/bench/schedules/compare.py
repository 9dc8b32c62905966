"""Our schedules side by side: for each number of peers and size all that can carry it, in turns in one run, and the automatic choice.

Arguments after the name: the lane (tcp), then sizes in KiB; without them 4 KiB to 1 GiB.
"""

import json
import pathlib
import subprocess
import sys

PEERS = (2, 4, 8)
SIZES_KIB = [4, 16, 32, 64, 128, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]
WHOLE_KIB = 32  # what is larger is not exchanged whole: it could come before its reduce has begun
MEMORY_KIB = 8 << 20  # of all inputs and outputs: beyond it a row is left out, and said so


def repeats(kib):
    return 9 if kib >= 64 << 10 else 51 if kib >= 1 << 10 else 301


def measure(primectl, lane, peers, kib):
    schedules = ["auto", "direct"] + (["ring"] if peers > 2 else []) + (["whole"] if kib <= WHOLE_KIB else [])
    command = [primectl, "bench", "allreduce", "--peers", str(peers), "--size", f"{kib}KiB", "--lane", lane, "--repeat", str(repeats(kib)),
               "--schedule", ",".join(schedules), "-o", "json"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {row["schedule"]: row["time_s"]["median"] * 1e3 for row in map(json.loads, lines)}


def main():
    primectl = pathlib.Path(sys.argv[1]).parent / "primectl"
    lane = sys.argv[2] if len(sys.argv) > 2 else "tcp"
    sizes = [int(size) for size in sys.argv[3:]] or SIZES_KIB
    print(f"{lane}: milliseconds, medians\n{'peers':>5} {'KiB':>8} {'auto':>9} {'direct':>9} {'ring':>9} {'whole':>9}  best    auto/best")
    for peers in PEERS:
        for kib in sizes:
            if 2 * peers * kib > MEMORY_KIB:
                print(f"{peers:>5} {kib:>8}  left out: inputs and outputs of {2 * peers * kib >> 20} GiB")
                continue
            times = measure(primectl, lane, peers, kib)
            auto = times.pop("auto")
            best = min(times, key=times.get)
            cells = " ".join(f"{times[name]:>9.3f}" if name in times else f"{'-':>9}" for name in ("direct", "ring", "whole"))
            print(f"{peers:>5} {kib:>8} {auto:>9.3f} {cells}  {best:<7} {auto / times[best]:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
