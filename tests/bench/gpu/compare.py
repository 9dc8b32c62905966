"""What a GPU does: its kernels beside its own copies, and reduces of its tensors beside those of the host's, in one run.

usage: compare.py [PROGRAM] [--values N] [--repeats N] [--part NAME] [-o json]

PROGRAM is the `gpu` of a build; without it, it and the tests of the GPU are built first (build/gpu, no trainer). The tests run before anything
is timed, and every timed result is compared with the CPU's. Without a device, or where the build has no CUDA, it says so and ends well.

kernels: bytes touched per second, and as a share of what a copy within the device touches in the same round; medians. `bare` rows are no kernels
of ours: the least of a kernel's work, alone, over the bytes that the whole kernel touches, so that they bound it.
reduces: two members of one machine and one device. host: tensors of the host's; copy: all out of and into the device, page-locked; device:
the reduce of device tensors. device/(host + copy) is below 1 by what the copies overlap with the network and the sums.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
TESTS = ("kernels_cuda_test", "lanes_cuda_test")
PARTS = ("all", "reduces", "kernels", "codecs", "sums", "digest", "top", "bare")  # kernels: those that follow
NO_DEVICE = "no CUDA device on this machine"


def built():
    """The program of a build of its own; None when there is no CUDA to build it with."""
    build = ROOT / "build" / "gpu"
    subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -g1 -DNDEBUG "
                    "-Wno-maybe-uninitialized -Wno-stringop-overflow", "-DPRIME_TRAINER=OFF"], check=True, stdout=sys.stderr)
    listed = subprocess.run(["cmake", "--build", build, "--target", "help"], check=True, capture_output=True, text=True).stdout
    if "\ngpu: " not in listed:
        return None
    subprocess.run(["cmake", "--build", build, "--target", "gpu", *TESTS], check=True, stdout=sys.stderr)
    return build / "bin" / "gpu"


def skip(why):
    print(f"gpu: skipped: {why}", file=sys.stderr)
    return 0


def check(folder):
    """Runs the tests of the GPU: whether they passed; None when there is no device."""
    for name in TESTS:
        run = subprocess.run([folder / name], capture_output=True, text=True, check=False)
        if NO_DEVICE in run.stdout:
            return None
        print(f"{name}: {'passed' if run.returncode == 0 else 'FAILED'}", file=sys.stderr, flush=True)
        if run.returncode != 0:
            print(run.stdout + run.stderr, file=sys.stderr)
            return False
    return True


def show(row):
    ok = "" if row["equal"] else "   DIFFERS from the CPU's"
    if "kernel" in row:
        print(f"{row['kernel']:>18} {row['of']:>16} {row['bytes_touched_per_s'] / 1e9:>9.1f} GB/s   kernel/copy {row['copy_share']:>5.2f}{ok}", flush=True)
        return
    host, device, copy = (row[name] * 1e3 for name in ("host_s", "device_s", "copy_s"))
    print(f"{row['lane']:>6} {row['reduce']:>12} {row['bytes'] >> 20:>5} MiB   host {host:>8.2f} ms   copy {copy:>7.2f} ms   device {device:>8.2f} ms   "
          f"device/host {device / host:>5.2f}   device/(host + copy) {row['of_host_and_copy']:>5.2f}   extra {row['extra_bytes'] / 2**20:>5.1f} MiB{ok}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", type=pathlib.Path)
    parser.add_argument("--values", type=int, default=64 << 20)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--part", choices=PARTS, default="all")
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    program = options.program or built()
    if program is None or not program.exists():
        return skip("this build has no CUDA compiler (nvcc)")
    program = program.resolve()
    good = check(program.parent)
    if good is None:
        return skip(NO_DEVICE)
    with subprocess.Popen([program, str(options.values), str(options.repeats), options.part], stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            if options.output == "json":
                print(line, end="", flush=True)
            else:
                show(json.loads(line))
    if run.returncode != 0:
        print("gpu: FAILED: see above", file=sys.stderr)
    return 0 if good and run.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
