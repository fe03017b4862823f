"""The pictures of RESULTS.md, PNG: rows by treebank, UAS by share of labelled trees, UAS by sentences of text."""

import io
from collections.abc import Callable
from statistics import stdev

from parsers.reproduce.cells import Results, mean_of, test_uas, unique
from parsers.reproduce.grid import Step
from parsers.reproduce.statistics import Mean

WIDTH = 9  # inches, at DPI dots: as wide as a page on GitHub
DPI = 110
PER_LINE = 3  # treebanks


def draw(results: Results) -> dict[str, bytes]:
    """The kind of a table → its picture; only those that have something to show."""
    found = {}
    for kind, function in (("systems", _bars), ("shares", _shares), ("text", _text)):
        steps = [step for step in results.grid.steps if step.table == kind]
        if results.lines_for(plan for step in steps for plan in step.plans):
            found[kind] = _png(function, results, steps)
    return found


def _png(function: Callable, results: Results, steps: list[Step]) -> bytes:
    import matplotlib  # takes a second

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure, picture = Figure(layout="constrained"), io.BytesIO()
    with matplotlib.rc_context({"text.parse_math": False, "font.size": 9}):
        function(results, steps, figure)
        figure.savefig(picture, format="png", dpi=DPI, metadata={"Software": None})
    return picture.getvalue()


def _bars(results: Results, steps: list[Step], figure) -> None:
    """A panel per treebank; trees alone in a light colour, with text in a dark one."""
    plans = [plan for step in steps for plan in step.plans]
    rows = unique(plan.row for plan in plans)
    treebanks = [
        name for name in unique(plan.treebank for plan in plans) if any(results.lines_of(row, name) for row in rows)
    ]
    rows = [row for row in rows if any(results.lines_of(row, name) for name in treebanks)]
    lines = -(-len(treebanks) // PER_LINE)
    figure.set_size_inches(WIDTH, lines * (0.9 + 0.2 * len(rows)))
    panels = figure.subplots(lines, min(PER_LINE, len(treebanks)), sharey=True, squeeze=False).flat
    for axes, name in zip(panels, treebanks, strict=False):
        means = [mean_of(results.lines_of(row, name), test_uas) for row in rows]
        known = [found.mean for found in means if found]
        low, high = min(known) - 1.5, max(known) + 3
        for place, (row, found) in enumerate(zip(rows, means, strict=True)):
            if found:
                color, spread = "C0" if row.endswith("(L+U)") else "#a9c4dc", _spread(found) or 0.0
                axes.barh(place, found.mean - low, left=low, color=color, xerr=spread or None, ecolor="0.25", capsize=2)
                behind = found.mean + spread + 0.02 * (high - low)
                axes.text(behind, place, f"{found.mean:.1f}", va="center", fontsize=7)
        axes.set(title=name, xlim=(low, high), ylim=(len(rows) - 0.5, -0.5))
        axes.set_yticks(range(len(rows)), rows)
        axes.grid(alpha=0.3, axis="x")
        axes.set_axisbelow(True)
    for axes in list(panels)[len(treebanks) :]:
        axes.set_axis_off()
    what = "test UAS, %: mean of the seeds and standard deviation. Dark: with text. The axes do not begin at 0."
    figure.supxlabel(what, fontsize=9)


def _shares(results: Results, steps: list[Step], figure) -> None:
    figure.set_size_inches(WIDTH * 0.75, 4)
    axes = figure.subplots()
    (step, *_) = steps
    treebank, shares = step.plans[0].treebank, sorted({plan.share for plan in step.plans})
    for row, marker in zip(unique(plan.row for plan in step.plans), "osD^vP*X" * 9, strict=False):
        points = {share: mean_of(results.lines_for(step.plans_of(row, share)), test_uas) for share in shares}
        _curve(axes, {100 * share: found for share, found in points.items() if found}, row, marker)
    axes.set(xscale="log", xlabel=f"labelled trees of {treebank}, %", ylabel="test UAS, %")
    axes.set_xticks([100 * share for share in shares], [f"{100 * share:g}" for share in shares])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()


def _text(results: Results, steps: list[Step], figure) -> None:
    figure.set_size_inches(WIDTH * 0.75, 3.5)
    axes = figure.subplots()
    points: dict[tuple[str, str], dict[int, list[float]]] = {}
    for plan in (plan for step in steps for plan in step.plans):
        for line in results.lines_for([plan]):
            if line.test_uas is not None:
                sizes = points.setdefault((plan.system, plan.treebank), {})
                sizes.setdefault(line.sizes["text"], []).append(line.test_uas)
    for ((system, treebank), sizes), marker in zip(points.items(), "osD^vP*X" * 9, strict=False):
        means = {size: Mean(tuple(values)) for size, values in sorted(sizes.items())}
        _curve(axes, means, f"{system.upper()} on {treebank}", marker)
    axes.set(xlabel="sentences of text", ylabel="test UAS, %")
    axes.set_xticks(unique(size for sizes in points.values() for size in sizes))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    axes.legend()


def _curve(axes, points: dict[float, Mean], label: str, marker: str) -> None:
    if points:
        spread = [_spread(found) or 0 for found in points.values()]
        means = [found.mean for found in points.values()]
        axes.errorbar(list(points), means, spread, label=label, marker=marker, capsize=2)


def _spread(found: Mean) -> float | None:
    return stdev(found.values) if len(found.values) > 1 else None
