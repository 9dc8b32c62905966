"""What `primectl verify` finds out: honest provers of all kinds beside frauds, on models that are trained here, and what it costs.

usage: compare.py ANY_PROGRAM_OF_THE_BUILD [--size small|gpt2|0.3m|10m|all|wide|wide-gpt2] [--device cuda]

For each case: exponents (and signs) that differ of 128, the mean error of mantissas, the worst of a segment, and the sequences that each
preset refuses. With --device the CPU and that device check each other's proofs instead, and `wide` is for that. `small` is what the test suite runs (a quarter of a minute of one core); `all` takes an hour.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "golden"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--size", choices=("small", "gpt2", "0.3m", "10m", "all", "wide", "wide-gpt2"), default="all")
    parser.add_argument("--device")
    options = parser.parse_args()
    import verification

    known = {"small": verification.SMALL, "gpt2": verification.SMALL_GPT2, "wide": verification.WIDE, "wide-gpt2": verification.WIDE_GPT2, **verification.LONG}
    sizes = verification.LONG.values() if options.size == "all" else [known[options.size]]
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    bad = False
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="prime-verification-") as work:
            bench = verification.Bench(options.program.parent, work, size, say)
            if options.device:
                bench.prepare_across("cuda" if verification.torch.cuda.is_available() else "cpu")
                bench.run_across(options.device)
                print(bench.table_across(), flush=True)
            else:
                bench.prepare()
                bench.run()
                print(bench.table(), flush=True)
            bad = bad or any(row["accepted"] != row["honest"] for row in bench.rows)
    subprocess.run([str(options.program.parent / "primectl"), "bench", "inference", "-q", "--repeat", "3", "--device", options.device or "cpu"], check=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
