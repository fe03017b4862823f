"""The search for faults runs, and finds one."""

import pytest

from tests import fuzz
from tritree import reference


def test_it_runs(capsys):
    assert fuzz.main(["--cells=3000", "--first=0"]) == 0
    assert "cells in" in capsys.readouterr().out


def test_it_finds_a_fault_and_says_how_to_repeat_it(capsys, monkeypatch):
    """Marginals of the reference backend that are a thousandth too large in the last column."""
    right = reference.inside_outside

    def wrong(scores, lengths, single_root):
        log_z, mu = right(scores, lengths, single_root)
        return log_z, mu * (1 + 1e-3 * (mu.new_ones(mu.shape).cumsum(-1) == mu.shape[-1]))

    monkeypatch.setattr(reference, "inside_outside", wrong)
    assert fuzz.main(["--cells=1_000_000", "--first=0"]) == 1
    seed = capsys.readouterr().out.split()[-1]
    assert fuzz.main(["--seed", seed]) == 1
    monkeypatch.undo()
    assert fuzz.main(["--seed", seed]) == 0


@pytest.mark.parametrize("seed", [3, 17])
def test_a_case_follows_from_its_seed(seed):
    assert fuzz.run_case(seed) == fuzz.run_case(seed)
