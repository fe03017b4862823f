"""The picture of a tree: the same drawing as in the page, and harmless whatever the words are."""

import json
import random
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from parsers.evaluation.page import Page
from parsers.evaluation.svg import FORM_SIZE, RELATION_SIZE, char_width, tree_svg
from tests.parsers.evaluation.browser import CHROMIUM, MISSING, Browser
from tests.parsers.evaluation.made_up import made_up_parses, parse_of, projective_tree
from tests.parsers.evaluation.test_page import HOSTILE

CLASSES = ("arc", "behind", "relation", "share", "root", "tip", "form", "tag", "track", "level")
KEYS = ("d", "x", "y", "width", "height")
# All that is drawn, without what only a pointer needs, as [class, text, attributes…].
DRAWING = f"""
[...document.querySelectorAll("article")].map(card => [
  ["svg", "", "", "", "", card.querySelector("svg").getAttribute("width"), card.querySelector("svg").getAttribute("height")],
  ...[...card.querySelectorAll({json.dumps(", ".join(f"svg .{name}" for name in CLASSES))})].map(element =>
    [element.getAttribute("class"), element.textContent, ...{json.dumps(KEYS)}.map(key => element.getAttribute(key) ?? "")])])
"""  # noqa: E501


def unscored(parses):
    return [replace(parse, gold=None, gold_labels=None) for parse in parses]


def drawing(svg: str) -> list[list[str]]:
    root = ElementTree.fromstring(svg)
    assert all(re.fullmatch(r"\{http://www.w3.org/2000/svg\}(svg|rect|path|text)", node.tag) for node in root.iter())
    found = [["svg", "", "", "", "", root.get("width"), root.get("height")]]
    for node in root.iter():
        if "class" in node.attrib:
            found.append([node.get("class"), node.text or "", *(node.get(key, "") for key in KEYS)])
    return found


def same(one: str, other: str) -> bool:
    """Texts whose numbers differ by no more than rounding to two digits."""
    numbers = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
    if re.sub(numbers, "#", one) != re.sub(numbers, "#", other):
        return False
    pairs = zip(re.findall(numbers, one), re.findall(numbers, other), strict=True)
    return all(abs(float(a) - float(b)) < 0.011 for a, b in pairs)


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_the_page_draws_the_same(tmp_path):
    """With the same widths of characters, which are estimated here and measured there."""
    rng = random.Random(3)
    long = [projective_tree(words, rng) for words in (1, 60, 90)]
    parses = unscored([*made_up_parses(8, labels=True), *made_up_parses(8, seed=2)])
    parses += [parse_of([f"w{i}" for i in range(len(heads))], heads) for heads in long]
    parses += [
        parse_of(["שלום", "עולם", "x"], [2, 0, 2], labels=["a", "root", "b"], probabilities=[0.3, 0.0003, 0.04]),
        parse_of(["日本語", "a" * 40, "İ", "\u3000"], [2, 0, 2, 3], labels=["_", "_", "nsubj", "c" * 30]),
        parse_of(["one"], [0], labels=["root"]),
        parse_of(["one", "two"], [2, 0], probabilities=[0.2, 0.5]),
    ]
    pieces = []
    page = Page(pieces.append, "made up")
    for parse in parses:
        page.add(parse)
    page.finish({})
    (tmp_path / "page.html").write_text("".join(pieces), encoding="utf-8")
    expected = [drawing(tree_svg(parse)) for parse in parses]
    characters = {char for rows in expected for row in rows for char in row[1]}
    table = json.dumps({char: char_width(char) for char in characters})
    size = f"(font.includes('{FORM_SIZE}px') ? {FORM_SIZE} : {RELATION_SIZE})"
    measure = f"[...text].reduce((sum, char) => sum + table[char], 0) * {size}"
    with Browser(tmp_path / "profile", 1600, 20_000) as browser:
        browser.open(tmp_path / "page.html")
        browser.run(f"table = {table}; textWidth = (text, font) => {measure}; layOut()")
        found = browser.run(DRAWING)
    assert len(found) == len(parses) and len({row[0] for rows in expected for row in rows}) == len(CLASSES) + 1
    for one, other in zip(expected, found, strict=True):
        assert [row[:2] for row in one] == [row[:2] for row in other]
        for row, there in zip(one, other, strict=True):
            assert all(map(same, row, there)), (row, there)


def test_it_is_harmless():
    """Words are text, whatever they are: never markup, and never what XML forbids."""
    words = [*HOSTILE, "\x00\x01\ufffe", "a & b"]
    svg = tree_svg(parse_of(words, [0, *range(1, len(words))], upos=words, labels=words))
    svg.encode()
    assert {row[0] for row in drawing(svg)} <= {"svg", *CLASSES}
    assert "<script" not in svg and "<img" not in svg and "<style" not in svg


def test_colours_tell_what_is_unsure():
    sure, unsure = (tree_svg(parse_of(["a", "b"], [2, 0], probabilities=[share, 1.0])) for share in (0.9, 0.89))
    assert " %<" not in sure and "#9a6500" not in sure
    assert ">89 %<" in unsure and "#9a6500" in unsure
