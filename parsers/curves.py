"""Learning curves as a picture: the loss and the dev UAS over the epochs."""

import io
from pathlib import Path

from parsers.checkpoint import write


def draw_curves(path: Path, history: list[dict], title: str) -> None:
    import matplotlib  # takes a second to import, and is needed only here

    matplotlib.use("Agg")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    epochs = [record for record in history if "final" not in record]
    x = range(1, len(epochs) + 1)  # over all stages
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    loss, uas = figure.subplots(1, 2)
    for name in ("loss", "unlabeled_loss"):
        if any(name in record for record in epochs):
            loss.plot(x, [record.get(name) for record in epochs], label=name.replace("_", " "), marker=".")
    for name in ("dev_uas", "dev_uas_without_punctuation"):
        if any(name in record for record in epochs):
            uas.plot(x, [record.get(name) for record in epochs], label=name[4:].replace("_", " "), marker=".")
    for axes, what in ((loss, "training loss per word"), (uas, "dev UAS, %")):
        axes.set(xlabel="epoch", ylabel=what)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend()
    figure.suptitle(title)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    write(path, picture.getvalue())
