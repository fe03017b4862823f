"""Grids: order, options as in config.json, and mistakes that are found before anything runs."""

from pathlib import Path

import pytest

from parsers.io.errors import DataError
from parsers.reproduce.grid import read_grid

GRID = """
[rows."NTP (L)"]
system = "ntp"
options = {word-size = 50, distance = true}
[rows."GAP (L)"]
system = "gap"
text = false
[rows.UDPipe]
system = "udpipe"
options = {tags = "gold"}
[[steps]]
rows = ["NTP (L)", "GAP (L)", "UDPipe"]
treebanks = ["en_gum", "ja_gsd"]
seeds = [1, 2]
shares = [0.1]
"""


def grid(tmp_path, text):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    return read_grid(path)


def test_plans_have_the_options_of_config_json_that_differ_from_the_defaults(tmp_path):
    plans = {plan.row: plan for plan in grid(tmp_path, GRID).plans}
    assert plans["NTP (L)"].options == {"labeled": 0.1, "word_size": 50, "distance": True}
    assert plans["GAP (L)"].options == {"labeled": 0.1, "use_unlabeled": False}
    assert plans["UDPipe"].options == {"labeled": 0.1, "tags": "gold"}


def test_a_default_that_is_spelt_out_is_the_same_run(tmp_path):
    spelt = GRID.replace("word-size = 50, distance = true", "word-size = 100")
    plain = GRID.replace("word-size = 50, distance = true", "")
    assert grid(tmp_path, spelt).plans[0].key == grid(tmp_path, plain).plans[0].key


def test_a_tagger_is_trained_only_where_the_row_wants_it_and_the_line_is_the_same(tmp_path):
    without = grid(tmp_path, GRID).plans[0]
    with_tagger = grid(tmp_path, GRID.replace('system = "ntp"', 'system = "ntp"\ntagger = true')).plans[0]
    assert "--no-tagger" in without.arguments and "--no-tagger" not in with_tagger.arguments
    assert without.key == with_tagger.key


def test_order_is_seeds_treebanks_rows_and_each_run_comes_once(tmp_path):
    again = GRID[GRID.index("[[steps]]") :].replace('"NTP (L)", ', "").replace('"UDPipe"', '"UDPipe", "NTP (L)"')
    plans = grid(tmp_path, GRID + again).plans
    found = [(plan.seed, plan.treebank, plan.row) for plan in plans]
    rows = ("NTP (L)", "GAP (L)", "UDPipe")
    assert found == [(seed, name, row) for seed in (1, 2) for name in ("en_gum", "ja_gsd") for row in rows]


def test_a_run_with_test_makes_one_without_it_needless(tmp_path):
    step = GRID[GRID.index("[[steps]]") :]
    plans = grid(tmp_path, GRID.replace(step, step + "dev-only = true\n" + step)).plans
    assert len(plans) == 12 and not any(plan.dev_only for plan in plans)


def test_skipped_steps_are_in_the_tables_only(tmp_path):
    found = grid(tmp_path, GRID + 'skip = "no time"\n')
    assert not found.plans and {plan.skip for plan in found.steps[0].plans} == {"no time"}


MISTAKES = {
    "word-size = 50": ("word-sise = 50", "row 'NTP (L)': unrecognized arguments: --word-sise=50"),
    "distance = true": ("layers = 0", "row 'NTP (L)': argument --layers: '0' is not an integer from 1 to 16"),
    "distance = true}": ("seed = 3}", "row 'NTP (L)': --seed is not an option of a row"),
    'system = "gap"': ('system = "gab"', "row 'GAP (L)': `system` is not one of lap, gap"),
    '"GAP (L)", ': ('"GAB (L)", ', "step 1: there is no row 'GAB (L)'"),
    "word-size = 50, ": ("no-tagger = true, ", "row 'NTP (L)': --no-tagger is not an option of a row"),
    "seeds = [1, 2]": ("seeds = []", "step 1: `seeds` must be a list of int"),
    "shares = [0.1]": ("shares = [2.0]", "row 'NTP (L)': argument --labeled: '2.0' is not a number above 0 to 1"),
    "treebanks = ": ("treebank = ", "step 1 has `treebank`, which is none of"),
    "text = false": ("text = ", "this is not TOML"),
}


@pytest.mark.parametrize("old", MISTAKES)
def test_mistakes_are_named(tmp_path, old):
    new, message = MISTAKES[old]
    with pytest.raises(DataError) as error:
        grid(tmp_path, GRID.replace(old, new, 1))
    assert message in str(error.value)


def test_the_committed_grid_is_valid():
    plans = read_grid(Path("results/grid.toml")).plans
    assert {plan.treebank for plan in plans} >= {
        "en_gum",
        "fr_sequoia",
        "it_partut",
        "ru_taiga",
        "ja_gsd",
        "wsj_sample",
    }
