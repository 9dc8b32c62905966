"""Owns the benchmark of data: FASTQ in MB/s as it lies and packed, beside zlib alone, and tokenising beside Hugging Face's `tokenizers`, one
thread each, turn by turn in one run; medians.

usage: compare.py DATA_READING [--megabytes N] [--rounds N]
"""
import argparse
import gzip
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
SOURCE = pathlib.Path(__file__).parents[3]
BASES, SCORES = 150, "IIIIHHHGGFFEEDCBA@?>"


def write_reads(folder, megabytes):
    draw = random.Random(1)
    genome = "".join(draw.choices("ACGT", k=200_000))
    reads = []
    for number in range(megabytes * 1_000_000 // (2 * BASES + 30)):
        begin = draw.randrange(len(genome) - BASES)
        reads.append((f"@run.{number} length={BASES}", genome[begin : begin + BASES], "".join(draw.choices(SCORES, k=BASES))))
    text = "".join(f"{name}\n{bases}\n+\n{scores}\n" for name, bases, scores in reads).encode()
    (folder / "reads.fastq").write_bytes(text)
    (folder / "reads.fastq.gz").write_bytes(gzip.compress(text, 6))
    (folder / "reads.txt").write_text("".join(bases + "\n" for _, bases, _ in reads[: 20_000]))
    return len(text)


def trained(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    prose = sorted(SOURCE.glob("docs/*.md")) + sorted(SOURCE.glob("actors/**/*.cpp"))
    lines = [line for path in prose for line in path.read_text().splitlines() if line.strip()]
    (folder / "prose.txt").write_text("\n".join(lines * 4) + "\n")
    for name, model, way, source, vocab in (("nucleotides", models.BPE(unk_token="[UNK]"), pre_tokenizers.Whitespace(), "reads.txt", 1024),
                                            ("text", models.BPE(), pre_tokenizers.ByteLevel(add_prefix_space=False), "prose.txt", 8000)):
        tokenizer = Tokenizer(model)
        tokenizer.pre_tokenizer = way
        special = ["[UNK]"] if name == "nucleotides" else []
        tokenizer.train([str(folder / source)], trainers.BpeTrainer(vocab_size=vocab, special_tokens=special, show_progress=False,
                                                                    initial_alphabet=[] if special else pre_tokenizers.ByteLevel.alphabet()))
        tokenizer.save(str(folder / f"{name}.json"))
        yield name, folder / f"{name}.json", folder / source, tokenizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    def ours(*words):
        done = subprocess.run([arguments.program, *map(str, words)], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[1])

    def theirs(tokenizer, lines):
        begin = time.perf_counter()
        for line in lines:
            tokenizer.encode(line, add_special_tokens=False)
        return time.perf_counter() - begin

    with tempfile.TemporaryDirectory(prefix="prime-bench-data-") as directory:
        folder = pathlib.Path(directory)
        size = write_reads(folder, arguments.megabytes) / 1e6
        rows = {"FASTQ": [], "FASTQ.gz": [], "zlib alone": []}
        for _ in range(arguments.rounds):
            rows["FASTQ"].append(size / ours("read", folder / "reads.fastq"))
            rows["FASTQ.gz"].append(size / ours("read", folder / "reads.fastq.gz"))
            rows["zlib alone"].append(size / ours("inflate", folder / "reads.fastq.gz"))
        for name, speeds in rows.items():
            print(f"{name:24} {statistics.median(speeds):8.0f} MB/s")
        print(f"{'FASTQ.gz / zlib':24} {statistics.median(a / b for a, b in zip(rows['FASTQ.gz'], rows['zlib alone'])):8.2f}")
        try:
            import tokenizers  # noqa: F401
        except ImportError:
            sys.exit("tokenising is compared with nothing: the package tokenizers is not here")
        for name, tokenizer_file, source, tokenizer in trained(folder):
            lines = source.read_text().splitlines()
            megabytes = sum(len(line.encode()) for line in lines) / 1e6
            pairs = [(megabytes / ours("tokenize", tokenizer_file, source), megabytes / theirs(tokenizer, lines)) for _ in range(arguments.rounds)]
            print(f"tokens of {name:14} {statistics.median(a for a, _ in pairs):8.1f} MB/s   tokenizers {statistics.median(b for _, b in pairs):8.1f} MB/s   "
                  f"ratio {statistics.median(a / b for a, b in pairs):6.2f}")


if __name__ == "__main__":
    main()
