"""How long a trainer waits for its samples, as a share of its time, while a corpus of text is read ahead: goal at most 1 %.

Arguments after the name: inner steps (200). One peer of this machine on the text of the quickstart, which is compiled before, so that what is measured is reading. The
lower line has a model of next to no work, for which reading ahead has the least time.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
PRIMECTL = pathlib.Path(sys.argv[1]).parent / "primectl"
INNER_STEPS = int((sys.argv[2:] or ["200"])[0])
OUTER_STEPS = 3
MODELS = (("of the quickstart", "{}"), ("of one layer", "{layers: 1, dim: 8, heads: 2, vocab: 257, context: 128}"))


def call(*words):
    subprocess.run([str(word) for word in (PRIMECTL, *words)], stdout=subprocess.DEVNULL, check=True)


def waited(folder, model):
    settings = [f"train={{outer_steps: {OUTER_STEPS}, evaluate: {{every: 0, limit: 4KiB}}}}", f"sync.inner_steps={INNER_STEPS}", "data.held_out_limit=4KiB",
                f"local.data_cache={folder}/cache", "membership.peers=1..1"]
    if model != "{}":
        settings.append(f"model={model}")
    manifest = (ROOT / "manifests" / "quickstart.yaml", *(word for setting in settings for word in ("--set", setting)))
    call("data", "build", *manifest)
    call("up", *manifest, "-q", "--local", 1, "--state-dir", folder)
    (journal,) = pathlib.Path(folder).glob("*/coordinator/journal.jsonl")
    with open(journal, encoding="utf-8") as lines:
        told = [event for event in map(json.loads, lines) if event["event"] == "peer_ready"]
    return statistics.mean(event["data_wait"] for event in told), statistics.mean(event["tokens_per_s"] for event in told)


for name, model in MODELS:
    with tempfile.TemporaryDirectory(prefix="prime-bench-") as folder:
        share, rate = waited(folder, model)
    print(f"data wait, model {name:18} {share:8.3%} of the trainer's time   {rate:10.0f} tokens/s")
