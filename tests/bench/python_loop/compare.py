"""Owns what the Python loop costs: examples/python/gpt_diloco.py's model and optimizer, with a run and without, alternating in one process.

usage: compare.py PYTHON_LOOP [--rounds 9] [--seconds 6]     (PYTHON_LOOP is beside primectl; it need not be there)

For 0.3 and 25 million parameters: tokens a second of a loop that calls `next` and `report` at each step, within one outer step, over those of the same
loop without us (1.00: it costs nothing), and what the two calls take at a step that publishes nothing, in microseconds. Then what a round of one peer takes,
from its publication to the next parameters, with a model in memory of its own and in that of `run.share`, in milliseconds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
SIZES = {"0.3": {"GPT_DIM": "96", "GPT_LAYERS": "2"}, "25": {"GPT_DIM": "576", "GPT_LAYERS": "6"}}
TRAINER = """
import json, os, sys, time
import torch
torch.set_num_threads(1)
import prime_runtime as prime
sys.path.insert(0, os.environ["EXAMPLES"])
import gpt_diloco
torch.manual_seed(0)
model = gpt_diloco.Gpt()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
batch = torch.randint(0, 256, (4, gpt_diloco.CONTEXT + 1))
def train():
    optimizer.zero_grad()
    loss = model(batch)
    loss.backward()
    optimizer.step()
    return loss
def steps(count, run=None):
    began = time.perf_counter()
    for _ in range(count):
        step = run.next() if run else None
        loss = train()
        value = step.report(loss, 1) if step else loss.item()
    return (time.perf_counter() - began) / count
with prime.join() as run:
    if os.environ.get("SHARED"):
        run.share(model)
    run.bind(model, optimizer)
    run.next().report(train(), 1)
    count = max(2, int(float(os.environ["SECONDS_EACH"]) / steps(3)))
    with_us, without = [], []
    for _ in range(int(os.environ["ROUNDS"])):
        with_us.append(steps(count, run))
        without.append(steps(count))
    calls = []
    for _ in range(2000):
        began = time.perf_counter()
        step = run.next()
        step.report(1.0, 1)
        calls.append(time.perf_counter() - began)
    published = []
    for _ in range(10):
        began = time.perf_counter()
        run.contribute()
        published.append(time.perf_counter() - began)
        run.next().report(1.0, 1)
    with open(os.environ["RESULT"] + ".part", "w") as file:
        json.dump({"published": published[2:], "parameters": sum(p.numel() for p in model.parameters()), "with": with_us, "without": without, "calls": calls, "steps": count}, file)
    os.rename(os.environ["RESULT"] + ".part", os.environ["RESULT"])
"""


def measure(size, bin_dir, rounds, seconds):
    with tempfile.TemporaryDirectory(prefix="prime-loop-") as folder:
        program, result = pathlib.Path(folder) / "loop.py", pathlib.Path(folder) / "result.json"
        program.write_text(TRAINER)
        env = {**os.environ, **size, "EXAMPLES": str(ROOT / "examples" / "python"), "PYTHONPATH": str(bin_dir.parent / "python"), "RESULT": str(result),
               "ROUNDS": str(rounds), "SECONDS_EACH": str(seconds / 2), "OMP_NUM_THREADS": "1"}
        with open(pathlib.Path(folder) / "log", "wb") as log:
            run = subprocess.Popen([bin_dir / "primectl", "up", ROOT / "manifests" / "quickstart.yaml", "--local", "1", "--state-dir", f"{folder}/state", "--set",
                                    f"local.trainer_command=[{sys.executable}, {program}]", "--set", "sync.inner_steps=100000", "--set", "membership.peers=1..2"], env=env, stdout=log, stderr=log)
        while not result.exists():
            if run.poll() is not None:
                raise SystemExit((pathlib.Path(folder) / "log").read_text())
            time.sleep(0.2)
        run.terminate()
        run.wait()
        return json.loads(result.read_text())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    for size in SIZES.values():
        got = measure(size, options.program.resolve().parent, options.rounds, options.seconds)
        ratios = sorted(bare / ours for ours, bare in zip(got["with"], got["without"], strict=True))
        calls = sorted(got["calls"])
        print(f"{got['parameters'] / 1e6:5.1f} M parameters: a step {statistics.median(got['without']) * 1e3:.1f} ms without us, {statistics.median(got['with']) * 1e3:.1f} ms with; "
              f"speed {statistics.median(ratios):.3f} of it (from {ratios[0]:.3f} to {ratios[-1]:.3f}); next and report {statistics.median(calls) * 1e6:.1f} us, "
              f"99 % within {calls[len(calls) * 99 // 100] * 1e6:.1f} us")
        shared = measure({**size, "SHARED": "1"}, options.program.resolve().parent, 1, 0)
        own_ms, shared_ms = (statistics.median(each["published"]) * 1e3 for each in (got, shared))
        print(f"{'':5} a round of one peer: {own_ms:.1f} ms, {shared_ms:.1f} ms with `run.share`")


if __name__ == "__main__":
    main()
