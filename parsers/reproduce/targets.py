"""What was to be reached, by the names of the grid's rows, and what the lines say of it."""

from collections.abc import Iterable, Iterator

from parsers.reproduce.cells import Results, mean_of, partner, test_las, test_uas
from parsers.reproduce.lines import Line
from parsers.reproduce.paper import TREEBANKS, paper_uas
from parsers.reproduce.statistics import paired_bootstrap

GAINS = {"LAP (L+U)": 0.4, "LAP, second stage (L+U)": 1.2, "GAP (L+U)": 1.0, "EDP (L+U)": 1.2}
MOST_LOST = 0.3  # on any treebank
LARGEST_P = 0.05
LEAST = (  # row, share of en_gum's trees, test UAS
    ("EDP (L+U)", 0.1, 81.0),
    ("EDP, XPOS and FEATS (L+U)", 0.1, 82.5),
    ("EDP, XPOS and FEATS (L)", 1.0, 86.1),  # UDPipe 1.2 with all gold columns, by the README of its models
)
BEST, RIVAL = "EDP (L+U)", "UDPipe, gold tags (L)"
MOST_MINUTES = 15

Row = tuple[str, str, str, str]


def targets_table(results: Results) -> str:
    """Target, what is to be reached, what was, and the verdict."""
    rows: list[Row] = [*_paper(results), *_gains(results), *_least(results), *_rival(results), _time(results)]
    lines = ["| target | at least | reached | |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _paper(results: Results) -> Iterator[Row]:
    rows = dict.fromkeys(plan.row for plan in results.plans)
    for row in rows:
        if (theirs := paper_uas(row, "en_gum")) is not None:
            found = mean_of(results.lines_of(row, "en_gum"), test_uas)
            yield _verdict(f"{row} on en_gum: the paper's figure", theirs, found and found.mean)


def _gains(results: Results) -> Iterator[Row]:
    for row, least in GAINS.items():
        other = partner(row)
        pairs = results.pairs(str(other), row, TREEBANKS)
        name = f"{row} − {other}, mean of {len(TREEBANKS)} treebanks"
        if not pairs:
            yield name, f"{least:+.1f}", "not run yet", ""
            continue
        found = paired_bootstrap(pairs)
        treebank, worst = min(found.by_treebank.items(), key=lambda item: item[1])
        reached = f"{found.value:+.2f}, p {found.p:.4f} ({len(pairs)} treebanks, {found.runs} runs)"
        faults = [f"by {least - found.value:.2f}"] * (found.value < least)
        faults += [f"p ≥ {LARGEST_P}"] * (found.p >= LARGEST_P)
        faults += [f"{treebank} {worst:+.2f}"] * (worst < -MOST_LOST)
        verdict = f"missed: {', '.join(faults)}" if faults else "held"
        if len(pairs) < len(TREEBANKS):
            verdict += " so far"
        yield name, f"{least:+.1f}, p < {LARGEST_P}, nowhere below −{MOST_LOST}", reached, verdict


def _least(results: Results) -> Iterator[Row]:
    for row, share, least in LEAST:
        found = mean_of(results.lines_of(row, "en_gum", share), test_uas)
        name = f"{row} on en_gum, {'all' if share == 1 else 'a tenth'} of the trees"
        yield _verdict(name, least, found and found.mean)


def _rival(results: Results) -> Iterator[Row]:
    """Runs with the seeds that both have."""
    for treebank in TREEBANKS:
        theirs = {line.seed: line for line in results.lines_of(RIVAL, treebank)}
        ours = [line for line in results.lines_of(BEST, treebank) if line.seed in theirs]
        for what, score in (("UAS", test_uas), ("LAS", test_las)):
            expected = mean_of(theirs.values(), score)
            if expected is None:
                continue
            if ours:
                expected = mean_of((theirs[line.seed] for line in ours), score)
            found = mean_of(ours, score)
            name = f"{BEST} on {treebank}, {what}: UDPipe's"
            yield _verdict(name, expected.mean if expected else 0.0, found and found.mean)


def _time(results: Results) -> Row:
    name = f"a run of {BEST} on en_gum, minutes"
    found: Iterable[Line] = results.lines_of(BEST, "en_gum")
    longest = max((line.seconds / 60 for line in found), default=None)
    if longest is None:
        return name, f"at most {MOST_MINUTES}", "not run yet", ""
    fault = longest - MOST_MINUTES
    reached = f"{longest:.1f} on one core (the longest)"
    return name, f"at most {MOST_MINUTES}", reached, f"missed by {fault:.1f}" if fault > 0 else "held"


def _verdict(name: str, least: float, found: float | None) -> Row:
    if found is None:
        return name, f"{least:.2f}", "not run yet", ""
    return name, f"{least:.2f}", f"{found:.2f}", "held" if found >= least else f"missed by {least - found:.2f}"
