"""What `primectl plan` predicts of a run, beside the run: duration of its reduces, and the share of its time that a peer trains.

Arguments after the name: outer steps (8). Peers of this machine over TCP with TLS, each of which sends no more than `local.network.cap` admits. A
step's time is what the trainers report, so that a busy machine changes both figures alike.
"""

import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
PRIMECTL = pathlib.Path(sys.argv[1]).parent / "primectl"
OUTER_STEPS = int((sys.argv[2:] or ["8"])[0])
INNER_STEPS, BATCH, CONTEXT = 10, 4, 128
SETTLED = 2  # outer steps that are not counted: peers connect
CASES = (
    (2, "10Mbit/s"),
    (2, "40Mbit/s"),
    (3, "20Mbit/s"),
    (3, "10Mbit/s", "sync.wire.codec=int8", "sync.fragments.count=2"),
)


def instant(line):
    return datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp()


def call(*words):
    return json.loads(subprocess.run([str(word) for word in (PRIMECTL, *words)], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])


def measured(folder):
    """Seconds of an inner step, of an outer step's reduces, and of an outer step."""
    (journal,) = pathlib.Path(folder).glob("*/coordinator/journal.jsonl")
    with open(journal, encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    commits = [event for event in events if event["event"] == "outer_step_committed"][SETTLED - 1:]
    counted = {event["outer_step"] for event in commits[1:]}
    rates = [event["tokens_per_s"] for event in events if event["event"] == "peer_ready" and event["outer_step"] in counted]
    return (BATCH * CONTEXT * statistics.mean(1 / rate for rate in rates), statistics.mean(event["reduce_s"] for event in commits[1:]),
            (instant(commits[-1]) - instant(commits[0])) / len(counted))


def compare(peers, cap, *settings):
    settings = (f"train={{outer_steps: {OUTER_STEPS}, batch: {BATCH}, evaluate: {{every: 0, limit: 4KiB}}}}", f"sync.inner_steps={INNER_STEPS}",
                "data.held_out_limit=4KiB", "local.network.shared_memory=false", f"local.network.cap={cap}", *settings)
    manifest = (ROOT / "manifests" / "quickstart.yaml", "-o", "json", "-q", *(word for setting in settings for word in ("--set", setting)))
    with tempfile.TemporaryDirectory(prefix="prime-bench-") as folder:
        call("up", *manifest, "--local", peers, "--state-dir", folder)
        step_s, reduce_s, outer_step_s = measured(folder)
    plan = call("plan", *manifest, "--peers", peers, "--step-time", f"{max(1, round(step_s * 1000))}ms")
    share, planned = INNER_STEPS * step_s / outer_step_s, plan["compute_utilization"]
    what = f"{peers} peers, {cap}, {' '.join(settings[5:])}".rstrip(", ")
    print(f"{what:70} {plan['reduce_s']:8.3f} {reduce_s:8.3f} {planned:9.1%} {share:9.1%} {100 * (planned - share):+7.1f}")


def main():
    print(f"{'':70}    reduce, s          utilization\n{'':70} {'planned':>8} {'measured':>8} {'planned':>9} {'measured':>9} {'points':>7}")
    for case in CASES:
        compare(*case)


if __name__ == "__main__":
    main()
