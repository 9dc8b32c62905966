"""Our proofs against the published package `toploc`, both ways in one process: its proofs verify here, ours there.

usage: package_test.py COMMITMENT_BRIDGE

Which of equal values is taken is each top-k's own business, so a proof may miss as many values as there are ties at its end, and no more.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
SKIPPED = 77
BATCHES = 1000


def main():
    try:
        import torch
        import toploc
        from toploc.poly import verify_proofs_bytes
    except ImportError as missing:
        print(f"skipped: {missing}: `./dev setup --test` builds the package toploc 0.1.6 from its source (two minutes)")
        return SKIPPED
    from commitment_bridge import Bridge, bits_of

    bridge = Bridge(sys.argv[1])
    torch.manual_seed(1)
    equal = tied = lower = 0
    for batch in range(BATCHES):
        # Widths from 64 to 8192, and tokens so few that a thousand take a minute.
        width = int(2 ** (6 + 7 * torch.rand(()).item()))
        tokens = int(torch.randint(1, 33, ())) if width < 2048 or batch % 8 == 0 else int(torch.randint(1, 9, ()))
        k = min(128, width * tokens // 2) if batch % 4 else 8
        values = (torch.randn(tokens, width) * (1 if batch % 3 else 30)).to(torch.bfloat16)
        bits = bits_of(values)

        theirs = toploc.build_proofs_bytes(values, tokens, k, skip_prefill=True)
        assert len(theirs) == 1, "the package made another number of proofs"
        ours = bridge.build(bits, k)
        assert len(ours) == len(theirs[0]) == 2 + 2 * k
        lower += ours[:2] != b"\xff\xd9"

        own = set(bridge.top(bits, k).tolist())
        their_choice = set(values.view(-1).abs().topk(k).indices.tolist())
        missed = len(own - their_choice)
        tied += missed > 0
        if missed == 0:
            assert ours == theirs[0], f"batch {batch}: equal choices, other bytes"
            equal += 1

        here = bridge.compare(theirs[0], bits, k)
        there = verify_proofs_bytes(values, [ours], tokens, k, skip_prefill=True)[0]
        for side, (exponents, error) in {"here": (here[0], here[2]), "there": (there.exp_mismatches, there.mant_err_mean)}.items():
            assert exponents <= missed, f"batch {batch}, {side}: {exponents} exponents differ, and {missed} choices"
            # A value that was not committed to gives any number; its exponent may be right by chance.
            assert error == 0 or missed > 0, f"batch {batch}, {side}: mantissas differ by {error}"
    print(f"{BATCHES} batches, both ways: {equal} with equal bytes, {tied} with ties at the end, {lower} with a modulus below 65497")
    assert equal > 100 and tied > 100, "one of both kinds was not met"
    return 0


if __name__ == "__main__":
    sys.exit(main())
