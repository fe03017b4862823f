"""Made-up lines, as runs would have written them."""

import random

from parsers.reproduce import RECIPES
from parsers.reproduce.grid import Plan
from parsers.reproduce.lines import Line


def line(
    system="ntp", options=None, treebank="en_gum", seed=1, share=0.75, sentences=50, labels=True, tested=True, **others
) -> Line:
    """Each head is right with probability ``share``, and so is its label. Sentences depend on the treebank alone."""
    sizes, rng = random.Random(treebank), random.Random(repr((system, options, treebank, seed, share)))
    words = [sizes.randint(3, 25) for _ in range(sentences)]
    heads = [sum(rng.random() < share for _ in range(count)) for count in words]
    hits = [sum(rng.random() < share for _ in range(count)) for count in heads]
    found = {"words": words, "heads": heads, "test_uas": 100 * sum(heads) / sum(words)} if tested else {}
    if tested and labels:
        found |= {"labels": hits, "test_las": 100 * sum(hits) / sum(words)}
    sizes = {"trees": 100, "text": 900, "dev": 20, "test": sentences if tested else 0}
    common = {"recipe": RECIPES[system], "sizes": sizes, "epochs": 9, "best_epoch": 7, "seconds": 60.0, "commit": None}
    common |= {"dev_uas": 100 * share, "dev_las": 80 * share}
    return Line(system, options or {}, treebank, seed, **(common | found | others))


def line_of(plan: Plan, share=0.75, **others) -> Line:
    return line(plan.system, plan.options, plan.treebank, plan.seed, share, tested=not plan.dev_only, **others)
