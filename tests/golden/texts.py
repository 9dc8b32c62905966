"""Owns the texts that models of tests are trained on: the same on every machine."""


def write_corpus(folder, *, files=40, words=600, seed=7, word=lambda state: f"{state >> 48:x}"):
    """By default text that is not learnt by heart at once. `word` makes one of 64 random bits."""
    folder.mkdir()
    state = seed
    for number in range(files):
        line = []
        for _ in range(words):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            line.append(word(state))
        (folder / f"file{number:02}.txt").write_text(" ".join(line) + "\n")
