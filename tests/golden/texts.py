"""Owns the text that models of tests are trained on."""


def write_corpus(folder):
    """Text that is not learnt by heart at once, the same on every machine."""
    folder.mkdir()
    state = 7
    for number in range(40):
        words = []
        for _ in range(600):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            words.append(f"{state >> 48:x}")
        (folder / f"file{number:02}.txt").write_text(" ".join(words) + "\n")
