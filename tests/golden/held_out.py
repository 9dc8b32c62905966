"""Owns the held-out oracle: a checkpoint's loss by transformers, over a held-out set that this script chooses by itself.

usage: held_out.py CHECKPOINT_DIR --data PATH [--include GLOB] [--held-out SHARE] [--per-file BYTES] [--limit BYTES] [--context N]

Prints the mean in nats per byte, with six decimals. The rules, independent of the product's code:
a regular file (links are not followed) whose name matches GLOB is held out if the first 8 bytes of the SHA-256 of its path relative
to PATH, as a big-endian number over 2^64, are below SHARE. Of such files, in the order of that number, the first BYTES are cut
into windows of N + 1 bytes that begin N apart, until LIMIT / N windows are found. In a window each byte but the first is predicted.
"""
import argparse
import fnmatch
import hashlib
import os
import sys


def files_below(path, glob):
    """Names relative to a root, and the root; of a single file, its own name."""
    if os.path.isfile(path):
        return os.path.dirname(path), [os.path.basename(path)]
    names = []
    for folder, _, files in os.walk(path, followlinks=False):
        for file in files:
            whole = os.path.join(folder, file)
            if fnmatch.fnmatchcase(file, glob) and os.path.isfile(whole) and not os.path.islink(whole) and os.access(whole, os.R_OK):
                names.append(os.path.relpath(whole, path))
    return path, names


def held_out_windows(arguments):
    root, names = files_below(arguments.data, arguments.include)
    candidates = []
    for name in names:
        number = int.from_bytes(hashlib.sha256(os.fsencode(name)).digest()[:8], "big")
        if number / 2**64 < arguments.held_out:
            candidates.append((number, os.fsencode(name), os.path.join(root, name)))
    most = max(1, arguments.limit // arguments.context)
    windows = []
    for _, _, path in sorted(candidates):
        with open(path, "rb") as file:
            data = file.read(arguments.per_file)
        for begin in range(0, len(data) - arguments.context, arguments.context):
            if len(windows) == most:
                return windows
            windows.append(data[begin : begin + arguments.context + 1])
    return windows


def mean_loss(checkpoint, windows):
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    total = 0.0
    with torch.no_grad():
        for begin in range(0, len(windows), 16):
            ids = torch.tensor([list(window) for window in windows[begin : begin + 16]])
            logits = model(input_ids=ids[:, :-1], use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), ids[:, 1:].flatten(), reduction="sum")
            total += loss.item()
    return total / (len(windows) * (len(windows[0]) - 1))


def main():
    parser = argparse.ArgumentParser(description="held-out loss of a checkpoint, by transformers")
    parser.add_argument("checkpoint")
    parser.add_argument("--data", required=True)
    parser.add_argument("--include", default="*.h*")
    parser.add_argument("--held-out", type=float, default=0.05)
    parser.add_argument("--per-file", type=int, default=8192)
    parser.add_argument("--limit", type=int, default=1 << 20)
    parser.add_argument("--context", type=int, default=128)
    arguments = parser.parse_args()
    windows = held_out_windows(arguments)
    if not windows:
        sys.exit(f"nothing is held out of {arguments.data}")
    print(f"{mean_loss(arguments.checkpoint, windows):.6f}")


if __name__ == "__main__":
    main()
