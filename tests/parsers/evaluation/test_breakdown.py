from parsers.evaluation.breakdown import Breakdown
from tests.parsers.evaluation.made_up import parse_of


def test_breakdown_by_hand():
    breakdown = Breakdown()
    breakdown.add(parse_of(["a"] * 4, [2, 0, 2, 2], [2, 0, 4, -1], [1.0] * 4))
    figures = breakdown.figures()
    assert figures["words"] == 3 and figures["uas"] == 100 * (2 / 3) and figures["root_accuracy"] == 100
    root, short = figures["by_arc_length"]
    assert root["from_root"] and root["words"] == 1
    assert (short["from"], short["to"], short["words"], short["correct"], short["predicted"]) == (1, 1, 2, 1, 2)
    assert Breakdown().figures() == {}
