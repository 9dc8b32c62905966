"""What the algorithms cost in quality: held-out loss at equal inner steps, four peers of prime-trainer on text, beside one worker alone and one with
the batch of all four. Real runs; the learning rate of each method is swept with the first seed, and the best one is repeated with the others.

Arguments after the name: outer steps (60), seeds (3), a file for the plot (none, or `-`), and the methods (all), each by its name or as NAME=RATE,
which is not swept. Losses are in nats per byte; a run that did not end is left out, and said. Tokens are those that the state has, samples those that
were handed out, both by diloco's: what decoupled peers make while a result travels is in no state.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
PRIMECTL = pathlib.Path(sys.argv[1]).parent / "primectl"
OUTER_STEPS, SEEDS = (int(word) for word in [*sys.argv[2:4], *["60", "3"][len(sys.argv[2:4]):]])
PLOT = sys.argv[4] if len(sys.argv) > 4 and sys.argv[4] != "-" else None
PEERS, INNER_STEPS, BATCH = 4, 20, 8
RATES = ("2e-3", "4e-3", "8e-3")
BASE = ("model={arch: llama, layers: 2, dim: 64, heads: 4, vocab: 256, context: 64}", "data.held_out_limit=256KiB", "train.evaluate.every=0",
        f"train.outer_steps={OUTER_STEPS}", f"sync.inner_steps={INNER_STEPS}", "local.network.shared_memory=true")


def outer(rate, momentum):
    return f"sync.outer.nesterov={{lr: {rate}, momentum: {momentum}}}"


def with_codec(codec):
    return (outer(0.7, 0.5), f"sync.wire.codec={codec}")


def streaming(mix):
    return ("sync.algorithm=streaming", "sync.fragments={count: 2, pattern: strided}", "sync.overlap=1", f"sync.mix={mix}", outer(0.7, 0.5))


def decoupled(merge):
    """An outer step is shorter: its rounds are opened by whoever is due first. So many have all peers make about as many inner steps in all."""
    return (f"train.outer_steps={OUTER_STEPS * 6 // 5}", "sync.algorithm=decoupled", "sync.fragments={count: 4, pattern: strided}", "sync.grace=500ms",
            f"sync.merge={merge}", outer(0.7, 0.5))


ALONE = ("membership.peers=1..1", outer(1, 0))
METHODS = {
    "diloco": (PEERS, (outer(0.7, 0.5),)),
    "one worker": (1, (*ALONE, f"train.batch={BATCH}")),
    "one worker, the batch of four": (1, (*ALONE, f"train.batch={PEERS * BATCH}")),
    "diloco, int8": (PEERS, with_codec("int8")),
    "diloco, int4": (PEERS, with_codec("int4")),
    "diloco, e3m0": (PEERS, with_codec("e3m0")),
    "diloco, radial merge": (PEERS, (outer(0.7, 0.5), "sync.merge=radial")),
    "diloco, radial, lr 0.4": (PEERS, (outer(0.4, 0.5), "sync.merge=radial")),
    "streaming, overlap 1, mix 0": (PEERS, streaming(0)),
    "streaming, overlap 1, mix 0.5": (PEERS, streaming(0.5)),
    "decoupled": (PEERS, decoupled("mean")),
    "decoupled, radial merge": (PEERS, decoupled("radial")),
    "eager": (PEERS, ("sync.algorithm=eager", outer(0.4, 0.5))),
    "delayed": (PEERS, ("sync.algorithm=delayed", outer(0.4, 0.5))),
}


CHOSEN = dict((*word.split("="), None)[:2] for word in sys.argv[5:]) or dict.fromkeys(METHODS)


USED = {}  # by method, of each run: tokens and samples


def loss_of(method, rate, seed):
    peers, settings = METHODS[method]
    sets = (*BASE, f"membership.peers={peers}..{peers}", f"train.batch={BATCH}", *settings, f"train.optimizer.adamw.lr={rate}", f"train.seed={seed}",
            f"data.seed={seed}")
    with tempfile.TemporaryDirectory(prefix="prime-bench-") as folder:
        command = [PRIMECTL, "up", ROOT / "manifests" / "quickstart.yaml", "--local", peers, "--state-dir", folder, "-q", "-o", "json",
                   *(word for each in sets for word in ("--set", each))]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        samples = [json.loads(line)["next_sample"] for path in pathlib.Path(folder).glob("*/coordinator/journal.jsonl") for line in path.open(encoding="utf-8")
                   if '"event":"outer_step_committed"' in line]
    if done.returncode != 0:
        print(f"{method}, lr {rate}, seed {seed}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    result = json.loads(done.stdout.splitlines()[-1])
    USED.setdefault(method, []).append((result["tokens"], samples[-1]))
    return result["held_out_loss"]


def best(method):
    """The rate with the least loss of the first seed, and the losses of all seeds with it."""
    swept = {rate: loss_of(method, rate, 1) for rate in ([CHOSEN[method]] if CHOSEN[method] else RATES)}
    ended = {rate: loss for rate, loss in swept.items() if loss is not None}
    rate = min(ended, key=ended.get)
    return rate, [ended[rate], *(loss_of(method, rate, seed) for seed in range(2, SEEDS + 1))]


def plot(found):
    """Each seed a dot, each method a row."""
    row, left, width = 26, 230, 520
    least, most = min(min(losses) for _, losses in found.values()) - 0.02, max(max(losses) for _, losses in found.values()) + 0.02

    def at(loss):
        return left + (loss - least) / (most - least) * width

    ticks = [round(least + i * (most - least) / 5, 2) for i in range(6)]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 40}" height="{row * (len(found) + 2)}" font-family="sans-serif" font-size="13">',
             '<rect width="100%" height="100%" fill="white"/>']
    for tick in ticks:
        lines.append(f'<line x1="{at(tick):.0f}" y1="{row}" x2="{at(tick):.0f}" y2="{row * (len(found) + 1)}" stroke="#ddd"/>'
                     f'<text x="{at(tick):.0f}" y="{row * (len(found) + 1) + 16}" text-anchor="middle">{tick}</text>')
    for number, (method, (_, losses)) in enumerate(found.items(), 1):
        lines.append(f'<text x="{left - 12}" y="{row * number + 17}" text-anchor="end">{method}</text>')
        lines += [f'<circle cx="{at(loss):.1f}" cy="{row * number + 13}" r="5" fill="#2563eb" fill-opacity="0.6"/>' for loss in losses]
    pathlib.Path(PLOT).write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


def main():
    print(f"{PEERS} peers, {OUTER_STEPS} outer steps of {INNER_STEPS} inner steps of {BATCH} samples, {SEEDS} seeds; held-out loss, nats per byte\n")
    print(f"{'':30} {'lr':>7} {'mean':>7} {'from':>7} {'to':>7} {'to diloco':>10} {'tokens':>7} {'samples':>8}")
    found = {}
    for method in CHOSEN:
        rate, losses = best(method)
        losses = [loss for loss in losses if loss is not None]
        found[method] = rate, losses
        beside, used = "", ["", ""]
        if "diloco" in found:
            beside = f"{statistics.mean(losses) - statistics.mean(found['diloco'][1]):+.3f}"
            used = [f"{statistics.mean(own) / statistics.mean(theirs):.3f}" for own, theirs in zip(zip(*USED[method]), zip(*USED["diloco"]))]
        print(f"{method:30} {rate:>7} {statistics.mean(losses):7.3f} {min(losses):7.3f} {max(losses):7.3f} {beside:>10} {used[0]:>7} {used[1]:>8}", flush=True)
    if PLOT:
        plot(found)


if __name__ == "__main__":
    main()
