import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from parsers.evaluation.terminal import clean, clip, columns, draw_tree
from tests.parsers.evaluation.made_up import made_up_parses, parse_of

FORMS = ["the", "old", "man", "saw", "stars", "with", "glasses"]
HEADS, GOLD = [3, 3, 4, 0, 4, 7, 5], [3, 3, 4, 0, 4, 7, 4]
SHARES = [0.99, 0.99, 0.98, 1.0, 0.97, 0.96, 0.55]
SGR = re.compile("\x1b\\[[0-9]*m")


LABELS = {
    "labels": ["det", "amod", "nsubj", "root", "obl", "case", "nmod"],
    "gold_labels": ["det", "amod", "nsubj", "root", "obj", "case", "obl"],
}


def test_the_drawing_in_the_documentation():
    import parsers.evaluation.terminal

    drawn = draw_tree(parse_of(FORMS, HEADS, GOLD, SHARES, **LABELS), color=False).splitlines()
    for line in drawn[1:-1]:
        assert f"    {line}\n" in parsers.evaluation.terminal.__doc__
    assert drawn[0] == "made-up.conllu:7"
    assert drawn[-1] == "6 of 7 heads right, 1 wrong label · tree 0.45, entropy 1.23 · ━ wrong  ╌ gold"


def test_without_labels():
    drawn = draw_tree(parse_of(FORMS, HEADS, GOLD, SHARES, gold_labels=LABELS["gold_labels"]), color=False)
    assert drawn.splitlines()[1:] == [
        "            root",
        " ╭──────╮    │    ┏━━━━━━━━━━━┓",
        " │   ╭──┤╭──╮│╭──╮┃    ╭─────╮┃",
        " ▼   ▼  │▼  │▼│  ▼┃    ▼     │▼",
        "the old man saw stars with glasses",
        ".99 .99 .98 1.0  .97  .96    .55",
        "              ╎               ▲",
        "              ╰╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╯",
        "6 of 7 heads right · tree 0.45, entropy 1.23 · ━ wrong  ╌ gold",
    ]


def test_a_wrong_label_is_told_from_a_wrong_head():
    drawn = draw_tree(parse_of(FORMS, HEADS, GOLD, SHARES, **LABELS))
    assert "\x1b[35mobl\x1b[0m" in drawn and "\x1b[32mobj\x1b[0m" in drawn  # magenta, and the gold one green
    assert "\x1b[31mnmod\x1b[0m" in drawn and "\x1b[2mdet\x1b[0m" in drawn
    assert "\x1b[31mstars" not in drawn and SGR.sub("", drawn) == draw_tree(
        parse_of(FORMS, HEADS, GOLD, SHARES, **LABELS), color=False
    )
    branches = draw_tree(parse_of([form * 3 for form in FORMS], HEADS, GOLD, SHARES, **LABELS), 60, False).splitlines()
    assert branches[5] == "5 .97 ≠ ╰──┬╴starsstarsstars  obl  gold: obj"
    assert branches[7] == "7 .55 ✗    ┗━━┴╸glassesglas…  nmod  gold: 4 sawsawsaw, obl"
    assert branches[1] == "1 .99      ╭───╴thethethe  det"
    branches = draw_tree(parse_of([form * 3 for form in FORMS], HEADS, GOLD, SHARES, **LABELS), 80, False)
    assert branches.endswith("entropy 1.23 · ✗ wrong")  # gold arcs are not drawn there
    right = draw_tree(parse_of(FORMS, GOLD, GOLD, SHARES), color=False)
    assert right.endswith("7 of 7 heads right · tree 0.45, entropy 1.23")
    unknown = {**LABELS, "gold_labels": ["_", "_", "_", "_", "_", "_", "obl"]}
    assert "\x1b[35m" not in draw_tree(parse_of(FORMS, HEADS, GOLD, SHARES, **unknown))
    assert "\x1b[35m" not in draw_tree(parse_of(FORMS, HEADS, None, SHARES, labels=LABELS["labels"]))


def test_long_labels_are_cut_where_there_is_no_room():
    forms, heads, labels = ["a"] * 12, [0, *[1] * 11], ["root", *["nsubj:pass"] * 11]
    wide, narrow, lines = (draw_tree(parse_of(forms, heads, labels=labels), width, False) for width in (140, 80, 60))
    assert wide.count("nsubj:pass") == 11
    assert narrow.count("nsub…") == 11 and "▼" in narrow
    assert lines.count("nsubj:pass") == 11 and "▼" not in lines


def test_colours():
    drawn = draw_tree(parse_of(FORMS, HEADS, GOLD, SHARES))
    assert "\x1b[31mglasses\x1b[0m" in drawn and "\x1b[31m.55\x1b[0m" in drawn  # wrong: red
    assert "\x1b[32m╰╌" in drawn  # gold: green
    assert SGR.sub("", drawn) == draw_tree(parse_of(FORMS, HEADS, GOLD, SHARES), color=False)
    unsure = draw_tree(parse_of(FORMS, HEADS, None, [*SHARES[:-1], 0.4]))
    assert "\x1b[33m.40\x1b[0m" in unsure and "\x1b[31m" not in unsure and "right" not in unsure


def test_words_with_unknown_gold_heads_are_not_wrong():
    partly = parse_of(FORMS, HEADS, [3, -1, -1, -1, -1, -1, -1])
    assert "1 of 1 heads right" in draw_tree(partly) and "\x1b[31m" not in draw_tree(partly)


WIDE = [
    "小さな",
    "猫",
    "👍🏽",
    "👨‍👩‍👧",
    "❤️",
    "cafe\u0301",
    "각",
    "\u1112\u1161\u11ab",
    "שלום",
    "می‌خواهم",
    "\u0301",
    "ＡＢ",
]


def column_of(line: str, found: int) -> int:
    return cell_len(line[:found].replace("\u200e", ""))


@pytest.mark.parametrize("form", WIDE)
def test_arrows_point_at_wide_words(form):
    """rich has tables of its own: they agree on where the next words start."""
    drawn = draw_tree(parse_of([form, form, "mid", form, "end"], [3, 3, 0, 5, 3]), color=False).splitlines()
    words = next(line for line in drawn if "mid" in line)
    arrows = next(line for line in drawn if "▼" in line)
    at = [match.start() for match in re.finditer("▼", arrows)]
    start = column_of(words, words.index("mid"))
    assert start <= at[2] < start + 3
    start = column_of(words, words.index("end"))
    assert start <= at[4] < start + 3
    assert cell_len(words.replace("\u200e", "")) == start + 3


@pytest.mark.parametrize("form", WIDE)
def test_columns_agree_with_rich(form):
    assert columns(clean(form)) == cell_len(clean(form))


def test_control_characters_are_harmless():
    forms = ["\x1b[31mred", "\x00", "\x9b2J", "a\nb\rc", "\u202eevil", "\x7f", "\u2028", "\ud800", "a\tb"]
    for width in (80, 20):
        labels = {"labels": forms, "gold_labels": forms[::-1]}
        parse = parse_of(forms, [0, *[1] * 8], [0, *[1] * 7, 2], file="\x1b]0;title\x07.conllu", **labels)
        drawn = draw_tree(parse, width, color=False)
        assert all(char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in drawn)
        drawn.encode()
    assert clean("\x1b[31mred") == "␛[31mred"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_nothing_is_wider_than_asked_for(width):
    for parse in [*made_up_parses(60, width, longest=60), *made_up_parses(60, width, longest=60, labels=True)]:
        for color in (False, True):
            drawn = SGR.sub("", draw_tree(parse, width, color))
            assert max(map(cell_len, drawn.splitlines())) <= width
            # each word is there, as far as it was not cut
            for form in parse.sentence.forms:
                assert form[:3] in drawn


def test_long_sentences_have_one_word_per_line():
    count = 30
    forms = [f"longword{word}" for word in range(1, count + 1)]
    heads = [0, *[1] * (count - 1)]
    drawn = draw_tree(parse_of(forms, heads, [*heads[:-1], 2]), color=False).splitlines()
    assert len(drawn) == count + 2
    assert drawn[1] == " 1 .97   ╭╴longword1"
    assert drawn[2] == " 2 .97   ├───╴longword2"
    assert drawn[count] == "30 .97 ✗ ┗━━━╸longword30  gold: 2 longword2"


def test_trees_too_deep_for_branches_name_the_heads():
    drawn = draw_tree(parse_of(["word"] * 90, list(range(90))), color=False).splitlines()
    assert drawn[1].split() == ["1", ".97", "word", "←", "root"]
    assert drawn[90].split() == ["90", ".97", "word", "←", "89", "word"]


def test_a_very_long_word_is_cut():
    drawn = draw_tree(parse_of(["a", "猫" * 100], [2, 0]), color=False)
    assert "猫…" in drawn and max(map(cell_len, drawn.splitlines())) <= 80
    assert clip("猫猫猫", 4) == "猫…" and clip("猫猫", 4) == "猫猫"


def test_projective_trees_have_no_crossings():
    """Where lines cross or meet, an arc joins others of its head: never on four sides."""
    for parse in made_up_parses(200, longest=12):
        parse.gold = None
        assert "┼" not in draw_tree(parse, 200, color=False)


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=12), st.randoms(), st.integers(40, 100))
def test_any_text(forms, rng, width):
    heads = [rng.randrange(word) for word in range(1, len(forms) + 1)]  # crossing arcs, several roots
    gold = [rng.randrange(-1, word) for word in range(1, len(forms) + 1)]
    labels = {"labels": rng.sample(forms, len(forms)), "gold_labels": forms} if rng.random() < 0.5 else {}
    drawn = draw_tree(parse_of(forms, heads, gold, **labels), width, color=False)
    assert all(sum(map(columns, line)) <= width for line in drawn.split("\n"))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", drawn)
