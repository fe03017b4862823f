"""Batches have all sentences, each once, in the right order and on the right process."""

import pytest
import torch

from parsers.data import synthetic
from parsers.data.batches import WINDOW, bucketed, collate
from parsers.data.corpus import split_labeled
from parsers.data.noise import Noise, dropout
from parsers.data.vocabulary import ROOT, Vocabulary
from tests.parsers.helpers import examples_of, small_data, tiny_options


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


def test_noise():
    noise = [Noise(("a", key), 1000, slice(None), torch.device("cpu")) for key in (1, 1, 2)]
    drawn = [n.uniform(50) for n in noise]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    x = torch.ones(1000, 50)
    dropped = dropout(x, 0.25, noise[0])
    assert dropped.unique().tolist() == [0, pytest.approx(4 / 3)] and dropped.mean() == pytest.approx(1, abs=0.02)
    assert dropout(x, 0.25, None) is x and dropout(x, 0.0, noise[0]) is x
    assert noise[0].gumbel(50).mean() == pytest.approx(0.5772, abs=0.02)


def test_the_labelled_part_is_seeded():
    trees = synthetic.sentences("train", count=50)
    chosen, others = split_labeled(trees, 0.1, seed=1)
    assert len(chosen) == 5 and len(others) == 45
    assert {id(s) for s in chosen + others} == set(map(id, trees))
    again, other_seed = (split_labeled(trees, 0.1, seed)[0] for seed in (1, 2))
    assert list(map(id, again)) == list(map(id, chosen)) != list(map(id, other_seed))
    assert len(split_labeled(trees, 1e-9, 1)[0]) == 1 and split_labeled(trees, 1.0, 1)[1] == []


def test_unlabelled_batches_go_on_where_they_were():
    data, _ = small_data(tiny_options("ntp", "--unlabeled-batch-size=7"), count=5, unlabeled=30)
    stream = data.unlabeled_forever()
    first = [next(stream).words for _ in range(12)]  # more than two passes of five batches
    assert sum(map(len, first[:5])) == 30
    follow, jump = data.unlabeled_forever(start=12), None
    expected = [next(follow).words for _ in range(3)]
    jump = data.unlabeled_forever(start=12)  # not where the stream is now: it is started again
    assert all(torch.equal(a, next(jump).words) for a in expected)
    assert sum(len(batch.examples) for batch in data.unlabeled_batches()) == 30
    assert all(batch.heads is None for batch in data.unlabeled_batches())
