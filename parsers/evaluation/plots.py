"""Learning curves as pictures: the loss and the dev UAS of a run over its epochs, and those of several runs."""

import contextlib
import io
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

from parsers.io.errors import DataError, UserError, why
from parsers.io.files import MAX_JSON, check_file, write

LINES = ("-", "--", ":", "-.")  # ten colours each


@contextlib.contextmanager
def plotting(title: str, panels: int, height: float = 3.7) -> Iterator[tuple]:
    """A figure with some panels side by side. Names of files and runs are shown as they are, `$` too."""
    import matplotlib  # takes a second to import, and is needed only for pictures

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=(4.5 * panels, height), layout="constrained")
        figure.suptitle(title)
        yield figure, figure.subplots(1, panels)


def draw_curves(path: Path, history: list[dict], title: str) -> None:
    """The picture in a run's directory."""
    epochs = [record for record in history if "final" not in record]
    x = range(1, len(epochs) + 1)  # over all stages
    with plotting(title, 2) as (figure, (loss, uas)):
        for name in ("loss", "unlabeled_loss"):
            if any(name in record for record in epochs):
                loss.plot(x, [record.get(name) for record in epochs], label=name.replace("_", " "), marker=".")
        for name in ("dev_uas", "dev_uas_without_punctuation"):
            if any(name in record for record in epochs):
                uas.plot(x, [record.get(name) for record in epochs], label=name[4:].replace("_", " "), marker=".")
        for axes, what in ((loss, "training loss per word"), (uas, "dev UAS, %")):
            _over_epochs(axes, what)
            if axes.lines:
                axes.legend()
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=120)
    write(path, picture.getvalue())


def _over_epochs(axes, what: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set(xlabel="epoch", ylabel=what)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)


def read_history(directory: Path) -> list[dict]:
    """The lines of a run's metrics.jsonl."""
    path = directory / "metrics.jsonl"
    try:
        if not path.exists():
            raise UserError(f"{directory} has no metrics.jsonl yet: no epoch has ended")
        check_file(path, MAX_JSON)
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(str(path), None, f"can't be read: {why(error)}") from None
    history = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DataError(str(path), number, "expected a JSON object: the file is damaged")
        history.append({k: v for k, v in record.items() if isinstance(v, int | float)})
    if not history:
        raise DataError(str(path), None, "this file is empty")
    return history


def summarize(history: list[dict]) -> dict:
    """The figures of a run: the epochs so far, the best dev UAS, and what it attains on the test set at the end."""
    epochs = [record for record in history if "final" not in record]
    final = history[-1] if "final" in history[-1] else {}
    dev = [record["dev_uas"] for record in epochs if "dev_uas" in record]
    return {
        "epochs": len(epochs),
        "dev_uas": final.get("dev_uas", max(dev, default=None)),
        "test_uas": final.get("test_uas"),
    }


def comparison_plot(histories: dict[str, list[dict]]) -> bytes:
    """A PNG: the dev UAS of several runs over their epochs, and what each attains."""
    with plotting("", 2, height=max(3.7, 1 + 0.5 * len(histories))) as (figure, (curves, final)):
        styles = [{"color": f"C{n % 10}", "linestyle": LINES[n // 10 % len(LINES)]} for n in range(len(histories))]
        for history, style in zip(histories.values(), styles, strict=True):
            uas = [record.get("dev_uas") for record in history if "final" not in record]
            y = [float("nan") if value is None else value for value in uas]
            curves.plot(range(1, len(y) + 1), y, marker=".", **style)
        _over_epochs(curves, "dev UAS, %")

        # The names stand beside what the runs attain, each with its line: a legend that is read from top to bottom.
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
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()
