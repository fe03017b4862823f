"""Parses a CoNLL-U file: python examples/parse_file.py RUN FILE.conllu > parsed.conllu"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # tritree and parsers, where they are not installed
import conllu

import parsers

parser = parsers.load(sys.argv[1])
with open(sys.argv[2], encoding="utf-8") as file:
    for parse in parser.parse_all(conllu.parse_incr(file)):
        print(parse.to_conllu().serialize(), end="")
