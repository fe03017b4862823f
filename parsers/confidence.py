"""Predicted heads with their probabilities. In CoNLL-U, `Prob=0.9731` in MISC, and two comments per sentence:

    # log_prob = -0.4321      of the tree, to the base e
    # entropy = 1.2345        of all trees, in nats: 0 where there is no doubt

What an earlier run has written of this is replaced; everything else stays as it is, byte for byte.
"""

from parsers.conllu import HEAD
from parsers.parse import Parse

MISC, KEY = 9, "Prob="
COMMENTS = ("# log_prob = ", "# entropy = ")
BOM = "\ufeff"


def with_confidence(parse: Parse) -> str:
    """The sentence as it stands in the file, with the predicted heads and what is known about them."""
    sentence = parse.sentence
    lines = sentence.lines.copy()
    for row, head, probability in zip(sentence.rows, parse.heads, parse.probabilities, strict=True):
        text = lines[row].rstrip("\r\n")
        columns = text.split("\t")
        columns[HEAD] = str(head)
        columns[MISC] = _misc(columns[MISC], probability)
        lines[row] = "\t".join(columns) + lines[row][len(text) :]

    first = next(i for i, line in enumerate(lines) if line.lstrip(BOM).strip("\r\n") and line.lstrip(BOM)[0] != "#")
    before = "".join(line for line in lines[:first] if not line.lstrip(BOM).startswith(COMMENTS))
    after = "".join(lines[first:])
    end = "\r\n" if "\r\n" in before + after else "\n"
    values = (parse.log_prob, parse.entropy)
    comments = "".join(f"{name}{_decimal(value)}{end}" for name, value in zip(COMMENTS, values, strict=True))
    mark = BOM if lines[0].startswith(BOM) else ""  # first in the file, whatever comes first now
    return mark + before.removeprefix(BOM) + comments + after.removeprefix(BOM)


def confidence_record(parse: Parse) -> dict:
    """The same for JSON, unrounded. The line is that of the first word."""
    return {
        "line": parse.sentence.line,
        "heads": parse.heads,
        "probabilities": parse.probabilities,
        "log_prob": parse.log_prob,
        "entropy": parse.entropy,
    }


def _misc(misc: str, probability: float) -> str:
    kept = [item for item in misc.split("|") if not item.startswith(KEY)] if misc not in ("_", "") else []
    return "|".join([*kept, f"{KEY}{probability:.4f}"])


def _decimal(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4f}"  # + 0.0: no −0.0000
