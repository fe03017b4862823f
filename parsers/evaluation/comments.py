"""Comments that evaluate.py adds to a sentence in CoNLL-U: `# name = value`, before its first word.

What an earlier run has written under the same names is replaced; everything else stays as it is, byte for byte.
"""

import re

BOM = "\ufeff"


def with_comments(text: str, names: str, comments: dict[str, str]) -> str:
    """The text of a sentence with these comments in place of those whose name matches ``names``, a pattern."""
    start = len(text) - len(text.lstrip(BOM))  # stays first in the file, whatever comes first now
    lines = text[start:].split("\n")  # splitlines would know more line ends than CoNLL-U has
    first = next(i for i, line in enumerate(lines) if line.strip("\r") and line[0] != "#")
    is_old = re.compile(f"# (?:{names}) = ").match
    kept = [line for line in lines[:first] if not is_old(line)]
    place = next((i for i, line in enumerate(lines[:first]) if is_old(line)), first)
    end = "\r" if "\r\n" in text else ""
    new = [f"# {name} = {value}{end}" for name, value in comments.items()]
    return text[:start] + "\n".join([*kept[:place], *new, *kept[place:], *lines[first:]])


def decimal(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4f}"  # + 0.0: no −0.0000
