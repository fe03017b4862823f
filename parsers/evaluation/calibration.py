"""Whether probabilities can be trusted: of the arcs that the parser gives 0.9, nine out of ten should be right.

The expected calibration error is the mean difference between the two, over ten bins of probability, each weighted by
its arcs (Naeini et al. 2015; Guo et al. 2017). Accuracy against coverage is the accuracy of the more probable arcs, for
those who check the others by hand.
"""

import numpy as np

from parsers.evaluation.parse import Parse

BINS = 10
THRESHOLDS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


def _fine_edges() -> np.ndarray:
    """Lower ends of fine bins: equal steps of log p / (1 − p), since most arcs are nearly certain. The ends of the ten
    bins and the thresholds are among them, so that figures for these are exact."""
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
        """For the lower end of each bin that has arcs: the share of arcs at least that probable, and their accuracy."""
        arcs, right, _ = self.counts[:, ::-1].cumsum(1)[:, ::-1]
        used = np.flatnonzero(self.counts[0])
        return [self._covered(i, arcs, right) for i in used]

    def thresholds(self) -> list[dict]:
        """The same for THRESHOLDS."""
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
