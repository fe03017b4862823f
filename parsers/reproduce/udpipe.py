"""UDPipe 1 on the same labelled sentences: `python -m parsers.reproduce.udpipe --python ENV/bin/python`.

ENV is an environment of its own with `pip install ufal.udpipe`. Tagger and parser are trained with UDPipe's defaults,
the parser on gold tags: UPOS and FEATS, or XPOS where the treebank has no UPOS. There are two lines per treebank: with
the tags in the file at test, and with those of its own tagger. Needs three minutes for 300 sentences.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parsers.data.conllu import read
from parsers.data.corpus import split_labeled
from parsers.data.sources import SPLITS, find_split, find_treebank
from parsers.evaluation.tags import TagScores
from parsers.io.arguments import Quiet, help_format, not_empty, number
from parsers.io.command import run_command
from parsers.io.errors import UserError
from parsers.reproduce import RECIPES
from parsers.reproduce.commit import commit
from parsers.reproduce.counts import Counts
from parsers.reproduce.lines import Line, append, key, read_lines

NAME = "python -m parsers.reproduce.udpipe"
XPOS_ONLY = "embedding_upostag=0;embedding_feats=0;embedding_xpostag=20"
TREEBANKS = ("en_gum", "fr_sequoia", "it_partut", "ru_taiga", "ja_gsd", "wsj_sample")


def main(arguments: list[str]) -> int:
    parser = Quiet(prog=NAME, description=__doc__, formatter_class=help_format, allow_abbrev=False)
    add = parser.add_argument
    add(
        "treebanks",
        nargs="*",
        metavar="TREEBANK",
        help=f"directories, or names under $TRITREE_DATA ({TREEBANKS[0]}, …)",
    )
    add("--python", type=not_empty, required=True, metavar="FILE", help="the Python that has ufal.udpipe")
    add("--labeled", type=number(float, 0, 1, True), default=0.1, metavar="SHARE", help="of the trees (0.1)")
    add("--seed", type=number(int, 0, 2**62), default=1, metavar="N", help="picks them, as in train.py (1)")
    add("--lines", type=Path, default=Path("results/runs.jsonl"), metavar="FILE", help="(results/runs.jsonl)")
    options = parser.parse_args(arguments)
    for name in options.treebanks or TREEBANKS:
        directory = find_treebank(name)
        if all(line_key(options, directory.name, tags) in done(options.lines) for tags in ("gold", "own")):
            print(f"{directory.name}: its lines are there")
            continue
        for line in train(directory, options):
            append(options.lines, line)
            las = f", LAS {line.test_las:.2f}" if line.test_las is not None else ""
            print(f"{line.treebank}, {line.options['tags']} tags: test UAS {line.test_uas:.2f}{las}", flush=True)
    return 0


def done(path: Path) -> set[str]:
    return {line.key for line in read_lines(path)}


def line_key(options: argparse.Namespace, treebank: str, tags: str) -> str:
    return key("udpipe", line_options(options, tags), treebank, options.seed, RECIPES["udpipe"])


def line_options(options: argparse.Namespace, tags: str) -> dict[str, object]:
    share = {"labeled": options.labeled} if options.labeled != 1 else {}
    return {"tags": tags, **share}


def train(directory: Path, options: argparse.Namespace) -> list[Line]:
    files = {split: find_split(directory, split) for split in SPLITS}
    trees = list(read(files["train"]))
    labeled, _ = split_labeled(trees, options.labeled, options.seed)
    has_upos = any(tag != "_" for sentence in labeled for tag in sentence.upos)
    with tempfile.TemporaryDirectory() as scratch:
        small = Path(scratch, "train.conllu")
        small.write_text("".join(sentence.text() for sentence in labeled), "utf-8", newline="")
        worker = Path(__file__).with_name("udpipe_worker.py")
        parser_options = "use_gold_tags=1" + ("" if has_upos else f";{XPOS_ONLY}")
        command = [options.python, worker, small, files["dev"], files["test"], scratch, parser_options]
        began = time.monotonic()
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace")
        if result.returncode:
            raise UserError(f"{directory.name}: {(result.stderr.splitlines() or ['UDPipe failed'])[-1]}")
        seconds = time.monotonic() - began
        return [
            _line(files, Path(scratch), tags, len(labeled), seconds, directory.name, options)
            for tags in ("gold", "own")
        ]


def _line(files, scratch: Path, tags: str, trees: int, seconds: float, treebank: str, options) -> Line:
    figures: dict[str, float] = {}
    counts = {}
    for split in ("dev", "test"):
        tagged, counts[split] = TagScores(), Counts()
        parsed = read(str(scratch / f"{split}.{tags}.conllu"))
        for sentence, found in zip(read(files[split]), parsed, strict=True):
            counts[split].add(found.heads, sentence.heads, found.deprels, sentence.deprels)
            tagged.add(sentence, {column: getattr(found, column) for column in ("upos", "xpos", "feats")})
        if tags == "own":
            accuracy = {name: value for name, value in tagged.figures().items() if name.endswith("accuracy")}
            figures |= {f"{split}_{name}": value for name, value in accuracy.items()}
    dev, test = counts["dev"], counts["test"]
    return Line(
        system="udpipe",
        options=line_options(options, tags),
        treebank=treebank,
        seed=options.seed,
        recipe=RECIPES["udpipe"],
        sizes={"trees": trees, "text": 0, "dev": len(dev.words), "test": len(test.words)},
        epochs=None,
        best_epoch=None,
        seconds=seconds,
        commit=commit(),
        figures=figures,
        **dev.scores("dev"),
        **test.scores("test"),
        **test.lists(),
    )


def run() -> int:
    return run_command(NAME, main, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
