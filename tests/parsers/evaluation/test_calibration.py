import pytest

from parsers.evaluation.calibration import Calibration
from tests.parsers.evaluation.made_up import parse_of


def test_calibration_by_hand():
    calibration = Calibration()
    calibration.add(parse_of(["a"] * 5, [2, 0, 2, 2, 1], [2, 0, 4, -1, 1], [1.0, 0.9, 0.25, 0.5, 0.8]))
    figures = calibration.figures()
    assert [(b["from"], b["arcs"]) for b in figures["calibration"]] == [(0.2, 1), (0.8, 1), (0.9, 2)]
    assert figures["expected_calibration_error"] == pytest.approx((0.25 + 0.2 + 2 * 0.05) / 4)
    by_threshold = {row["threshold"]: row for row in figures["thresholds"]}
    assert by_threshold[0.9]["coverage"] == 0.5 and by_threshold[0.9]["accuracy"] == 1
    assert by_threshold[0.5]["coverage"] == 0.75 and by_threshold[0.5]["errors_below"] == 1
