"""Pictures: learning curves of one run and of several, and whether probabilities can be trusted."""

import contextlib
import io
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from parsers.evaluation.calibration import BINS
from parsers.io.errors import DataError, UserError
from parsers.io.files import parse_json, read_whole, write

SCORES = ("dev_uas", "dev_las", "test_uas", "test_las")  # of a run
LINES = ("-", "--", ":", "-.")  # ten colours each


@contextlib.contextmanager
def plotting(title: str, height: float = 3.7) -> Iterator[tuple]:
    """Two panels side by side, and a buffer that gets the PNG at the end of the block. `$` is no formula here."""
    import matplotlib  # takes a second to import, and is needed only for pictures

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    picture = io.BytesIO()
    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(9, height), layout="constrained")
        figure.suptitle(title)
        yield *figure.subplots(1, 2), picture
        figure.savefig(picture, format="png", dpi=120)


def draw_curves(path: Path, history: list[dict], title: str) -> None:
    """The picture in a run's directory."""
    epochs = [record for record in history if "final" not in record]
    x = range(1, len(epochs) + 1)  # over all stages
    with plotting(title) as (loss, uas, picture):
        for name in ("loss", "parse_loss", "unlabeled_loss", "unlabeled_reconstruction"):
            if any(name in record for record in epochs):
                text = name.replace("unlabeled", "unlabelled").replace("_", " ")
                loss.plot(x, [record.get(name) for record in epochs], label=text, marker=".")
        uas.sharex(loss)  # pretraining has no scores
        for name in ("dev_uas", "dev_uas_without_punctuation", "dev_las"):
            if any(name in record for record in epochs):
                uas.plot(x, [record.get(name) for record in epochs], label=name[4:].replace("_", " "), marker=".")
        scores = "dev UAS and LAS, %" if any("dev_las" in record for record in epochs) else "dev UAS, %"
        for axes, what in ((loss, "training loss per word"), (uas, scores)):
            if axes.lines:
                axes.legend()
            _over_epochs(axes, what)
            for before, first in pairwise(epochs):
                if before.get("stage") != first.get("stage"):
                    axes.axvline(epochs.index(first) + 0.5, color="0.5", linestyle="--", linewidth=1)
    write(path, picture.getvalue())


def _over_epochs(axes, what: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set(xlabel="epoch", ylabel=what)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)


def read_history(directory: Path) -> list[dict]:
    """The lines of a run's metrics.jsonl, numbers only."""
    path = directory / "metrics.jsonl"
    if not path.exists():
        raise UserError(f"{directory} has no metrics.jsonl yet: no epoch has ended")
    history = []
    for number, line in enumerate(read_whole(path).splitlines(), 1):
        record = parse_json(line, path, number)
        history.append({key: value for key, value in record.items() if isinstance(value, int | float)})
    if not history:
        raise DataError(str(path), None, "this file is empty")
    return history


def summarize(history: list[dict]) -> dict:
    """The figures of a run: the epochs so far, and SCORES: those of the model, until the end the best on dev."""
    epochs = [record for record in history if "final" not in record]
    final = history[-1] if "final" in history[-1] else {}
    best = {key: max((record[key] for record in epochs if key in record), default=None) for key in SCORES}
    return {"epochs": len(epochs), **{key: final.get(key, best[key]) for key in SCORES}}


def comparison_plot(histories: dict[str, list[dict]]) -> bytes:
    """A PNG: the dev UAS of several runs over their epochs, and the UAS of the best epoch of each."""
    with plotting("", height=max(3.7, 1 + 0.5 * len(histories))) as (curves, final, picture):
        styles = [{"color": f"C{n % 10}", "linestyle": LINES[n // 10 % len(LINES)]} for n in range(len(histories))]
        for history, style in zip(histories.values(), styles, strict=True):
            uas = [record.get("dev_uas") for record in history if "final" not in record]
            y = [float("nan") if value is None else value for value in uas]
            curves.plot(range(1, len(y) + 1), y, marker=".", **style)
        _over_epochs(curves, "dev UAS, %")

        # The right panel is the legend too: one row per run, with its name and its line.
        for place, (summary, style) in enumerate(zip(map(summarize, histories.values()), styles, strict=True)):
            final.axhline(place, alpha=0.35, **style)
            for name, fill, above in (("dev", "white", -13), ("test", style["color"], 7)):
                if (value := summary[f"{name}_uas"]) is not None:
                    final.plot(value, place, "o", color=style["color"], markerfacecolor=fill)
                    label, offset = f"{name} {value:.2f}", (0, above)
                    final.annotate(label, (value, place), offset, textcoords="offset points", ha="center", fontsize=7)
        names = ["\n".join(textwrap.wrap(name, 24)) for name in histories]
        final.set_yticks(range(len(histories)), names, fontsize=8)
        final.set(xlabel="UAS of the best epoch, %", ylim=(len(histories) - 0.5, -0.5))
        final.margins(x=0.2)
        final.grid(alpha=0.3, axis="x")
    return picture.getvalue()


def reliability_plot(figures: dict, title: str) -> bytes:
    """A PNG: accuracy against probability, and against the share of arcs that are kept."""
    bins, coverage = figures["calibration"], figures["coverage"]
    with plotting(title) as (reliability, covered, picture):
        middle = [(b["from"] + b["to"]) / 2 for b in bins]
        reliability.bar(middle, [b["accuracy"] for b in bins], 1 / BINS, color="C0", alpha=0.5, edgecolor="C0")
        reliability.plot([0, 1], [0, 1], color="0.5", linestyle="--", label="perfectly calibrated")
        reliability.plot(
            [b["confidence"] for b in bins], [b["accuracy"] for b in bins], "o-", color="C1", label="found"
        )
        shares = [b["arcs"] / sum(b["arcs"] for b in bins) for b in bins]
        for x, share in zip(middle, shares, strict=True):
            reliability.text(x, 0.01, f"{100 * share:.0f} %" if share >= 0.005 else "< 1 %", ha="center", fontsize=7)
        error = f"expected calibration error {100 * figures['expected_calibration_error']:.2f} %"
        reliability.set(xlabel="probability of the arc", ylabel="share of right arcs", xlim=(0, 1), ylim=(0, 1.02))
        reliability.set_title(error, fontsize=10)
        reliability.legend(loc="upper left")
        covered.plot([100 * c["coverage"] for c in coverage], [100 * c["accuracy"] for c in coverage], color="C0")
        for c in figures["thresholds"]:
            if c["accuracy"] is not None:
                x, y = 100 * c["coverage"], 100 * c["accuracy"]
                covered.plot(x, y, "o", color="C1")
                covered.annotate(
                    f"≥ {c['threshold']}", (x, y), (4, 4), textcoords="offset points", fontsize=7, rotation=30
                )
        covered.set(xlabel="arcs kept, the most probable first, %", ylabel="of these right, %", xlim=(0, 102))
        covered.set_title("accuracy against coverage", fontsize=10)
        covered.margins(y=0.12)  # for the labels
        covered.grid(alpha=0.3)
    return picture.getvalue()
