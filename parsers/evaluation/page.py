"""Parsed sentences as one HTML page that loads nothing else: `page.html` with a line of JSON for each sentence.

The page draws only what is on the screen, so thousands of sentences are fine.
"""

import base64
import hashlib
import html
import json
import math
import re
from pathlib import Path

from parsers.evaluation.parse import Parse
from parsers.io.files import Write

TEMPLATE = Path(__file__).with_name("page.html")
MAX_HEADS = 6  # shown of the distribution behind an arc
# Written as \uXXXX: what could end the script element or a line, or can't be encoded.
_UNSAFE = re.compile("[<>&\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


class Page:
    """The sink that writes the page piece by piece: memory does not grow with the number of sentences."""

    def __init__(self, write: Write, title: str):
        template = TEMPLATE.read_text("utf-8")
        # The policy allows the page's own script by its hash and nothing else: no network, no script from the data.
        script = template[template.rindex("<script>") + len("<script>") : template.rindex("</script>")]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        before, self.after = template.split("{{sentences}}")
        title = html.escape(title.encode("utf-8", "replace").decode())
        write(before.replace("{{hash}}", digest).replace("{{title}}", title))
        self.write, self.file = write, None

    def add(self, parse: Parse) -> None:
        record = sentence_record(parse)
        if parse.sentence.file != self.file:
            self.file = record["file"] = parse.sentence.file  # holds for those that follow, too
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        self.write(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")

    def skip(self, parse: Parse) -> None:
        """There is no tree to be shown."""

    def finish(self, figures: dict) -> None:
        self.write(self.after)


def sentence_record(parse: Parse) -> dict:
    """What the page knows of a sentence. Keys are short, since there are thousands; probabilities are in 1/10,000."""
    labels = {}
    if parse.labels is not None:
        # As for heads, true: all labels are known and right.
        gold = True if parse.gold_labels == parse.labels and "_" not in parse.labels else parse.gold_labels
        labels = {"l": parse.labels, "gl": gold, "q": [_units(share) for share in parse.label_probabilities]}
    return {
        "line": parse.sentence.line,
        "w": parse.sentence.forms,
        "t": parse.sentence.upos,
        "h": parse.heads,
        # true: all heads are known and right
        "g": True if parse.gold == parse.heads and min(parse.gold, default=0) >= 0 else parse.gold,
        "p": [_units(probability) for probability in parse.probabilities],
        "k": [_distribution(heads) for heads in parse.top_heads],
        "log": _finite(parse.log_prob, 3),
        "ent": _finite(parse.entropy, 3),
        **labels,
    }


def _distribution(heads: list[tuple[int, float]]) -> list[int]:
    """head, probability, head, probability, …; probabilities that round to 0 are left out."""
    pairs = [(head, _units(probability)) for head, probability in heads[:MAX_HEADS]]
    return [number for pair in pairs if pair[1] for number in pair]


def _units(probability: float) -> int:
    return round(10_000 * min(max(probability, 0.0), 1.0)) if math.isfinite(probability) else 0


def _finite(value: float, digits: int) -> float | None:
    """JSON has no infinities."""
    return round(value, digits) if math.isfinite(value) else None
