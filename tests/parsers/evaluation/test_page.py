import json
import re
import time
import tracemalloc
from html.parser import HTMLParser

import pytest

from parsers.evaluation.page import Page, sentence_record
from tests.parsers.evaluation.browser import CHROMIUM, MISSING, Browser
from tests.parsers.evaluation.made_up import made_up_parses, parse_of

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
    hostile = parse_of(HOSTILE, [0, *[1] * 11], file="</script>.conllu", upos=["<b>"] * 12)
    page = page_of([example(), hostile], title="<b>&\ud800</title>")
    page.encode()
    structure = Structure()
    structure.feed(page)
    structure.close()
    assert not structure.open and "b" not in structure.tags and "img" not in structure.tags
    assert len(structure.scripts) == 2  # the data, the code
    first, second = map(json.loads, structure.scripts[0].strip().split("\n"))
    assert second["w"] == HOSTILE and second["file"] == "</script>.conllu"
    assert first["k"][-1] == [5, 5500, 4, 4000, 0, 500]
    assert "\u2028" not in page and "\u2029" not in page
    # nothing is loaded; the address is the name of SVG
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg"}


def test_figures_that_json_does_not_have():
    parse = example()
    parse.log_prob, parse.entropy, parse.probabilities[0] = -float("inf"), float("nan"), float("nan")
    record = sentence_record(parse)
    assert record["log"] is None and record["ent"] is None and record["p"][0] == 0


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
    browser = show([example(), example()])
    browser.resize(width, 900)
    try:
        for _ in range(2):
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
    hostile = parse_of(HOSTILE, [0, *[1] * 11], [0, *[2] * 11], upos=["<img src=x onerror=alert(5)>"] * 12)
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
