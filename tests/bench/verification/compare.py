"""What `primectl verify` finds out: honest provers of all kinds beside frauds, on models that are trained here, and what it costs.

usage: compare.py ANY_PROGRAM_OF_THE_BUILD [--size small|gpt2|0.3m|10m|all]

For each case: exponents (and signs) that differ of 128, the mean error of mantissas, the worst of a segment, and the sequences that each
preset refuses. `small` is what the test suite runs (a quarter of a minute of one core); `all` takes an hour.
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
    parser.add_argument("--size", choices=("small", "gpt2", "0.3m", "10m", "all"), default="all")
    options = parser.parse_args()
    import verification

    known = {"small": verification.SMALL, "gpt2": verification.SMALL_GPT2, **verification.LONG}
    sizes = verification.LONG.values() if options.size == "all" else [known[options.size]]
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    bad = False
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="prime-verification-") as work:
            bench = verification.Bench(options.program.parent, work, size, say)
            bench.prepare()
            bench.run()
            print(bench.table(), flush=True)
            bad = bad or any(row["accepted"] != row["honest"] for row in bench.rows)
    subprocess.run([str(options.program.parent / "primectl"), "bench", "inference", "-q", "--repeat", "3"], check=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
