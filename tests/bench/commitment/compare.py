"""Our commitments beside the published package `toploc`, in one process and in turns: 32 tokens of width 4096, 128 values.

usage: compare.py ANY_PROGRAM_OF_THE_BUILD [--rounds 200]

interpolate: from 128 points to a polynomial, the choice of the modulus included. evaluate: at 128 places. build: from activations to the
bytes of a proof. check: from activations and a proof to the three figures. Medians; the calls from Python are part of each.
"""

import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

WIDTH, TOKENS, K = 4096, 32, 128


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    try:
        import numpy
        import toploc
        import torch
        from toploc.C.csrc.ndd import evaluate_polynomials
        from toploc.poly import ProofPoly, verify_proofs_bytes
    except ImportError as missing:
        print(f"commitment: skipped: {missing}: `./dev setup --test` builds the package toploc from its source", file=sys.stderr)
        return 0
    from commitment_bridge import Bridge, bits_of

    torch.set_num_threads(1)
    bridge = Bridge(next(options.program.resolve().parent.parent.glob("tests/runtime/commitment/libcommitment_bridge.*")))
    values = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    bits = bits_of(values)
    indices = bridge.top(bits, K)
    chosen = bits[indices]
    tensor_indices = torch.tensor(indices.astype(numpy.int64))
    tensor_values = values.view(-1)[tensor_indices]
    modulus, coefficients = bridge.interpolate(indices, chosen)
    theirs = ProofPoly.from_points_tensor(tensor_indices, tensor_values)
    assert theirs.modulus == modulus and list(theirs.coeffs) == coefficients.tolist(), "the polynomials differ"
    proof = bridge.build(bits, K)
    places = [int(index) % modulus for index in indices]
    cases = {
        "interpolate": (lambda: bridge.interpolate(indices, chosen), lambda: ProofPoly.from_points_tensor(tensor_indices, tensor_values)),
        "evaluate": (lambda: bridge.evaluate(coefficients, modulus, indices), lambda: evaluate_polynomials(theirs.coeffs, places)),
        "build": (lambda: bridge.build(bits, K), lambda: toploc.build_proofs_bytes(values, TOKENS, K, skip_prefill=True)),
        "check": (lambda: bridge.compare(proof, bits, K), lambda: verify_proofs_bytes(values, [proof], TOKENS, K, skip_prefill=True)),
    }
    for name, (ours, others) in cases.items():
        mine, package = [], []
        for _ in range(options.rounds):
            mine.append(seconds(ours))
            package.append(seconds(others))
        a, b = statistics.median(mine), statistics.median(package)
        print(f"{name:>12}   ours {a * 1e6:8.1f} us   toploc {b * 1e6:8.1f} us   toploc/ours {b / a:6.1f}", flush=True)
    print(f"a proof of {TOKENS} tokens: {len(proof)} bytes; their activations: {values.numel() * 2} bytes, {values.numel() * 2 / len(proof):.0f} times as many")
    return 0


if __name__ == "__main__":
    sys.exit(main())
