"""The paired bootstrap: sure of a clear difference, right as often as it says where there is none."""

import numpy as np
import pytest

from parsers.reproduce.lines import Line
from parsers.reproduce.statistics import Mean, paired_bootstrap, pairs_of
from tests.parsers.reproduce.lines import line

DRAWS = 500


def pairs(first: float, second: float, seeds, treebank="en_gum", sentences=200) -> list[tuple[Line, Line]]:
    systems = (("ntp", first), ("gap", second))
    rows = [[line(name, {}, treebank, seed, share, sentences) for seed in seeds] for name, share in systems]
    return pairs_of(*rows)


def test_a_clear_difference_has_a_small_p():
    found = paired_bootstrap({name: pairs(0.7, 0.8, (1, 2, 3), name) for name in ("en_gum", "ja_gsd")})
    assert found.p < 0.001 and found.runs == 6
    assert found.value == pytest.approx(10, abs=2)
    assert found.value == pytest.approx(sum(found.by_treebank.values()) / 2)


def test_the_sign_does_not_matter_to_p():
    up, down = (paired_bootstrap({"en_gum": pairs(*shares, (1, 2))}) for shares in ((0.75, 0.76), (0.76, 0.75)))
    assert np.sign(up.value) == -np.sign(down.value)


def test_the_same_runs_do_not_differ():
    same = [(one, one) for one, _ in pairs(0.7, 0.8, (1, 2))]
    found = paired_bootstrap({"en_gum": same}, DRAWS)
    assert (found.value, found.p) == (0, 1)


@pytest.mark.parametrize("seeds", [1, 3])
def test_without_a_difference_p_is_no_smaller_than_chance(seeds):
    """With one seed it is uniform; with several, sentences and seeds both count, and it is somewhat larger."""
    runs = (pairs(0.75, 0.75, range(seeds * i, seeds * (i + 1)), sentences=60) for i in range(300))
    found = np.array([paired_bootstrap({"en_gum": run}, DRAWS).p for run in runs])
    for level in (0.05, 0.2, 0.5):
        # 300 repetitions: three standard deviations of a share
        slack = 3 * (level * (1 - level) / len(found)) ** 0.5
        assert (found <= level).mean() <= level + slack
        assert seeds > 1 or (found <= level).mean() >= level - slack


def test_other_sentences_are_refused():
    first, second = line(sentences=50), line("gap", sentences=51)
    with pytest.raises(ValueError, match="the treebank has changed"):
        paired_bootstrap({"en_gum": [(first, second)]})


def test_means_have_a_deviation_if_there_are_several():
    assert str(Mean((78.04,))) == "78.0" and str(Mean((78.0, 79.0))) == "78.5 ± 0.7"
