"""Our int8 codecs beside chains of torch operators that do the same, on one thread each, in turns, as ratios of medians.

usage: compare.py ANY_PROGRAM_OF_THE_BUILD [--mib 64] [--rounds 3]

`block`: a scale for each 256 values, there and back, as one writes it first. `codebook`: what INTELLECT-1's all-reduce does (uniform
codes over six standard deviations, decoded through the mean of each bucket), which its own C++ kernel is claimed to do 60 times faster.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import time

import torch

BLOCK = 256


def block(values):
    parts = values.view(-1, BLOCK)
    step = parts.abs().amax(dim=1, keepdim=True) / 127
    codes = torch.clamp(torch.round(parts / step), -127, 127).to(torch.int8)
    return codes.to(torch.float32) * step


def codebook(values):
    centred = values - values.mean()
    scale = 6 * centred.norm() / (values.numel() - 1) ** 0.5 / 256
    codes = torch.clamp(torch.round(centred / scale) + 128, 0, 255).to(torch.uint8)
    index = codes.to(torch.int64)
    sums = torch.zeros(256).scatter_add_(0, index, values)
    counts = torch.zeros(256).scatter_add_(0, index, torch.ones_like(values))
    return (sums / counts.clamp(min=1))[index]


def seconds(work, values):
    begin = time.perf_counter()
    work(values)
    return time.perf_counter() - begin


def ours(primectl, size):
    """Seconds for encoding and decoding once, by codec."""
    done = subprocess.run([primectl, "bench", "kernels", "--size", str(size), "-o", "json"], capture_output=True, text=True, check=True)
    spent = {}
    for row in map(json.loads, done.stdout.splitlines()):
        if row["path"] != "reference" and row["codec"].startswith("int8") and row["kernel"] in ("encode", "decode"):
            touched = size * (1 + 0.25)  # f32 on one side, a byte a value on the other; the heads are 1 %
            spent[row["codec"]] = spent.get(row["codec"], 0) + touched / row["bytes_touched_per_s"]
    return spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    primectl = pathlib.Path(options.program).parent / "primectl"
    torch.set_num_threads(1)
    size = options.mib << 20
    values = torch.randn(size // 4, generator=torch.Generator().manual_seed(1))
    theirs, mine = {block: [], codebook: []}, {}
    for _ in range(options.rounds):
        for work, times in theirs.items():
            times += [seconds(work, values) for _ in range(5)]
        for codec, spent in ours(primectl, size).items():
            mine.setdefault(codec, []).append(spent)
    a, b = (statistics.median(times) for times in theirs.values())
    print(f"{options.mib} MiB of f32 to int8 and back, one thread; torch block {a * 1e3:.0f} ms, torch codebook {b * 1e3:.0f} ms")
    for codec, times in mine.items():
        t = statistics.median(times)
        print(f"{codec:>15} {t * 1e3:7.2f} ms   torch block/ours {a / t:6.1f}   torch codebook/ours {b / t:6.1f}", flush=True)


if __name__ == "__main__":
    main()
