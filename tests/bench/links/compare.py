"""All-reduces over worse links than loopback, beside the links' caps: two ranks in two network namespaces of this machine.

usage: compare.py LINKS [-o table|json] [--bytes 67108864] [--repeat 3] [--case NAME]

  tbf            100 Mbit/s of the kernel's token bucket at both ends of the link
  per-connection a proxy that lets 4 MB/s through each connection: what a provider does that counts by connection
  delay          the same 100 Mbit/s, and 50 ms more each way in the proxy

Needs root, for the namespaces; they and all processes are gone afterwards, however it ends.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from namespaces import DEVICE, Failed, address, inside, machines, run  # noqa: E402

LIMIT_S = 900
LINK_BYTES_PER_S = 100_000_000 // 8
CONNECTION_BYTES_PER_S = 4_000_000
DELAY_MS = 50
ADDRESSES = [address(index) for index in range(2)]
PORT = 7000
# Rank 1 is at "every address": in its own namespace it listens there, and in rank 0's, dialing that address means dialing oneself, where the
# proxy stands. So both have the same list of members, as they must, and the proxy needs no rule of a firewall.
DIRECT = f"{ADDRESSES[0]}:{PORT},{ADDRESSES[1]}:{PORT}"
PROXIED = f"{ADDRESSES[0]}:{PORT},0.0.0.0:{PORT + 1}"
# A queue of 33 ms, as of a router: with one of seconds a link would take whole chunks before it pushes back.
CONNECTION_BUFFER = 128 << 10
# The proxy may keep two ways' worth of the capped link: enough to fill it, and too little to become a queue of seconds.
DELAY_BUFFER = 2 * LINK_BYTES_PER_S * DELAY_MS // 1000

# name, streams, cap of the whole link or None, arguments of the proxy or None, what the goodput is a share of
CASES = [("tbf", 1, "100mbit", None, LINK_BYTES_PER_S)]
CASES += [("per-connection", streams, None, ["--rate", CONNECTION_BYTES_PER_S, "--buffer", CONNECTION_BUFFER], streams * CONNECTION_BYTES_PER_S) for streams in (1, 8)]
CASES += [("delay", streams, "100mbit", ["--delay-ms", DELAY_MS, "--buffer", DELAY_BUFFER], LINK_BYTES_PER_S) for streams in (1, 8)]


@contextlib.contextmanager
def two_machines():
    with machines(2) as names:
        for name in names:
            # What lanes choose for near links; of the proxy's sockets no other choice of this machine shall be measured.
            run(*inside(name, "sh", "-c", "echo reno > /proc/sys/net/ipv4/tcp_congestion_control"))
        yield names


@contextlib.contextmanager
def capped(names, rate):
    for name in names if rate else ():
        run("tc", "-n", name, "qdisc", "add", "dev", DEVICE, "root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms")
    try:
        yield
    finally:
        for name in names if rate else ():
            run("tc", "-n", name, "qdisc", "del", "dev", DEVICE, "root")


@contextlib.contextmanager
def started(namespace, *words, **streams):
    process = subprocess.Popen(inside(namespace, *words), text=True, **streams)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def proxy(program, namespace, arguments):
    if arguments is None:
        yield
        return
    addresses = ["--listen", f"127.0.0.1:{PORT + 1}", "--target", f"{ADDRESSES[1]}:{PORT + 1}"]
    # What it says of a target that is not up yet is no news: members dial again until it is.
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with started(namespace, program, *addresses, *arguments, **pipes) as process:
        if not process.stdout.readline().startswith("listening"):
            raise Failed("the proxy did not start")
        yield


def reduces(program, names, members, streams, size, repeat):
    """Rank 0's line."""
    flags = [program, "--members", members, "--streams", streams, "--bytes", size, "--repeat", repeat, "--rank"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(names[1], *flags, 1, **pipes) as second, started(names[0], *flags, 0, **pipes) as first:
        try:
            out, errors = first.communicate(timeout=LIMIT_S)
            other_errors = second.communicate(timeout=LIMIT_S)[1]
        except subprocess.TimeoutExpired as late:
            raise Failed(f"no end within {LIMIT_S} s") from late
        if first.returncode != 0 or second.returncode != 0:
            raise Failed(" / ".join(filter(None, (errors.strip(), other_errors.strip()))) or "a member died")
        return json.loads(out)


def measured(programs, case, size, repeat):
    name, streams, rate, proxy_arguments, cap = case
    with two_machines() as names, capped(names, rate), proxy(programs / "fault-proxy", names[0], proxy_arguments):
        line = reduces(programs / "links", names, PROXIED if proxy_arguments else DIRECT, streams, size, repeat)
    goodput = line["bytes"] / line["time_s"]["median"]  # 2(N-1)/N times the bytes leave each of N = 2 ranks
    return {"case": name, "streams": streams, "bytes": line["bytes"], "time_s": line["time_s"], "goodput_bytes_per_s": round(goodput), "cap_bytes_per_s": cap,
            "share": round(goodput / cap, 4)}


def missing():
    """Why this cannot run here; empty when it can."""
    if os.geteuid() != 0:
        return "it makes network namespaces, and only root may"
    try:
        with two_machines() as names, capped(names, "100mbit"):
            return ""
    except (Failed, FileNotFoundError) as why:
        return f"no network namespaces or token buckets here: {why}"


def show(row, as_json):
    if as_json:
        print(json.dumps(row), flush=True)
    else:
        times = row["time_s"]
        print(f"{row['case']:<15} {row['streams']:>7} {row['bytes']:>10} {times['min']:>8.3f} {times['median']:>8.3f} {times['max']:>8.3f} "
              f"{row['goodput_bytes_per_s'] / 1e6:>8.2f} {row['cap_bytes_per_s'] / 1e6:>8.2f} {row['share']:>7.1%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("links", type=pathlib.Path)
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    parser.add_argument("--bytes", type=int, default=64 << 20)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--case", choices=sorted({case[0] for case in CASES}))
    arguments = parser.parse_args()
    # A request to end unwinds like any other error, and so takes the namespaces with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if why := missing():
        print(f"links: skipped: {why}", file=sys.stderr)
        return 0
    as_json = arguments.output == "json"
    if not as_json:
        print(f"{'case':<15} {'streams':>7} {'bytes':>10} {'min s':>8} {'median s':>8} {'max s':>8} {'MB/s':>8} {'cap MB/s':>8} {'share':>7}")
    medians, failures = {}, 0
    for case in CASES:
        if arguments.case not in (None, case[0]):
            continue
        try:
            row = measured(arguments.links.parent.resolve(), case, arguments.bytes, arguments.repeat)
        except Failed as why:
            print(f"links: {case[0]} with {case[1]} streams failed: {why}", file=sys.stderr)
            failures += 1
            continue
        show(row, as_json)
        medians[case[:2]] = row["time_s"]["median"]
    for name in dict.fromkeys(case[0] for case in CASES):
        if not as_json and (name, 1) in medians and (name, 8) in medians:
            print(f"{name}: 8 streams move {medians[name, 1] / medians[name, 8]:.2f} times as much as one")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
