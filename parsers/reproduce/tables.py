"""RESULTS.md as text: tables of the lines that are there."""

from collections import Counter
from collections.abc import Iterable

from parsers.reproduce.cells import (
    Results,
    Score,
    ensemble_uas,
    mean_of,
    partner,
    test_las,
    test_uas,
    unique,
)
from parsers.reproduce.grid import Plan, Step
from parsers.reproduce.paper import SAME, TREEBANKS, paper_uas
from parsers.reproduce.statistics import DRAWS, paired_bootstrap
from parsers.reproduce.targets import targets_table

AS_IN_PAPER = ", as in the paper"  # ends the names of rows with --paper
ENSEMBLE = "the teachers of EDP together, no text"


def markdown(results: Results, command: str, pictures: dict[str, str]) -> str:
    """``pictures``: the kind of a table, and the file that shows it."""
    systems = [step for step in results.grid.steps if step.table == "systems"]
    parts = [_head(results, command), "## Targets", targets_table(results)]
    if systems:
        parts += ["## Systems and treebanks", *_systems(results, systems, pictures.get("systems"))]
        parts += ["## What text adds", *_gains(results, systems)]
    for step in results.grid.steps:
        if step.table == "shares":
            parts += [f"## {step.title}", _picture("Test UAS by the share of labelled trees", pictures, step)]
            parts += [_shares(results, step)]
        elif step.table == "text":
            parts += [f"## {step.title}", _picture("Test UAS by the sentences of text", pictures, step)]
            parts += [_text(results, step)]
        elif step.table == "list":
            parts += [f"## {step.title}", _list(results, step)]
    parts += ["## How often the test set was looked at", _looks(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(results: Results, command: str) -> str:
    old = len(results.all_lines) - len(results.lines)
    older = f" Lines of older recipes that are left out: {old}." if old else ""
    return (
        f"# Results\n\nMade by `{command}` of {len(results.lines)} finished runs; the same command without `--tables` "
        f"runs what is missing.{older}\n\nScores are in percent: means over seeds ± standard deviations, of the best "
        "epoch on the dev set, with the tags in the file, punctuation counted. A seed picks the labelled trees. (L) is "
        "trained on these trees alone, (L+U) also on the other training sentences as text. `not run yet`: the grid has "
        "it, and its line is missing; –: not in the grid. Cells with another number of seeds than most of their "
        "treebank say so."
    )


def _systems(results: Results, steps: list[Step], picture: str | None) -> Iterable[str]:
    plans = [plan for step in steps for plan in step.plans]
    treebanks, rows = unique(plan.treebank for plan in plans), unique(plan.row for plan in plans)
    if picture:
        yield f"![Test UAS by system and treebank]({picture})"
    for what, score in (("UAS", test_uas), ("LAS", test_las)):
        yield f"Test {what}, a tenth of the trees:"
        yield _by_treebank(results, rows, treebanks, score)
    yield (
        f"The paper's figures (its Tables 2 and 3) beside ours, test UAS: ours / the paper's. {', '.join(SAME)} is the "
        "paper's treebank; the others are of the same language, or of another release: only the order of rows compares."
    )
    named = [name for name in treebanks if name in TREEBANKS]
    header = ["", *(f"{name}<br>/ {TREEBANKS[name]}" for name in named)]
    body = []
    for row in rows:
        theirs = [paper_uas(row, name) for name in named]
        if any(theirs):
            ours = [mean_of(results.lines_of(row, name), test_uas) for name in named]
            cells = [f"{_short(o)} / {t or '–'}" for o, t in zip(ours, theirs, strict=True)]
            body.append([row, *cells])
    yield table(header, body)


def _by_treebank(results: Results, rows: list[str], treebanks: list[str], score: Score) -> str:
    usual = {name: _usual_seeds(results, rows, name) for name in treebanks}
    seeds = [f"{name}<br>{count} seed{'s' * (count != 1)}" if (count := usual[name]) else name for name in treebanks]
    body = []
    for row in rows:
        body.append([row, *(_cell(results, row, name, score, usual[name]) for name in treebanks)])
        if score is test_uas and any(mean_of(results.lines_of(row, name), ensemble_uas) for name in treebanks):
            means = (mean_of(results.lines_of(row, name), ensemble_uas) for name in treebanks)
            body.append([ENSEMBLE, *(str(found) if found else "–" for found in means)])
    return table(["", *seeds], body)


def _usual_seeds(results: Results, rows: list[str], treebank: str) -> int:
    counts = Counter(len(lines) for row in rows if (lines := results.lines_of(row, treebank)))
    return max(counts, key=lambda count: (counts[count], count)) if counts else 0


def _cell(results: Results, row: str, treebank: str, score: Score, usual: int) -> str:
    lines, plans = results.lines_of(row, treebank), results.plans_of(row, treebank)
    if not lines:
        return results.missing(plans)
    found = mean_of(lines, score)
    if found is None:
        return "–"
    return f"{found}" if len(lines) == usual else f"{found} ({len(lines)} seed{'s' * (len(lines) != 1)})"


def _gains(results: Results, steps: list[Step]) -> Iterable[str]:
    plans = [plan for step in steps for plan in step.plans]
    treebanks = unique(plan.treebank for plan in plans)
    yield (
        "Test UAS with text − without, same seeds; ST is compared with NMP, which teaches it. `p`: paired bootstrap "
        f"over sentences and seeds (two-sided, {DRAWS:,} draws). The mean counts each treebank the same."
    )
    body = []
    for row in unique(plan.row for plan in plans):
        if (other := partner(row)) is None:
            continue
        pairs = results.pairs(other, row, treebanks)
        cells = []
        for name in treebanks:
            if name in pairs:
                found = paired_bootstrap({name: pairs[name]})
                cells.append(f"{found.value:+.1f} ({_p(found.p)})")
            else:
                cells.append(results.missing(results.plans_of(row, name)))
        total = paired_bootstrap(pairs) if pairs else None
        mean = f"**{total.value:+.1f}** ({_p(total.p)}; {total.runs} runs)" if total else "–"
        body.append([f"{row} − {other}", mean, *cells])
    yield table(["", "mean", *treebanks], body)


def _shares(results: Results, step: Step) -> str:
    treebank = step.plans[0].treebank
    shares = sorted({plan.share for plan in step.plans})
    body = []
    for row in unique(plan.row for plan in step.plans):
        cells = []
        for share in shares:
            plans = step.plans_of(row, share)
            found = mean_of(results.lines_for(plans), test_uas)
            cells.append(str(found) if found else results.missing(plans))
        body.append([row, *cells])
    return f"Test UAS on {treebank}:\n\n" + table(["", *(f"{100 * share:g} %" for share in shares)], body)


def _text(results: Results, step: Step) -> str:
    body = []
    for plans in _by_row(step).values():
        lines = results.lines_for(plans)
        found = mean_of(lines, test_uas)
        sentences = f"{lines[0].sizes['text']:,}" if lines else "–"
        score = str(found) if found else results.missing(plans)
        body.append([plans[0].row, plans[0].treebank, sentences, str(len(lines)), score])
    return table(["", "treebank", "sentences of text", "seeds", "test UAS"], body)


def _list(results: Results, step: Step) -> str:
    """Each row with all its scores, and on dev its difference from the first row of its treebank."""
    body, first, theirs = [], {}, []
    for plans in _by_row(step).values():
        lines, treebank = results.lines_for(plans), plans[0].treebank
        scores = [(f"{split}_{what}", lines) for split in ("dev", "test") for what in ("uas", "las")]
        found = [mean_of(some, lambda line, name=name: getattr(line, name)) for name, some in scores]
        dev = found[0]
        base = first.setdefault(treebank, dev)
        gain = f"{dev.mean - base.mean + 0.0:+.1f}" if dev and base and dev is not base else ""
        share = f"{100 * plans[0].share:g} %"
        paper = paper_uas(plans[0].row.removesuffix(AS_IN_PAPER), treebank)
        theirs.append(paper)
        shown = [str(score) if score else "–" for score in found] if lines else [results.missing(plans), *["–"] * 3]
        body.append([plans[0].row, treebank, share, str(len(lines)), shown[0], gain, *shown[1:]])
    header = ["", "treebank", "trees", "seeds", "dev UAS", "− first", "dev LAS", "test UAS", "test LAS"]
    if any(theirs) and all(AS_IN_PAPER in plan.row for plan in step.plans):
        header.append("paper")
        body = [[*cells, str(paper or "–")] for cells, paper in zip(body, theirs, strict=True)]
    return table(header, body)


def _by_row(step: Step) -> dict[tuple, list[Plan]]:
    found: dict[tuple, list[Plan]] = {}
    for plan in step.plans:
        found.setdefault((plan.row, plan.treebank, plan.share), []).append(plan)
    return found


def _looks(results: Results) -> str:
    tested = [line for line in results.lines if line.tested]
    known = {plan.key: plan.row for plan in results.plans}
    counts = Counter(known.get(line.key, f"{line.system}, not in the grid") for line in tested)
    dev_only = len(results.lines) - len(tested)
    several = [f"{row} {count}" for row, count in counts.items()]
    return (
        f"Each run parses the test set once, after its last epoch: {len(tested)} times in all ({'; '.join(several)}). "
        f"Runs that saw the dev set only: {dev_only}."
    )


def _picture(title: str, pictures: dict[str, str], step: Step) -> str:
    return f"![{title}]({pictures[step.table]})" if step.table in pictures else ""


def _short(mean) -> str:
    return f"{mean.mean:.1f}" if mean else "–"


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def table(header: list[str], body: list[list[str]]) -> str:
    rows = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
