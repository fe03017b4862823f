"""Whether probabilities can be trusted: of the arcs that the parser gives 0.9, nine out of ten should be right.

The expected calibration error is the mean difference between the two, over ten bins of probability, each weighted by
its arcs (Naeini et al. 2015; Guo et al. 2017). Accuracy against coverage says what remains when the least certain arcs
are left to a person.
"""

import io

import numpy as np

from parsers.evaluation.parse import Parse

BINS = 10
THRESHOLDS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


def _fine_edges() -> np.ndarray:
    """Lower ends of fine bins: equal steps of log p / (1 − p), since most arcs are nearly certain. Those of the ten
    bins and the thresholds are among them, so that what is said about these is exact."""
    logits = np.arange(-12, 16, 0.02)
    tenths = np.arange(BINS) / BINS
    return np.unique(np.concatenate([1 / (1 + np.exp(-logits)), tenths, THRESHOLDS, [1.0]]))


class Calibration:
    """A histogram of the predicted arcs by their probability."""

    def __init__(self):
        self.edges = _fine_edges()
        self.counts = np.zeros((3, len(self.edges)))  # arcs, right ones, sum of the probabilities

    def add(self, parse: Parse) -> None:
        if parse.gold is None:
            return
        gold, heads = np.array(parse.gold), np.array(parse.heads)
        known = gold >= 0
        p, right = np.array(parse.probabilities)[known], (heads == gold)[known]
        place = np.searchsorted(self.edges, p, side="right") - 1
        np.add.at(self.counts, (slice(None), place), np.stack([np.ones_like(p), right, p]))

    def bins(self) -> list[dict]:
        """The bins that have arcs, with their mean probability and their accuracy."""
        coarse = np.minimum(np.searchsorted(np.arange(1, BINS + 1) / BINS, self.edges, side="right"), BINS - 1)
        sums = np.zeros((3, BINS))
        np.add.at(sums, (slice(None), coarse), self.counts)
        return [
            {"from": i / BINS, "to": (i + 1) / BINS, "arcs": int(n), "confidence": total / n, "accuracy": right / n}
            for i, (n, right, total) in enumerate(sums.T.tolist())
            if n
        ]

    def error(self) -> float:
        """The expected calibration error, from 0 to 1."""
        bins = self.bins()
        arcs = sum(b["arcs"] for b in bins)
        return sum(b["arcs"] * abs(b["confidence"] - b["accuracy"]) for b in bins) / arcs

    def coverage(self) -> list[dict]:
        """For each threshold that changes something: the share of arcs at least that probable, and their accuracy."""
        arcs, right, _ = self.counts[:, ::-1].cumsum(1)[:, ::-1]
        used = np.flatnonzero(self.counts[0])
        return [self._covered(i, arcs, right) for i in used]

    def thresholds(self) -> list[dict]:
        """The same for a few round numbers."""
        arcs, right, _ = self.counts[:, ::-1].cumsum(1)[:, ::-1]
        return [self._covered(np.searchsorted(self.edges, t), arcs, right) for t in THRESHOLDS]

    def _covered(self, i: int, arcs: np.ndarray, right: np.ndarray) -> dict:
        errors = arcs[0] - right[0]
        return {
            "threshold": float(self.edges[i]),
            "coverage": float(arcs[i] / arcs[0]),
            "accuracy": float(right[i] / arcs[i]) if arcs[i] else None,
            "errors_below": float(1 - (arcs[i] - right[i]) / errors) if errors else None,
        }

    def figures(self) -> dict:
        if not self.counts[0].any():
            return {}
        return {
            "expected_calibration_error": self.error(),
            "calibration": self.bins(),
            "thresholds": self.thresholds(),
            "coverage": self.coverage(),
        }


def reliability_plot(figures: dict, title: str) -> bytes:
    """A PNG: accuracy against probability, and against the share of arcs that are kept."""
    from parsers.evaluation.plots import plotting  # takes a second to import, and is needed only here

    bins, coverage = figures["calibration"], figures["coverage"]
    with plotting(title, 2) as (figure, (reliability, covered)):
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
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()
