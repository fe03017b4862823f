"""Predicted heads with their probabilities. In CoNLL-U, `Prob=0.9731` in MISC, and two comments per sentence:

    # log_prob = -0.4321      of the tree, to the base e
    # entropy = 1.2345        of all trees, in nats: 0 where there is no doubt

What an earlier run has written of this is replaced; everything else stays as it is, byte for byte.
"""

from parsers.data.conllu import HEAD
from parsers.evaluation.comments import decimal, with_comments
from parsers.evaluation.parse import Parse

MISC, KEY = 9, "Prob="


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
    comments = {"log_prob": decimal(parse.log_prob), "entropy": decimal(parse.entropy)}
    return with_comments("".join(lines), "|".join(comments), comments)


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
