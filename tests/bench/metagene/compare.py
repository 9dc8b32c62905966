"""Owns the METAGENE reproduction from genomes to figures: reads, tokenizer, four peers, evaluation.

usage: compare.py BIN/metagene [--folder DIR] [--reads N] [--peers N] [--set KEY=VALUE]… [--joined] [--plot FOLDER]

--joined trains once more: one peer with the batches of all in one, drawn from all plants, on as many tokens. What it comes to is what this model and so many
tokens are good for, and what four peers that agree once in 25 steps are compared with. --plot draws metagene-loss.svg and metagene-reads.svg with matplotlib, which pip installs.
"""

import argparse
import importlib.util
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import plot
from genomes import Missing, genomes

SOURCE = pathlib.Path(__file__).parents[3]
ADAPTER = "AGATCGGAAGAGC"
# Of the reads: 16S rRNA, two bacteria, a phage. Each plant has a community of its own, and together they have that which is judged.
PLANTS = ("72,6,6,16", "56,30,6,8", "56,6,30,8", "56,18,18,8")
SHARES = "60,15,15,10"
MANIFEST = SOURCE / "manifests/metagene-small.yaml"
BATCH = 16  # that manifest's


class Steps:
    def __init__(self, primectl, folder):
        self.primectl, self.folder = primectl, folder

    def call(self, what, *words):
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([str(word) for word in (self.primectl, *words, "-o", "json")], cwd=self.folder, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{what}: exit {done.returncode}\n{done.stdout}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{what}: {time.monotonic() - began:.0f} s, {cpu:.0f} s of processors", flush=True)
        return json.loads(done.stdout.splitlines()[-1])

    def train(self, what, peers, overrides):
        words = [word for value in overrides for word in ("--set", value)]
        result = self.call(what, "up", MANIFEST, "--local", peers, "--state-dir", self.folder / "state", "--quiet", "--set", f"local.data_cache={self.folder}/cache", *words)
        found = self.call(f"{what}: evaluation", "eval", result["checkpoint"], MANIFEST, "--held-out", "metagene/held-out.fastq", "--positive", "lambda")
        journal = self.folder / "state" / result["run_id"] / "coordinator" / "journal.jsonl"
        steps = [event for event in map(json.loads, journal.read_text(encoding="utf-8").splitlines()) if event["event"] == "outer_step_committed"]
        return {**found, "losses": [(step["tokens"], step["loss"]) for step in steps]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--folder", type=pathlib.Path, help="keep all in this folder")
    parser.add_argument("--reads", type=int, default=120_000)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--joined", action="store_true")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib, which this Python lacks: pip install matplotlib")  # now, and not after the training
    with tempfile.TemporaryDirectory(prefix="prime-metagene-") as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        try:
            files = genomes(folder / "genomes")
        except Missing as why:
            print(f"skipped: {why}")
            return
        (folder / "metagene").mkdir(exist_ok=True)
        steps = Steps(pathlib.Path(arguments.program).parent / "primectl", folder)
        drawn = ("--shares", SHARES)
        reads = [
            steps.call(f"plant {plant}", "data", "reads", *files, "--shares", shares, "--adapter", ADAPTER, "--count", arguments.reads // len(PLANTS), "--seed", 10 + plant,
                       "--to", 90, "--out", f"metagene/plant-{plant}.fastq")
            for plant, shares in enumerate(PLANTS, 1)
        ]
        steps.call("held out", "data", "reads", *files, *drawn, "--count", 8000, "--seed", 2, "--from", 90, "--out", "metagene/held-out.fastq")
        # A tokenizer learns from what is clean already: adapters would become tokens.
        steps.call("clean reads", "data", "reads", *files, *drawn, "--count", 10_000, "--seed", 3, "--to", 90, "--out", "metagene/clean.fastq")
        steps.call("tokenizer", "data", "tokenizer", "train", "metagene/clean.fastq", "--format", "fastq", "--vocab", 1024, "--out", "metagene/tokenizer.json")
        found = steps.train("training", arguments.peers, arguments.set)
        # The data's digest is the same; only which peer draws what differs.
        joined = steps.train("joined batch", 1, [*arguments.set, f"train.batch={BATCH * arguments.peers}", "data.draw=sample", "sync.outer.nesterov.lr=1",
                                                 "sync.outer.nesterov.momentum=0"]) if arguments.joined else None
    if arguments.plot:
        plot.draw(found, joined, arguments.plot)
    print(json.dumps({"reads": reads, "eval": found, "joined": joined}, indent=1))
    below, foreign, classes = found["below_best_order_bits_per_base"], found["foreign"], found["classes"]
    if joined:
        own, other = (each["held_out"]["bits_per_base"] for each in (found, joined))
        print(f"bits per base of {arguments.peers} peers {own:.3f}, of their batches in one {other:.3f}: {own / other - 1:+.1%} (wanted: within 2 %)")
    print(f"bits per base below the best order (order {found['markov']['best_order']}): {below:.3f} (wanted 0.05)")
    print(f"F1 of random reads: {foreign['held_out']['f1']:.3f} held out, {foreign['trained']['f1']:.3f} trained on (wanted 0.9)")
    if classes:
        print(f"MCC: model {classes['mcc_model']:.3f}, 4-mers {classes['mcc_4mers']:.3f}, both {classes['mcc_both']:.3f} (wanted: both above 4-mers)")


if __name__ == "__main__":
    sys.exit(main())
