"""Owns the two pictures of docs/METAGENE.md: losses over tokens, and how well the model foretells reads that it should know and reads of chance."""

SIZE = (7, 3.2)


def draw(found, joined, folder):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "metagene"  # the same figures draw the same file
    from matplotlib import pyplot

    def save(figure, axes, name):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        figure.tight_layout()
        figure.savefig(folder / name, metadata={"Date": None})
        pyplot.close(figure)

    figure, axes = pyplot.subplots(figsize=SIZE)
    for name, run in (("four peers, one plant each", found), ("their batches in one", joined)):
        if run:
            axes.plot([tokens / 1e6 for tokens, _ in run["losses"]], [loss for _, loss in run["losses"]], label=name)
    axes.set(xlabel="million tokens", ylabel="loss, nats per token")
    save(figure, axes, "metagene-loss.svg")

    figure, axes = pyplot.subplots(figsize=SIZE)
    for name, kind in (("trained regions", "trained"), ("held-out regions", "held_out"), ("random", "random")):
        histogram = found[kind]["histogram"]
        step = histogram["step_bits_per_base"]
        axes.stairs(histogram["reads"], [step * edge for edge in range(len(histogram["reads"]) + 1)], fill=True, alpha=0.5, label=name)
    axes.axvline(found["foreign"]["held_out"]["threshold_bits_per_base"], color="black", linestyle=":", label="threshold")
    axes.set(xlabel="bits per base of a read", ylabel="reads", xlim=(0, 3))
    save(figure, axes, "metagene-reads.svg")
