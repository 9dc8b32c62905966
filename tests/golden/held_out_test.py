"""Owns the check that the trainer's held-out loss is the one that transformers finds, on a checkpoint that the trainer's model wrote.

usage: held_out_test.py DILOCO_REFERENCE
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

TOLERANCE = 5e-5
SKIPPED = 77

# Both have all that can differ: few key heads, tied embeddings, another rotation base, contexts that do not divide the files.
MODELS = [
    "layers: 2, dim: 32, heads: 4, kv_heads: 2, ffn: 48, vocab: 256, context: 48, rope_theta: 500.0, norm_epsilon: 1e-3",
    "layers: 1, dim: 24, heads: 2, ffn: 40, vocab: 256, context: 31, tie_embeddings: true",
]


def write_corpus(root):
    for number in range(80):
        folder = root / f"part{number % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"static const int value_{number}_{line} = {number * line % 97};\n" for line in range(10 + number)]
        (folder / f"file{number}.hpp").write_text("".join(lines))
    (root / "ignored.txt").write_text("no header\n" * 500)
    os.symlink(root, root / "circle.h")


def check(program, model, folder):
    corpus, out = folder / "corpus", folder / "out"
    write_corpus(corpus)
    manifest = folder / "run.yaml"
    manifest.write_text(
        f"version: 1\nrun: golden\nmodel: {{{model}}}\n"
        f"data: {{path: {corpus}, per_file: 2KiB, held_out: 25%, held_out_per_file: 1KiB, held_out_limit: 6KiB}}\n"
        "train: {batch: 4, outer_steps: 4}\nsync: {inner_steps: 5}\nmembership: {peers: 1..2}\n"
    )
    run = [program, "run", str(manifest), "--peers", "2", "--steps", "4", "--out", str(out)]
    lines = subprocess.run(run, check=True, capture_output=True, text=True).stdout.splitlines()
    ours = float(lines[-1].split()[1])
    context = model.split("context: ")[1].split(",")[0]
    oracle = [sys.executable, str(pathlib.Path(__file__).with_name("held_out.py")), str(out / "final"), "--data", str(corpus)]
    oracle += ["--held-out", "0.25", "--per-file", "1024", "--limit", str(6 * 1024), "--context", context]
    theirs = float(subprocess.run(oracle, check=True, capture_output=True, text=True).stdout)
    print(f"trainer {ours:.6f}  transformers {theirs:.6f}")
    return abs(ours - theirs) <= TOLERANCE


def main():
    if importlib.util.find_spec("transformers") is None:
        print("skipped: transformers is not installed for this Python")
        return SKIPPED
    outcomes = []
    for model in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            outcomes.append(check(sys.argv[1], model, pathlib.Path(folder)))
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
