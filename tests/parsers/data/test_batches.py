"""Batches have all sentences, each once, in the right order and on the right process."""

from dataclasses import replace

import pytest
import torch

from parsers.data import synthetic
from parsers.data.batches import WINDOW, bucketed, collate
from parsers.data.vocabulary import ROOT, UNKNOWN, Vocabulary
from tests.parsers.helpers import examples_of


@pytest.fixture(scope="module")
def examples():
    sentences = synthetic.sentences("train", count=103)
    return examples_of(sentences, Vocabulary.build(sentences))


@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("key", [None, (1, 2)])
def test_every_sentence_once(examples, as_list, key):
    batches = list(bucketed(examples if as_list else iter(examples), 4, 10**6, key))
    assert sorted(id(e) for batch in batches for e in batch) == sorted(map(id, examples))
    assert max(map(len, batches)) == 4


def test_lengths_are_similar_and_batches_bounded(examples):
    spread = [len(batch[-1]) - len(batch[0]) for batch in bucketed(examples, 4, 10**6)]
    assert sum(spread) / len(spread) < 2
    for batch in bucketed(examples, 64, 500):
        assert len(batch) == 1 or len(batch) * (len(batch[-1]) + 1) ** 2 <= 500


def test_the_order_is_that_of_the_key(examples):
    orders = [[list(map(id, b)) for b in bucketed(examples, 4, 10**6, key)] for key in [(1,), (1,), (2,)]]
    assert orders[0] == orders[1] != orders[2]


def test_streams_are_read_in_windows(examples):
    taken = []

    def stream():
        for number in range(3 * WINDOW):
            taken.append(number)
            yield examples[number % len(examples)]

    next(bucketed(stream(), 4, 10**6))
    assert len(taken) == WINDOW


def test_tensors(examples):
    chosen = sorted(examples[:5], key=len)
    batch = collate(chosen)
    for row, example in enumerate(chosen):
        n = len(example)
        assert batch.words[row, 0] == ROOT == batch.pos[row, 0] and batch.lengths[row] == n
        assert batch.words[row, : n + 1].tolist() == example.words.tolist() and not batch.words[row, n + 1 :].any()
        assert batch.heads[row].tolist() == [-1, *example.gold] + [-1] * (batch.N - n - 1)
    assert (batch.size, batch.num_words) == (5, sum(map(len, chosen)))


def test_processes_share_a_batch(examples):
    whole = collate(examples[:5])
    parts = [collate(examples[:5], rank, 3) for rank in range(3)]
    assert [len(part.examples) for part in parts] == [2, 2, 1]
    for rank, part in enumerate(parts):
        assert torch.equal(part.words, whole.words[rank::3]) and torch.equal(part.heads, whole.heads[rank::3])
        assert (part.size, part.num_words, part.N) == (5, whole.num_words, whole.N)
        assert torch.equal(part.draw("k").noise.normal(3), whole.draw("k").noise.normal(3)[rank::3])
    assert collate(examples[:1], 1, 2).words.shape == (0, len(examples[0]) + 1)


def test_masks(examples):
    batch = collate(examples[:3])
    for row, n in enumerate(batch.lengths.tolist()):
        padding = batch.N - n - 1
        assert batch.is_token[row].tolist() == [True] * (n + 1) + [False] * padding
        assert batch.is_word[row].tolist() == [False] + [True] * n + [False] * padding


def test_hidden_words_and_tags(examples):
    batch = collate(examples[:3])
    batch.feats, batch.vectors = torch.ones(3, batch.N, 2).long(), torch.ones_like(batch.words)
    words, tags = torch.zeros(2, 3, batch.N, dtype=torch.bool)
    words[0, 1] = tags[1, 2] = True
    hidden = batch.hide(words, tags)
    for name, mask in (("words", words), ("vectors", words), ("pos", tags), ("xpos", tags), ("feats", tags)):
        before, after = getattr(batch, name), getattr(hidden, name)
        assert (after[mask] == UNKNOWN).all() and torch.equal(after[~mask], before[~mask]), name
    assert hidden.heads is batch.heads and hidden.lengths is batch.lengths


def test_correct_heads_are_counted(examples):
    """Compared with the heads in the file; words without one do not count."""
    batch = collate([replace(examples[0], gold=[-1, *examples[0].gold[1:]]), *examples[1:3]])
    words, heads = int(batch.lengths.sum()), batch.heads.clone()
    assert batch.count_correct(heads) == words - 1
    heads[1, 1] += 1
    assert batch.count_correct(heads) == words - 2
