"""torchft, hivemind and us: the same small run of three peers on this machine, in turns, and what it costs each to lose one and to take one in.

usage: compare.py ANY_PROGRAM_OF_THE_BUILD [--only us,torchft,hivemind] [--rounds 3] [--steps 10] [--bin DIR] [--venv DIR] [--json] [--keep FILE]

Installs torchft and hivemind with pip into a virtual environment of its own (build/field, about 250 MB), on top of the checkout's torch, so that all
have the same. A round: three peers, one thread each, train a Llama of 0.27 M parameters (16 windows of 128 bytes, AdamW, 20 inner steps, then one
averaged outer step, Nesterov) until there are --steps of them that all took part in; then one is killed, all its processes at once, in the middle
of its inner steps; two outer steps of the others later a new one comes. Memory is asked of the kernel just before the kill, over all processes of
a peer, without what all share (coordinator, lighthouse, first node of the DHT). All read one file, of this machine's headers. Everything runs in a
network of its own that has only loopback, where the system allows it.

torchft: lighthouse with --min_replicas 2, 5 s without heartbeats; its DiLoCo over Gloo, with buckets, which are faster here. hivemind: a loop like
OpenDiLoCo's over DecentralizedAverager, groups of three, its defaults else; it looks 5 s for a group that is not full. Ours: the quickstart's
manifest with a constant learning rate, over TLS and shared memory as it chooses.

The peers of the others are torch in Python, ours is libtorch with row kernels of its own: tokens/s says what a user gets, and "tokens/s of one peer
while it trains" how much of that is the trainer. Figures are medians over rounds; in brackets the ratio to ours.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
import install  # noqa: E402
from figures import figures, table, together  # noqa: E402

DATA_BYTES = 16 << 20
PER_FILE = 32 << 10


def say(what):
    print(f"field: {what}", file=sys.stderr, flush=True)


def options_of(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="us,torchft,hivemind", type=lambda text: text.split(","))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="outer steps of all three before one is killed")
    parser.add_argument("--bin", type=pathlib.Path, help="primectl and prime-trainer are there")
    parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "field")
    parser.add_argument("--data", type=pathlib.Path, help="a text that all train on")
    parser.add_argument("--json", action="store_true", help="all figures of all rounds instead of the table")
    parser.add_argument("--keep", type=pathlib.Path, help="write the records to this file, anew after each round")
    parser.add_argument("--inside", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    from systems import ALL  # noqa: PLC0415
    if unknown := set(options.only) - set(ALL):
        parser.error(f"--only knows {', '.join(ALL)}; not {', '.join(sorted(unknown))}")
    if options.rounds < 1 or options.steps < 2:
        parser.error("at least one round, and two outer steps")
    options.bin = (options.bin or pathlib.Path(options.program).parent).resolve()
    return options


def go_inside(found):
    """This program again, in a network of its own where that may be had."""
    again = [sys.executable, "-B", str(HERE / "compare.py"), *sys.argv[1:], "--inside", str(found)]
    for isolate in (["unshare", "--net"], ["unshare", "--net", "--map-root-user"]):
        up = [*isolate, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if subprocess.run([*up, "true"], capture_output=True, check=False).returncode == 0:
            os.execvp(up[0], [*up, *again])
    say("no network namespace may be made here: torchft listens on all addresses of this machine meanwhile")
    os.execv(again[0], again)


def write_data(path):
    left = DATA_BYTES
    with open(path, "wb") as out:
        for header in sorted(pathlib.Path("/usr/include").rglob("*.h")):
            if left <= 0:
                break
            if header.is_file():
                with open(header, "rb") as file:
                    left -= out.write(file.read(min(PER_FILE, left)))
    return path


def version(programs):
    """With the checkout's commit, which the programs are of where nobody named others."""
    said = subprocess.run([programs / "primectl", "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return f"{said} ({commit})" if commit else said


def measure(options, python, failures):
    from play import play  # noqa: PLC0415: torch is not needed before
    records = []
    with tempfile.TemporaryDirectory(prefix="prime-field-data-") as folder:
        data = options.data.resolve() if options.data else write_data(pathlib.Path(folder) / "headers.txt")
        for number in range(1, options.rounds + 1):
            for name in [name for name in options.only if name not in failures]:
                say(f"round {number} of {options.rounds}: {name} (load {os.getloadavg()[0]:.1f})")
                record = play(name, data, options.bin, python, options.steps)
                if "stuck" in record:
                    say(f"{name}: {record['stuck']}")
                records.append(record)
                if options.keep:
                    options.keep.write_text(json.dumps(records))
    return records


def report(options, records, versions, failures):
    rounds = {}
    for record in records:
        rounds.setdefault(record["system"], []).append(figures(record))
    failures = failures | {record["system"]: record["stuck"] for record in records if "stuck" in record}
    results = {name: together(found) for name, found in rounds.items()}
    if options.json:
        print(json.dumps({"versions": versions, "figures": results, "rounds": rounds, "failures": failures}))
    else:
        print(f"{', '.join(f'{name} {version}' for name, version in versions.items())}; load {os.getloadavg()[0]:.1f} at the end\n")
        print(table(results, failures))


def main():
    options = options_of(sys.argv[1:])
    if not options.inside:
        python, versions, failures = install.prepare(options.venv.resolve(), [name for name in options.only if name != "us"], say)
        failures["PCCL"] = install.pccl(python)
        found = options.venv.resolve() / "found.json"
        install.save(found, str(python), versions, failures)
        go_inside(found)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it ends as by Ctrl-C: what was started is ended first
    python, versions, failures = install.load(options.inside)
    if "us" in options.only:
        versions = {"prime": version(options.bin), **versions}
    records = measure(options, python, failures)
    report(options, records, versions, failures)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # all that was started is ended on the way here
        sys.exit("field: ended; nothing of it runs any more")
