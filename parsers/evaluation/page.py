"""Parsed sentences as one HTML page that needs nothing else: `page.html` with a line of JSON for each.

The page draws what is on the screen only, so thousands of sentences are fine, and they are written as they come.
"""

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from parsers.evaluation.parse import Parse

TEMPLATE = Path(__file__).with_name("page.html")
MAX_HEADS = 6  # shown of the distribution behind an arc
# What could end the script element or a line, or can't be encoded; JSON has another way to write each of them.
_UNSAFE = re.compile("[<>&\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


def write_page(parses: Iterable[Parse], write: Callable[[str], None], title: str) -> None:
    """Writes the page piece by piece; memory does not grow with the number of sentences."""
    template = TEMPLATE.read_text("utf-8")
    # The policy lets the page's own script run and nothing else: no network, no script that came with the data.
    script = template[template.rindex("<script>") + len("<script>") : template.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    before, after = template.split("{{sentences}}")
    title = html.escape(title.encode("utf-8", "replace").decode())
    write(before.replace("{{hash}}", digest).replace("{{title}}", title))
    file = None
    for parse in parses:
        record = sentence_record(parse)
        if parse.sentence.file != file:
            file = record["file"] = parse.sentence.file  # holds for those that follow, too
        write(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", _json(record)) + "\n")
    write(after)


def sentence_record(parse: Parse) -> dict:
    """What the page knows of a sentence, with short names: there are thousands. Probabilities count in 1/10,000."""
    wrong = parse.gold is not None and any(
        0 <= gold != head for gold, head in zip(parse.gold, parse.heads, strict=True)
    )
    return {
        "line": parse.sentence.line,
        "w": parse.sentence.forms,
        "t": parse.sentence.upos,
        "h": parse.heads,
        # true: all known heads are right, and all are known
        "g": parse.gold if wrong or parse.gold is None or min(parse.gold, default=0) < 0 else True,
        "p": [_units(probability) for probability in parse.probabilities],
        "k": [_distribution(heads) for heads in parse.top_heads],
        "log": _finite(parse.log_prob, 3),
        "ent": _finite(parse.entropy, 3),
    }


def _distribution(heads: list[tuple[int, float]]) -> list[int]:
    """head, probability, head, probability, …; what rounds to nothing is left out."""
    pairs = [(head, _units(probability)) for head, probability in heads[:MAX_HEADS]]
    return [number for pair in pairs if pair[1] for number in pair]


def _units(probability: float) -> int:
    return round(10_000 * min(max(probability, 0.0), 1.0)) if math.isfinite(probability) else 0


def _finite(value: float, digits: int) -> float | None:
    """JSON has no infinities."""
    return round(value, digits) if math.isfinite(value) else None


def _json(record: dict) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
