import json
import re
import time
import tracemalloc
from html.parser import HTMLParser

import pytest

from parsers.evaluation.page import Page, sentence_record
from tests.parsers.evaluation.browser import CHROMIUM, MISSING, Browser
from tests.parsers.evaluation.made_up import made_up_parses, parse_of, treebank_parses

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<!--<script>",
    "]]>",
    "\"'`${alert(3)}\\",
    "&lt;b&gt;&amp;",
    "javascript:alert(4)",
    "\u2028\u2029\x00\x1b\r\n",
    "\u202eevil",
    "\ud800",
    "__proto__",
    "{{sentences}}",
]


def page_of(parses, title="made up") -> str:
    pieces = []
    write_page(parses, pieces.append, title)
    return "".join(pieces)


def write_page(parses, write, title) -> None:
    page = Page(write, title)
    for parse in parses:
        page.add(parse)
    page.finish({})


def example():
    forms, heads, gold = (
        ["the", "old", "man", "saw", "stars", "with", "glasses"],
        [3, 3, 4, 0, 4, 7, 5],
        [3, 3, 4, 0, 4, 7, 4],
    )
    shares = [0.99, 0.99, 0.98, 1.0, 0.97, 0.96, 0.55]
    top = [[(head, share)] for head, share in zip(heads, shares, strict=True)]
    top[-1] = [(5, 0.55), (4, 0.4), (0, 0.05), (1, 1e-9)]
    return parse_of(forms, heads, gold, shares, top, ["DET", "ADJ", "NOUN", "VERB", "NOUN", "ADP", "NOUN"])


def labelled_example():
    """The word with a wrong head is glasses, the one with a wrong label stars."""
    parse = example()
    parse.labels = ["det", "amod", "nsubj", "root", "obl", "case", "nmod"]
    parse.gold_labels = ["det", "amod", "nsubj", "root", "obj", "case", "obl"]
    parse.label_probabilities = [0.99, 0.99, 0.98, 1.0, 0.61, 0.96, 0.8]
    return parse


class Structure(HTMLParser):
    """Each element is closed where it should be; scripts and data are collected."""

    def __init__(self):
        super().__init__()
        self.open, self.scripts, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")
        assert not any(name.startswith("on") or name in ("src", "srcset") for name, _ in attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def test_well_formed_whatever_is_in_it():
    labels = {"labels": HOSTILE, "gold_labels": HOSTILE[::-1]}
    hostile = parse_of(HOSTILE, [0, *[1] * 11], file="</script>.conllu", upos=["<b>"] * 12, **labels)
    page = page_of([example(), hostile], title="<b>&\ud800</title>")
    page.encode()
    structure = Structure()
    structure.feed(page)
    structure.close()
    assert not structure.open and "b" not in structure.tags and "img" not in structure.tags
    assert len(structure.scripts) == 2  # the data, the code
    first, second = map(json.loads, structure.scripts[0].strip().split("\n"))
    assert second["w"] == second["l"] == second["gl"][::-1] == HOSTILE and second["file"] == "</script>.conllu"
    assert not {"l", "gl", "q"} & first.keys()
    assert first["k"][-1] == [5, 5500, 4, 4000, 0, 500]
    assert "\u2028" not in page and "\u2029" not in page
    # nothing is loaded; the address is the name of SVG
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg"}


def test_figures_that_json_does_not_have():
    parse = example()
    parse.log_prob, parse.entropy, parse.probabilities[0] = -float("inf"), float("nan"), float("nan")
    record = sentence_record(parse)
    assert record["log"] is None and record["ent"] is None and record["p"][0] == 0


def test_labels_in_the_record():
    parse = labelled_example()
    record = sentence_record(parse)
    assert record["l"] == parse.labels and record["gl"] == parse.gold_labels and record["q"][4] == 6100
    parse.gold_labels = parse.labels.copy()
    assert sentence_record(parse)["gl"] is True
    parse.labels = parse.gold_labels = ["_"] * 7
    assert sentence_record(parse)["gl"] == ["_"] * 7
    parse.gold_labels = None
    assert sentence_record(parse)["gl"] is None
    parse.labels = None
    assert not {"l", "gl", "q"} & sentence_record(parse).keys()


def test_memory_does_not_grow_with_the_file():
    """The text of this page is twice the limit, and the sentences are many times as large."""
    length = 0

    def write(text: str) -> None:
        nonlocal length
        length += len(text)

    tracemalloc.start()
    write_page(made_up_parses(1500), write, "made up")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 600_000 < length / 2


def test_weight():
    """5,000 sentences of 15 words on average: a few megabytes."""
    assert len(page_of(made_up_parses(500)).encode()) < 500 * 1000 + 60_000


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.prefer("light")
        yield browser


@pytest.fixture
def show(browser, tmp_path):
    """Opens a page with the sentences; afterwards there must be no error in it, and nothing loaded but the page."""
    page = tmp_path / "page.html"

    def show(parses):
        page.write_text(page_of(parses), "utf-8")
        browser.open(page)
        return browser

    yield show
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.as_uri()]


def texts(browser, selector: str) -> list[str]:
    return browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(found => found.textContent)")


def count(browser) -> str:
    return browser.run("document.getElementById('count').textContent")


def test_the_tree(show):
    browser = show([example()])
    assert texts(browser, ".form") == example().sentence.forms
    assert texts(browser, ".wrong .form") == ["glasses"] and texts(browser, ".wrong .share") == ["✕ 55 %"]
    assert browser.run("document.querySelectorAll('.arc:not(.gold)').length") == 7
    assert browser.run("document.querySelectorAll('.arc.gold').length") == 1
    assert "85.71 % of heads right" in texts(browser, "#figures")[0]
    assert "1 wrong" in texts(browser, "article h2")[0]
    # arcs arrive above their words
    gaps = browser.run(
        "[...document.querySelectorAll('.word')].map(word => { const box = name => "
        "word.querySelector(name).getBoundingClientRect(); const form = box('.form'), tip = box('.tip'); "
        "return Math.abs(form.x + form.width / 2 - tip.x - tip.width / 2) + Math.max(0, tip.bottom - form.top - 4); })"
    )
    assert max(gaps) < 1


def shown(browser, selector: str) -> bool:
    return browser.run(f"document.querySelector({json.dumps(selector)}).checkVisibility()")


def test_labels_on_the_arcs(show):
    browser = show([labelled_example()])
    arcs = ["det", "amod", "nsubj", "obl ≠ obj", "case", "nmod ✕ 55 %"]
    assert texts(browser, ".relation:not(.gold)") == arcs and texts(browser, ".relation.gold") == ["obl"]
    assert texts(browser, ".root") == ["root"] and texts(browser, "tspan.gold") == ["obj"]
    # a wrong label and a wrong head have colours of their own
    assert texts(browser, ".mislabelled .form") == ["stars"] and texts(browser, ".wrong .form") == ["glasses"]
    colours = [
        browser.run(f"getComputedStyle(document.querySelector('{found}')).fill")
        for found in (".relation", ".mislabelled .relation", ".wrong .relation", "tspan.gold")
    ]
    assert len(set(colours)) == 4
    assert texts(browser, "article h2 .bad") == ["1 wrong head"]
    assert texts(browser, "article h2 .bad-label") == ["1 wrong label"]
    assert "1 wrong heads · 1 wrong labels on right arcs" in texts(browser, "#figures")[0]
    assert shown(browser, ".legend .labelled")


def test_labels_in_the_tip_and_by_keyboard(show):
    browser = show([labelled_example(), labelled_example()])
    descriptions = []
    for word, tip in (
        ("5", "Label obl 61 % · gold obj"),
        ("7", "Label nmod 80 % · gold obl"),
        ("5", "Label obl 61 % · gold obj"),
    ):
        browser.press("e")
        assert browser.run("document.activeElement.dataset.word") == word
        assert texts(browser, "#tip ol + p") == [tip]
        descriptions.append(browser.run("document.activeElement.getAttribute('aria-label')"))
    assert descriptions[0] == "stars: head saw, 97 %; label obl, 61 %, wrong, gold label obj"
    assert "gold head saw; label nmod, 80 %, wrong, gold label obl. Other heads" in descriptions[1]
    browser.press("E")
    assert browser.run("document.activeElement.dataset.word") == "7"
    browser.press("h")
    assert texts(browser, "#tip ol + p") == ["Label case 96 %"]


def test_labels_do_not_overlap(show):
    """Each is between the ends of its arc, and none covers another or a word."""
    browser = show(made_up_parses(20, longest=30, labels=True))
    browser.resize(1280, 8000)
    try:
        browser.settle()
        boxes = browser.run(
            "[...document.querySelectorAll('.relation:not(.gold), .form')].map(text => { "
            "const { left, right, top, bottom } = text.getBoundingClientRect(); return [left, right, top, bottom]; })"
        )
        for i, (left, right, top, bottom) in enumerate(boxes):
            for left2, right2, top2, bottom2 in boxes[:i]:
                across, down = min(right, right2) - max(left, left2), min(bottom, bottom2) - max(top, top2)
                assert across <= 1 or down <= 4
        arcs = browser.run(
            "[...document.querySelectorAll('.word')].filter(word => word.querySelector('.relation')).map(word => "
            "['.relation', '.arc'].flatMap(name => (box => [box.left, box.right])"
            "(word.querySelector(name).getBoundingClientRect())))"
        )
        assert len(arcs) > 200 and all(start < left < right < end for left, right, start, end in arcs)
    finally:
        browser.resize(1280, 900)


def test_filter_by_label_and_by_kind_of_error(show):
    parses = list(treebank_parses(60))
    browser = show(parses)

    def words(parse, label=None):
        return [i for i in range(len(parse.heads)) if label in (None, parse.labels[i], parse.gold_labels[i])]

    def choose(label, kind):
        browser.run(f"label.value = {json.dumps(label)}; label.dispatchEvent(new Event('input', {{ bubbles: true }}))")
        browser.point(f"document.querySelector('[value={kind}] + span')", click=True)
        return int(count(browser).split()[0])

    for label in ("", "obl", "nsubj:pass"):
        chosen = [(parse, words(parse, label or None)) for parse in parses]
        heads = [any(parse.wrong_heads()[i] for i in found) for parse, found in chosen]
        labels = [any(parse.wrong_labels()[i] for i in found) for parse, found in chosen]
        assert 0 < sum(heads) < 60 and 0 < sum(labels) < 60
        assert choose(label, "all") == sum(bool(found) for _, found in chosen)
        assert choose(label, "head") == sum(heads) and choose(label, "label") == sum(labels)
        assert choose(label, "wrong") == sum(map(max, zip(heads, labels, strict=True)))
    every = {label for parse in parses for label in (*parse.labels, *parse.gold_labels)}
    assert {text.split(" (")[0] for text in texts(browser, "#label option")} == {"any", *every} - {"_"}


@pytest.mark.parametrize("width", [1200, 500, 390])
def test_labelled_pages_are_not_wider_than_the_screen(show, width):
    browser = show(made_up_parses(10, labels=True))
    browser.resize(width, 900)
    try:
        browser.settle()
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.resize(1280, 900)


def test_labels_without_gold(show):
    parse = labelled_example()
    parse.gold = parse.gold_labels = None
    browser = show([parse])
    assert texts(browser, ".relation") == ["det", "amod", "nsubj", "obl", "case", "nmod 55 %"]
    assert not shown(browser, ".legend .labelled") and shown(browser, "#by-label")
    assert "wrong" not in texts(browser, "article")[0] and "wrong" not in texts(browser, "#figures")[0]


def test_without_labels(show):
    """As without them: nothing speaks of labels."""
    browser = show([example()])
    assert not texts(browser, ".relation") and not shown(browser, ".legend .labelled")
    assert not shown(browser, "#by-label") and not shown(browser, "[value=label] + span")
    assert texts(browser, "article h2 .bad") == ["1 wrong"]
    browser.press("e")
    assert texts(browser, "#tip ol + p") == []


def test_the_distribution_by_mouse_and_by_keyboard(show):
    browser = show([example()])
    assert browser.run("document.getElementById('tip').hidden")
    browser.point("document.querySelector('.wrong .form')")
    rows = ["5 starspredicted55 %", "4 sawgold40 %", "root5.0 %"]
    assert texts(browser, "#tip li") == rows
    assert not browser.run("document.getElementById('tip').hidden")
    assert browser.run("document.querySelectorAll('.ghost').length") == 2  # the other heads
    browser.point("document.querySelector('h1')")
    assert browser.run("document.getElementById('tip').hidden")
    browser.press("e")
    assert texts(browser, "#tip li") == rows
    label = browser.run("document.activeElement.getAttribute('aria-label')")
    assert label == "glasses: head stars, 55 %, wrong, gold head saw. Other heads: saw 40 %, root 5.0 %"
    browser.press("h")
    assert browser.run("document.activeElement.dataset.word") == "6"
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.dataset.word") == "7"
    browser.press("Escape")
    assert browser.run("document.getElementById('tip').hidden")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_distribution_hides_no_arc(show, width):
    """It is on the screen, as a whole, and by keyboard always below the tree."""
    browser = show([example(), labelled_example()])
    browser.resize(width, 900)
    try:
        for presses in (1, 2):  # in the second sentence, the wrong label comes before the wrong head
            for _ in range(presses):
                browser.press("e")
            tip, gold = (
                browser.run(f"(box => [box.left, box.top, box.right, box.bottom])({found}.getBoundingClientRect())")
                for found in ("document.getElementById('tip')", "document.activeElement.querySelector('.arc.gold')")
            )
            left, top, right, bottom = tip
            assert 0 <= left < right <= browser.run("document.documentElement.clientWidth") and bottom <= 900
            assert top >= gold[3]
    finally:
        browser.resize(1280, 900)


def test_hostile_text_is_only_text(show):
    labels = {"labels": HOSTILE, "gold_labels": HOSTILE[::-1]}
    tags = ["<img src=x onerror=alert(5)>"] * 12
    hostile = parse_of(HOSTILE, [0, *[1] * 11], [0, 1, *[2] * 10], upos=tags, **labels)
    browser = show([hostile])
    assert browser.run("document.querySelectorAll('img, script').length") == 1  # the page's own
    for _ in HOSTILE:
        browser.press("l")
        assert not browser.run("document.getElementById('tip').hidden")
    shown = texts(browser, ".form")
    assert shown[1].startswith("<img src=x onerror=alert(") and shown[3] == "]]>" and shown[-1] == "{{sentences}}"
    # and should it ever get in, the policy of the page stops it; the browser says so, which is no error here
    browser.run("document.body.insertAdjacentHTML('beforeend', '<i id=in></i><img src=x onerror=\"window.hit = 1\">')")
    browser.wait("document.getElementById('in') !== null")
    browser.settle()
    assert browser.run("window.hit === undefined")
    assert browser.errors and all("Content Security Policy" in error for error in browser.errors)
    browser.errors.clear()
    browser.requests[:] = [url for url in browser.requests if url.endswith("page.html")]


def test_filters_counts_and_the_empty_state(show):
    parses = list(made_up_parses(80, longest=20))
    errors = [sum(map(int.__ne__, parse.heads, parse.gold)) for parse in parses]
    browser = show(parses)
    assert count(browser) == "80 of 80 sentences"

    browser.point("document.querySelector('[value=wrong] + span')", click=True)
    assert count(browser) == f"{sum(map(bool, errors))} of 80 sentences"
    assert all(" wrong" in title for title in texts(browser, "article h2"))
    browser.point("document.querySelector('[value=right] + span')", click=True)
    assert count(browser) == f"{80 - sum(map(bool, errors))} of 80 sentences"
    browser.point("document.querySelector('[value=all] + span')", click=True)

    browser.point("document.getElementById('shortest')", click=True)
    browser.type("15")
    long = [parse for parse in parses if len(parse.heads) >= 15]
    assert count(browser) == f"{len(long)} of 80 sentences"
    browser.run("certain.value = 75; certain.dispatchEvent(new Event('input', { bubbles: true }))")
    unsure = [parse for parse in long if min(parse.probabilities) <= 0.75]
    assert 0 < len(unsure) < len(long) and count(browser) == f"{len(unsure)} of 80 sentences"
    assert texts(browser, "#certain-shown") == ["75 %"]

    browser.point("document.getElementById('search')", click=True)
    browser.type("no such word")
    assert count(browser) == "0 of 80 sentences"
    assert not browser.run("document.getElementById('empty').hidden") and not texts(browser, "article")
    browser.point("document.getElementById('reset')", click=True)
    assert count(browser) == "80 of 80 sentences" and browser.run("document.getElementById('empty').hidden")

    browser.run("order.value = 'errors'; order.dispatchEvent(new Event('input', { bubbles: true }))")
    assert f"{max(errors)} wrong" in texts(browser, "article h2")[0]


@pytest.mark.parametrize("typed", ["istanbul", "İstanbul", "ISTANBUL", "I\u0307stanbul", "café", "CAFE\u0301"])
def test_search_compares_words_in_their_normal_form(show, typed):
    browser = show([parse_of([form], [0]) for form in ("İstanbul", "Café", "Ankara")])
    browser.point("document.getElementById('search')", click=True)
    browser.type(typed)
    assert count(browser) == "1 of 3 sentences"


def test_keys(show):
    browser = show(made_up_parses(30))
    position = "document.activeElement.dataset.position"
    browser.press("j")
    assert browser.run(position) == "0"
    for key, expected in [("j", "1"), ("ArrowDown", "2"), ("k", "1"), ("ArrowUp", "0"), ("k", "0"), ("End", "29")]:
        browser.press(key)
        assert browser.run(position) == expected, key
        inside = "(box => box.top >= 0 && box.top < innerHeight)(document.activeElement.getBoundingClientRect())"
        assert browser.run(inside), key
        assert browser.run("document.activeElement.matches('.current:focus-visible')")
    browser.press("?")
    assert browser.run("document.getElementById('keys').open")
    browser.press("j")
    browser.press("Escape")
    assert not browser.run("document.getElementById('keys').open")
    browser.press("/")
    assert browser.run("document.activeElement.id") == "search"
    browser.type("j?")  # typed, not obeyed
    assert browser.run("search.value") == "j?"


def test_light_and_dark(show):
    browser = show([example()])
    background = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(background)
    browser.prefer("dark")
    dark = browser.run(background)
    assert light != dark
    browser.point("document.getElementById('theme')", click=True)  # the other than the system's
    assert browser.run(background) == light
    browser.press("t")
    assert browser.run(background) == dark
    browser.prefer("light")
    assert browser.run(background) == dark
    browser.run("localStorage.clear()")


def test_without_gold_heads(show):
    browser = show([parse_of(["bo", "na", "ki"], [2, 0, 2])])
    assert browser.run("document.getElementById('errors').hidden")
    assert "right" not in texts(browser, "#figures")[0] and "wrong" not in texts(browser, "article")[0]


def test_no_sentences(show):
    assert count(show([])) == "0 of 0 sentences"


def test_right_to_left_scripts_are_mirrored(show):
    browser = show([parse_of(["\u05d0\u05d1", "\u05d2\u05d3", "\u05d4\u05d5"], [2, 0, 2])])
    places = browser.run("[...document.querySelectorAll('.form')].map(form => form.getBoundingClientRect().x)")
    assert places == sorted(places, reverse=True)


def test_long_sentences_scroll_in_their_card(show):
    browser = show([next(parse for parse in made_up_parses(100, longest=90) if len(parse.heads) > 80)])
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("(scroll => scroll.scrollWidth > scroll.clientWidth)(document.querySelector('.scroll'))")
    for _ in range(40):
        browser.press("l")
    assert browser.run(
        "(box => box.left > 0 && box.right < innerWidth)"
        "(document.activeElement.querySelector('.form').getBoundingClientRect())"
    )


def test_five_thousand_sentences(show):
    began = time.monotonic()
    browser = show(made_up_parses(5000))
    assert count(browser) == "5,000 of 5,000 sentences"
    assert time.monotonic() - began < 60
    assert browser.run("document.querySelectorAll('*').length") < 4000  # what is on the screen, and a little more
    browser.press("j")
    browser.press("End")
    assert browser.run("document.activeElement.querySelector('b').textContent") == "5,000"
    browser.press("Home")
    assert browser.run("document.activeElement.querySelector('b').textContent") == "1"
    browser.run("scrollTo(0, document.documentElement.scrollHeight / 2)")
    browser.settle()
    browser.settle()
    assert browser.run(
        "[...document.querySelectorAll('article')].some(card => { const box = card.getBoundingClientRect(); "
        "return box.top < innerHeight / 2 && box.bottom > 200; })"
    )
    assert browser.run("document.querySelectorAll('article').length") < 30
    spent = browser.run(
        "(() => { const began = performance.now(); search.value = 'bo'; "
        "search.dispatchEvent(new Event('input', { bubbles: true })); return performance.now() - began; })()"
    )
    assert spent < 3000
