"""Owns the METAGENE reproduction from genomes to figures: reads, tokenizer, four peers, evaluation.

usage: compare.py BIN/metagene [--folder DIR] [--reads N] [--peers N] [--set KEY=VALUE]…
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from genomes import Missing, genomes

SOURCE = pathlib.Path(__file__).parents[3]
ADAPTER = "AGATCGGAAGAGC"
# Of the reads: 16S rRNA, two bacteria, a phage. Each plant has a community of its own, and together they have that which is judged.
PLANTS = ("72,6,6,16", "56,30,6,8", "56,6,30,8", "56,18,18,8")
SHARES = "60,15,15,10"


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--folder", type=pathlib.Path, help="keep all in this folder")
    parser.add_argument("--reads", type=int, default=120_000)
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
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
        overrides = [word for value in arguments.set for word in ("--set", value)]
        result = steps.call("training", "up", SOURCE / "manifests/metagene-small.yaml", "--local", arguments.peers, "--state-dir", folder / "state", "--quiet",
                            "--set", f"local.data_cache={folder}/cache", *overrides)
        found = steps.call("evaluation", "eval", result["checkpoint"], SOURCE / "manifests/metagene-small.yaml", "--held-out", "metagene/held-out.fastq",
                           "--positive", "lambda")
    print(json.dumps({"reads": reads, "held_out_loss": result["held_out_loss"], "eval": found}, indent=1))
    below, foreign, classes = found["below_best_order_bits_per_base"], found["foreign"], found["classes"]
    print(f"bits per base below the best order (order {found['markov']['best_order']}): {below:.3f} (wanted 0.05)")
    print(f"F1 of random reads: {foreign['held_out']['f1']:.3f} held out, {foreign['trained']['f1']:.3f} trained on (wanted 0.9)")
    if classes:
        print(f"MCC: model {classes['mcc_model']:.3f}, 4-mers {classes['mcc_4mers']:.3f}, both {classes['mcc_both']:.3f} (wanted: both above 4-mers)")


if __name__ == "__main__":
    sys.exit(main())
