"""--init: another run's weights, by the names of symbols, with new ones where symbols are new."""

import pytest
import torch

from parsers import MODELS
from parsers.data import synthetic
from parsers.data.sources import Sources
from parsers.data.vocabulary import Vocabulary
from parsers.io.errors import UserError
from parsers.runs.init import Start
from parsers.runs.run import Run
from tests.parsers.helpers import NO_LABELS, build, small_data, tiny_options


def start_from(tmp_path, model, *arguments, normal_form=None):
    """A run with untrained weights, and options that start from it."""
    options = tiny_options(model, "--seed=5", *arguments)
    _, vocab = small_data(options, count=8, unlabeled=8)
    if normal_form:
        vocab.normal_form = normal_form
    run = Run.create(str(tmp_path / "run"), options, Sources("synthetic"), vocab, None)
    run.save_model(build(options, vocab).state_dict())
    return run, tiny_options(model, f"--init={tmp_path / 'run'}", *arguments)


def vocabulary(start: Start, options) -> Vocabulary:
    """That of other sentences, which have another tag if the system can learn it."""
    sentences = synthetic.sentences("dev", count=8)
    if MODELS[options.model].uses_words:
        sentences[0].upos[0] = "AAA"
    kinds = {"with_labels": options.label_weight > 0, "with_characters": options.char_filters > 0}
    return Vocabulary.build(sentences, **kinds, start=start.vocab)


@pytest.mark.parametrize("model", MODELS)
def test_known_symbols_keep_their_weights(model, tmp_path):
    run, options = start_from(tmp_path, model)
    start = Start(options)
    vocab = vocabulary(start, options)
    start.check(options, vocab, None)
    assert len(vocab.words) > len(run.vocab().words) and set(run.vocab().words.symbols) < set(vocab.words.symbols)
    fresh, filled = build(options, vocab), build(options, vocab)
    start.fill(filled, None)
    old = dict(start.model.named_parameters())
    before = dict(fresh.named_parameters())
    for name, parameter in filled.named_parameters():
        if not parameter.requires_grad or name == "word_bias":
            continue
        if parameter.shape == old[name].shape and not name.endswith("word.weight"):
            assert torch.equal(parameter, old[name]), name
    for name in ("encoder.word.weight", "parser.encoder.word.weight"):
        if name in before:
            word, new = run.vocab().words.symbols[5], next(iter(vocab.words.number.keys() - run.vocab().words.number))
            for symbol, source, numbers in ((word, old, run.vocab().words), (new, before, vocab.words)):
                row = dict(filled.named_parameters())[name][vocab.words.number[symbol]]
                assert torch.equal(row, source[name][numbers.number[symbol]])


def test_the_normal_form_is_that_of_the_run(tmp_path):
    _, options = start_from(tmp_path, "ntp", normal_form=1)
    assert vocabulary(Start(options), options).normal_form == 1


def test_labels_are_added(tmp_path):
    """Also to a run that knows none; and one that knows some may start a run without."""
    _, options = start_from(tmp_path, "ntp", NO_LABELS)
    for arguments in ([], [NO_LABELS]):
        options = tiny_options("ntp", f"--init={tmp_path / 'run'}", *arguments)
        start = Start(options)
        vocab = vocabulary(start, options)
        start.check(options, vocab, None)
        start.fill(build(options, vocab), None)
        assert bool(vocab.labels) == (not arguments)


@pytest.mark.parametrize(
    ("model", "argument", "message"),
    [
        ("ntp", "--hidden-size=9", "has other inputs or sizes: it was trained with --hidden-size 5"),
        ("ntp", "--feats", "it was trained with no --feats"),
        ("lap", "--latent-size=9", "it was trained with --latent-size 100"),
        ("crfae", "", "knows fewer tags, and crfae can't learn new ones"),
    ],
)
def test_runs_that_do_not_fit(model, argument, message, tmp_path):
    start_from(tmp_path, model)
    options = tiny_options(model, f"--init={tmp_path / 'run'}", *filter(None, [argument]))
    start = Start(options)
    sentences = synthetic.sentences("dev", count=8)
    sentences[0].upos[0] = "AAA"
    with pytest.raises(UserError, match=message):
        start.check(options, Vocabulary.build(sentences, start=start.vocab), None)


def test_a_run_of_another_system(tmp_path):
    start_from(tmp_path, "ntp")
    with pytest.raises(UserError, match="is a run of ntp: choose --model ntp"):
        Start(tiny_options("nmp", f"--init={tmp_path / 'run'}"))
