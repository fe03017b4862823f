"""Parsing from Python: `parsers.load` gives a `Loaded`, which turns words into a `SentenceParse`."""

import copy
import logging
import math
import operator
import os
import shutil
from argparse import ArgumentTypeError
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

import torch
from conllu import TokenList
from conllu.exceptions import ParseException
from conllu.models import Token
from conllu.parser import parse_dict_value
from conllu.serializer import serialize_field

from parsers.data.conllu import Sentence, cycle
from parsers.data.examples import Indexer
from parsers.data.sources import MAX_WORDS
from parsers.data.text import sentence_of
from parsers.data.vocabulary import part_of_speech
from parsers.evaluation.inference import conflict, parse_sentences
from parsers.evaluation.mismatch import Mismatch
from parsers.evaluation.parse import Parse
from parsers.evaluation.svg import tree_svg
from parsers.evaluation.terminal import draw_tree
from parsers.io.arguments import device_name
from parsers.io.errors import UserError
from parsers.networks.device import choose_device
from parsers.runs.run import Run
from parsers.runs.tagger import Tagger
from parsers.system import Parser

FIELDS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
MOST_TREES = 1000  # of kbest
Words = TokenList | Iterable[str | tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class SentenceParse:
    """One parsed sentence. Entry i of each list belongs to word i + 1; ROOT has none.

    A run that learnt no labels has `_` and None in place of labels and their probabilities.
    """

    words: list[str]
    tags: list[str]  # what the parser read; `_` where there is none
    heads: list[int]  # 0 is ROOT
    labels: list[str]
    probabilities: list[float]  # of the arcs
    label_probabilities: list[float | None]  # of the labels, given the arcs
    log_prob: float  # of the tree
    entropy: float  # of the distribution over trees, in nats
    kbest: list[tuple[float, list[int]]] | None  # log probabilities and heads of the best trees, if asked for
    _parse: Parse = field(repr=False, compare=False)
    _source: TokenList | None = field(repr=False, compare=False)

    def __str__(self) -> str:
        """The tree, as `evaluate.py --draw` shows it, as wide as the terminal."""
        return draw_tree(self._parse, shutil.get_terminal_size().columns, color=False)

    def _repr_svg_(self) -> str:
        """The tree as a picture: how a notebook shows it."""
        return tree_svg(self._parse)

    def to_conllu(self) -> TokenList:
        """The sentence with predicted heads and labels, and predicted tags where there were none.

        If it came as a TokenList, all else in it stays: metadata, multiword tokens, empty nodes, other columns.
        """
        sentence = self._parse.sentence
        if self._source is None:
            feats = map(parse_dict_value, sentence.feats)
            xpos = (None if tag == "_" else tag for tag in sentence.xpos)
            rows = zip(self.words, sentence.upos, xpos, feats, self.heads, self.labels, strict=True)
            tokens = [
                Token(zip(FIELDS, (i, form, "_", *columns, None, None), strict=True))
                for i, (form, *columns) in enumerate(rows, 1)
            ]
            return TokenList(tokens, {"text": " ".join(self.words)})
        result = copy.deepcopy(self._source)
        words = iter(range(len(self.words)))
        for at, token in enumerate(result):
            if not isinstance(token["id"], int):
                continue
            i = next(words)
            new = {"head": self.heads[i], "deprel": self.labels[i]}
            for name, column in (("upos", sentence.upos), ("xpos", sentence.xpos), ("feats", sentence.feats)):
                if token.get(name) in (None, "_", {}) and column[i] != "_":
                    new[name] = parse_dict_value(column[i]) if name == "feats" else column[i]
            # A token that was made by hand may lack columns, whose order counts when it is written.
            blank = {} if all(name in token for name in FIELDS) else dict.fromkeys(FIELDS)
            result[at] = Token({**blank, **token, **new})
        return result


class Loaded:
    """The best model of a run."""

    def __init__(self, model: Parser, indexer: Indexer, tagger: Tagger | None):
        self.model, self.indexer, self.tagger = model, indexer, tagger

    def parse(
        self,
        words: Words,
        *,
        decode: str | None = None,
        kbest: int | None = None,
        known_heads: Iterable[int] | None = None,
        multi_root: bool = False,
    ) -> SentenceParse:
        """One sentence. The options are those of :meth:`parse_all`. A mistake is a ValueError."""
        sentence = _sentence(words, known_heads)
        (parse,) = self._parses([(sentence, words)], decode, kbest, known_heads is not None, multi_root)
        return parse

    def parse_all(
        self,
        sentences: Iterable[Words],
        *,
        decode: str | None = None,
        kbest: int | None = None,
        known_heads: Iterable[Iterable[int] | None] | None = None,
        multi_root: bool = False,
    ) -> Iterator[SentenceParse]:
        """Many sentences, in their order. About a thousand are read ahead, so that similar lengths share a batch.

        Args:
            sentences: each one a list of words, a list of (word, tag), or a conllu.TokenList. A tag is what the
                treebank has in UPOS; None or `_` is no tag. HEAD and DEPREL of a TokenList are not read.
            decode: "viterbi" for the most probable tree, "mbr" for the one with the largest sum of arc probabilities;
                by default what the run was trained with.
            kbest: how many of the best trees ``SentenceParse.kbest`` gets.
            known_heads: for each sentence a list like ``SentenceParse.heads``, −1 where the head is free, or None.
            multi_root: several words may hang from ROOT.

        A mistake in a sentence is a ValueError that names it, after all sentences before it. What makes the sentences
        unlike the training data is said in one line at their end, by the logger `parsers`.
        """
        _check_several(sentences, "sentences")
        if known_heads is not None:
            _check_several(known_heads, "known_heads")
        _check_options(decode, kbest)
        return self._parse_stream(sentences, decode, kbest, known_heads, multi_root)

    def _parse_stream(self, sentences, decode, kbest, known_heads, multi_root) -> Iterator[SentenceParse]:
        fault: list[ValueError] = []

        def checked() -> Iterator[tuple[Sentence, Words]]:
            known = iter(known_heads) if known_heads is not None else None
            number = 0
            for number, words in enumerate(sentences, 1):
                try:
                    heads = None if known is None else next(known)
                    yield _sentence(words, heads, number), words
                except StopIteration:
                    fault.append(ValueError(f"known_heads has no entry for sentence {number}"))
                    return
                except ValueError as error:
                    fault.append(ValueError(f"sentence {number}: {error}"))
                    return
            if known is not None and next(known, known) is not known:
                fault.append(ValueError(f"known_heads has more entries than the {number} sentences"))

        yield from self._parses(checked(), decode, kbest, known_heads is not None, multi_root, numbered=True)
        if fault:
            raise fault[0]

    def _parses(self, pairs, decode, kbest, constrain, multi_root, numbered=False) -> Iterator[SentenceParse]:
        """Parses of (sentence, what the user gave)."""
        _check_options(decode, kbest)
        waiting: deque[Words] = deque()

        def sentences() -> Iterator[Sentence]:
            for sentence, words in pairs:
                waiting.append(words)
                yield self._with_upos_alone(sentence)

        options = {"decode": decode, "constrain": constrain, "kbest": kbest}
        tagged = self.tagger.tagged(sentences()) if self.tagger else sentences()
        mismatch = Mismatch.of(self.model, self.indexer)
        for parse in parse_sentences(self.model, mismatch, tagged, not multi_root, **options):
            source = waiting.popleft()
            if not math.isfinite(parse.log_prob):
                where = f"sentence {parse.sentence.line}: " if numbered else ""
                raise ValueError(where + _why_impossible(parse, not multi_root))
            yield _result(parse, source if isinstance(source, TokenList) else None)
        if line := mismatch.line("what was parsed"):
            logging.getLogger("parsers").warning(line)

    def _with_upos_alone(self, sentence: Sentence) -> Sentence:
        """Where the tagger predicts UPOS, the XPOS of a TokenList is not read in its place."""
        if not self.tagger or "upos" not in self.tagger.columns:
            return sentence
        pairs = zip(sentence.upos, sentence.xpos, strict=True)
        return replace(sentence, xpos=["_" if upos == "_" else xpos for upos, xpos in pairs])


def load_run(path: str | os.PathLike, device: str | torch.device | None = None) -> Loaded:
    """What :func:`parsers.load` returns."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"the path of a run is a string or a Path, not {type(path).__name__}")
    try:
        run = Run.open(os.fspath(path))
        where = choose_device(None if device is None else device_name(str(device)), 0)
        model, vocab, vectors = run.load_model(run.config()[0], where)
        tagger = run.tagger(vocab)
    except (UserError, ArgumentTypeError) as error:
        raise ValueError(str(error)) from None
    return Loaded(model, Indexer(vocab, vectors), tagger)


def _result(parse: Parse, source: TokenList | None) -> SentenceParse:
    sentence = parse.sentence
    return SentenceParse(
        words=list(sentence.forms),
        tags=list(map(part_of_speech, sentence.upos, sentence.xpos)),
        heads=parse.heads,
        labels=list(parse.deprels),
        probabilities=parse.probabilities,
        label_probabilities=parse.label_probabilities or [None] * len(parse.heads),
        log_prob=parse.log_prob,
        entropy=parse.entropy,
        kbest=None if parse.kbest is None else list(parse.kbest),
        _parse=parse,
        _source=source,
    )


def _why_impossible(parse: Parse, single_root: bool) -> str:
    if parse.heads[0] >= 0 or max(parse.sentence.heads) < 0:
        return "the scores of the model are not numbers: train it again"
    _, what, _ = conflict(parse.sentence.heads, single_root)
    return f"known_heads can't be kept: {what}"


def _check_several(values: object, name: str) -> None:
    if isinstance(values, str | bytes | Mapping | TokenList) or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be an iterable with an entry for each sentence, not {_kind(values)}")


def _check_options(decode: str | None, kbest: int | None) -> None:
    if decode not in (None, "viterbi", "mbr"):
        raise ValueError(f"decode is viterbi or mbr, not {decode!r}")
    if kbest is not None and (type(kbest) is not int or not 1 <= kbest <= MOST_TREES):
        raise ValueError(f"kbest is a number from 1 to {MOST_TREES}, not {kbest!r}")


def _sentence(words: Words, known_heads: Iterable[int] | None, number: int = 1) -> Sentence:
    """What the user gave as a sentence without heads, or with the known ones. A mistake is a ValueError."""
    if isinstance(words, TokenList):
        sentence = _from_tokens(words, number)
    elif isinstance(words, str | bytes | Mapping | Set) or not isinstance(words, Iterable):
        hint = ": split it into words" if isinstance(words, str) else ""
        raise ValueError(f"a sentence is a list of words, not {_kind(words)}{hint}")
    else:
        pairs = [_word_and_tag(item, i) for i, item in enumerate(words, 1)]
        forms, tags = [form for form, _ in pairs], [tag for _, tag in pairs]
        sentence = sentence_of(forms, tags, line=number, number=number)
    if not len(sentence):
        raise ValueError("there are no words in this sentence")
    if len(sentence) > MAX_WORDS:
        raise ValueError(f"a sentence of {len(sentence)} words; at most {MAX_WORDS} can be parsed: divide it")
    return sentence if known_heads is None else replace(sentence, heads=_checked_heads(known_heads, len(sentence)))


def _word_and_tag(item: object, i: int) -> tuple[str, str]:
    form, tag = item, None
    if isinstance(item, tuple):
        if len(item) != 2:
            raise ValueError(f"word {i} is a tuple of {len(item)}, and not (word, tag)")
        form, tag = item
    if isinstance(item, list):
        raise ValueError(f"word {i} is a list: parse_all takes several sentences")
    if tag is not None and not isinstance(tag, str):
        raise ValueError(f"the tag of word {i} is {_kind(tag)}, and not a string")
    return _text(form, f"word {i}"), _text(tag, f"the tag of word {i}") if tag else "_"


def _text(value: object, name: str) -> str:
    """A value that can stand in a column of CoNLL-U."""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {_kind(value)}, and not a string")
    if not value.strip():
        raise ValueError(f"{name} is empty")
    if any(char in value for char in "\t\r\n"):
        raise ValueError(f"{name} has a tab or a line end in it")
    return str(value)


def _from_tokens(tokens: TokenList, number: int) -> Sentence:
    forms, columns = [], {"upos": [], "xpos": [], "feats": []}
    for token in tokens:
        expected = len(forms) + 1
        if isinstance(token.get("id"), tuple):  # a multiword token or an empty node
            continue
        if token.get("id") != expected:
            raise ValueError(f"a token has id {token.get('id')!r} where word {expected} should be")
        forms.append(_text(token.get("form"), f"word {expected}"))
        for name, column in columns.items():
            try:
                text = serialize_field(token.get(name))
            except (TypeError, ParseException, IndexError):
                raise ValueError(f"{name} of word {expected} is {_kind(token.get(name))}") from None
            column.append(_text(text, f"{name} of word {expected}") if text else "_")
    sentence = sentence_of(forms, columns["upos"], line=number, number=number)
    return replace(sentence, xpos=columns["xpos"], feats=columns["feats"])


def _checked_heads(known: Iterable[int], n: int) -> list[int]:
    try:
        heads = [operator.index(head) for head in known]
    except TypeError:
        raise ValueError("known_heads is a list of numbers, −1 where the head is free") from None
    if len(heads) != n:
        raise ValueError(f"known_heads has {len(heads)} entries for {n} words")
    for word, head in enumerate(heads, 1):
        if head == word:
            raise ValueError(f"known_heads makes word {word} its own head: 0 stands for the root")
        if not -1 <= head <= n:
            raise ValueError(f"known_heads gives word {word} the head {head}")
    if looping := cycle(heads):
        path = " → ".join(map(str, [*looping[:8], *["…"] * (len(looping) > 8), looping[0]]))
        raise ValueError(f"known_heads go in a circle: {path}")
    return heads


def _kind(value: object) -> str:
    if value is None:
        return "None"
    return "a plain string" if isinstance(value, str) else f"an object of type {type(value).__name__}"
