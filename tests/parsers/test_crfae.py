"""CRFAE: its features, both of its objectives, its decoder and its optimiser."""

from collections import Counter

import pytest
import torch

import tritree
from parsers.crfae import MAX_ROWS, AdaGradL1, Features
from parsers.system import Context
from parsers.training.processes import Group
from tests.oracle import projective_trees
from tests.parsers.helpers import NO_LABELS, build, one_batch, small_data, small_trainer, tiny_options
from tests.parsers.training.interruption import check_resumed, figures


def setting(*arguments, stage=1, epoch=1):
    """A model with random weights, Θ from the trees."""
    options = tiny_options("crfae", NO_LABELS, *arguments)
    data, vocab = small_data(options, 30, unlabeled=6)
    model = build(options, vocab).double()
    torch.nn.init.normal_(model.features.weight)
    context = Context(data, Group("cpu"), options, stage=1, epoch=1, epochs=9)
    model.begin_stage(context)
    context.stage, context.epoch = stage, epoch
    return model, data, context


def features_by_hand(tags, h, m):
    """The seven features of an arc, as text. Tags: of ROOT and of the words."""
    i, j = min(h, m), max(h, m)
    distance = next((str(d) for d in (1, 2, 3, 4, 5) if j - i == d), "6-10" if j - i <= 10 else ">10")

    def tag(k):
        return tags[k] if 0 <= k < len(tags) else "outside"

    places = [(i,), (j,), (i, j), *((i, j, k) for k in (i - 1, i + 1, j - 1, j + 1))]
    return [(distance, h < m, *map(tag, place)) for place in places]


def test_features_are_those_of_the_description():
    model, data, _ = setting()
    number, rows_of = {}, {}
    for example in data.labeled:
        batch = next(data.batches([example], 1))
        n, tags = len(example), example.pos.tolist()
        i, j = torch.triu_indices(n + 1, n + 1, 1)
        rows = model.features.rows(batch.pos, batch.is_token, i, j)[0].tolist()
        for a, b, found in zip(i.tolist(), j.tolist(), rows, strict=True):
            for h, m, column in ((a, b, 0), (b, a, 1)):
                for name, row in zip(features_by_hand(tags, h, m), found, strict=True):
                    assert number.setdefault(name, (row, column)) == (row, column)
                    assert rows_of.setdefault((row, column), name) == name
        W = model.encode(batch)[0]
        for h in range(n + 1):
            for m in range(1, n + 1):
                if h != m:
                    names = features_by_hand(tags, h, m)
                    torch.testing.assert_close(W[h, m], sum(model.features.weight[number[name]] for name in names))


def test_scores_do_not_depend_on_the_padding():
    model, data, _ = setting()
    batch = next(data.batches(data.labeled, 30))
    W = model.encode(batch)
    for example, scores in zip(batch.examples, W, strict=True):
        alone = model.encode(next(data.batches([example], 1)))[0]
        n = len(example) + 1
        torch.testing.assert_close(scores[:n, :n], alone)


def test_the_table_is_bounded():
    """Hundreds of tags would have billions of triples."""
    features = Features(300)
    assert len(features.weight) == MAX_ROWS
    pos = torch.randint(300, (3, 20))
    is_token = torch.arange(20) <= torch.tensor([[19], [7], [0]])
    assert features(pos, is_token).shape == (3, 20, 20)
    with torch.device("meta"):
        assert len(Features(20).weight) == (21 + 21**2 + 21**3) * 7


def trees_and_scores(model, batch):
    """All trees of a short sentence, with J(y) and W(y) of each."""
    n = int(batch.lengths)
    trees = projective_trees(n)
    words = torch.arange(1, n + 1)
    J, W = model.arc_scores(batch)[0].detach(), model.encode(batch)[0].detach()
    return trees, J[trees, words].sum(1), W[trees, words].sum(1)


@pytest.mark.parametrize("soft", [False, True])
def test_objectives_by_hand(soft):
    model, data, _ = setting(*["--soft"][:soft], "--gamma=0.5")
    example = next(e for e in data.labeled if 3 <= len(e) <= 5)
    batch = next(data.batches([example], 1))
    trees, J, W = trees_and_scores(model, batch)
    value = J.logsumexp(0) if soft else J.max()
    torch.testing.assert_close(model.unlabeled_loss(batch)[0], (W.logsumexp(0) - value) / 2)
    given = J[(trees == torch.tensor(example.gold)).all(1)].squeeze()
    torch.testing.assert_close(model.labeled_loss(batch)[0], W.logsumexp(0) - given)
    assert model.predict(batch, single_root=False)[0, 1:].tolist() == trees[J.argmax()].tolist()


@pytest.mark.parametrize("kind", ["labeled", "unlabeled", "soft"])
def test_gradients_are_differences_of_features(kind):
    """∇_w = Σ (1[(h, m) ∈ y*] − μ_w(h, m)) f(h, m), y* being the given tree or the best one under J; the loss is minus
    the objective."""
    model, data, _ = setting(*["--soft"][: kind == "soft"])
    batch = one_batch(data)
    loss = model.labeled_loss(batch)[0] if kind == "labeled" else model.unlabeled_loss(batch)[0]
    loss.backward()
    J, W = model.arc_scores(batch).detach(), model.encode(batch).detach()
    mu = tritree.marginals(W, batch.lengths)
    soft = tritree.marginals(J, batch.lengths)
    trees = batch.heads if kind == "labeled" else tritree.viterbi(J, batch.lengths)[1]
    expected = torch.zeros_like(model.features.weight)
    for k, n in enumerate(batch.lengths.tolist()):
        i, j = torch.triu_indices(n + 1, n + 1, 1)
        rows = model.features.rows(batch.pos[k : k + 1, : n + 1], batch.is_token[k : k + 1, : n + 1], i, j)[0]
        for a, b, features in zip(i.tolist(), j.tolist(), rows, strict=True):
            for h, m, column in ((a, b, 0), (b, a, 1)):
                if m:
                    chosen = soft[k, h, m] if kind == "soft" else float(trees[k, m] == h)
                    for row in features:
                        expected[row, column] += mu[k, h, m] - chosen
    torch.testing.assert_close(model.features.weight.grad, expected)


def theta_by_hand(model, counts, smoothing):
    P = len(model.vocab.pos)
    totals = Counter()
    for (p, _), count in counts.items():
        totals[p] += count
    return torch.tensor(
        [[(counts[p, c] + smoothing) / (totals[p] + P * smoothing) for c in range(P)] for p in range(P)],
        dtype=torch.float64,
    )


def add_tree(counts, example, heads, weight=1.0):
    for m, h in enumerate(heads, 1):
        counts[int(example.pos[h]), int(example.pos[m])] += weight


def test_theta_by_hand():
    model, data, context = setting("--smoothing=0.5", "--gamma=0.25", stage=2)
    given = Counter()
    for example in data.labeled:
        add_tree(given, example, example.gold)
    torch.testing.assert_close(model.theta, theta_by_hand(model, given, 0.5))
    both = given.copy()
    for batch in data.unlabeled_batches():
        for example, heads in zip(batch.examples, model.predict(batch, single_root=False).tolist(), strict=True):
            add_tree(both, example, heads[1 : len(example) + 1], 0.25)
    model.end_epoch(context)
    torch.testing.assert_close(model.theta, theta_by_hand(model, both, 0.5))
    assert (model.theta > 0).all()


def test_theta_of_expected_counts():
    model, data, context = setting("--soft", "--smoothing=1", stage=2)
    counts = Counter()
    for example in data.labeled:
        add_tree(counts, example, example.gold)
    for batch in data.unlabeled_batches():
        mu = tritree.marginals(model.arc_scores(batch), batch.lengths).detach()
        for example, expected in zip(batch.examples, mu.tolist(), strict=True):
            for h in range(len(example) + 1):
                for m in range(1, len(example) + 1):
                    counts[int(example.pos[h]), int(example.pos[m])] += expected[h][m]
    model.end_epoch(context)
    torch.testing.assert_close(model.theta, theta_by_hand(model, counts, 1))


def test_theta_stays_with_the_trees_in_stage_one():
    model, _, context = setting()
    before = model.theta.clone()
    model.end_epoch(context)
    assert torch.equal(model.theta, before)
    assert model.num_steps(context) == len(list(model.steps(context))) == context.data.num_labeled_batches


def test_fobos_shrinks_to_zero():
    """Weights without reason to be there become 0, exactly, and the others are as far from AdaGrad's as λ says."""
    w = torch.nn.Parameter(torch.tensor([0.3, -0.3, 0.02, -0.02, 0.0]))
    optimizer = AdaGradL1([w], rate=0.1, l1=0.5)
    w.grad = torch.tensor([1.0, -1.0, -0.1, 0.1, 0.0])
    optimizer.step()  # η = 0.1 / |g|, so each weight goes 0.1 against its gradient and then η λ towards 0
    torch.testing.assert_close(w.detach(), torch.tensor([0.15, -0.15, 0.0, 0.0, 0.0]))
    assert (w[2:] == 0).all()
    w.grad = torch.zeros(5)
    for _ in range(4):
        optimizer.step()
    assert (w == 0).all()


def test_without_l1_it_is_adagrad():
    torch.manual_seed(0)
    w, v = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    ours, theirs = AdaGradL1([w], rate=0.1, l1=0), torch.optim.Adagrad([v], lr=0.1)
    for _ in range(5):
        w.grad = v.grad = torch.randn(4)
        ours.step()
        theirs.step()
    torch.testing.assert_close(w, v)


def test_l1_leaves_few_features(tmp_path):
    counts = []
    for l1 in ("0", "0.001", "1"):
        options = tiny_options("crfae", f"--l1={l1}", "--epochs=3")
        counts.append(small_trainer(options, tmp_path / l1).train().history[-2]["features"])
    assert counts[0] > 2 * counts[1] > 0 == counts[2]


def test_interrupted_runs_end_the_same(tmp_path):
    options = tiny_options("crfae", "--epochs=2", "--patience=9", "--fp16")
    whole = small_trainer(options, tmp_path / "whole", unlabeled=8)
    expected = figures(whole.train().history)
    assert [record["stage"] for record in expected[:-1]] == [1, 1, 2, 2]
    check_resumed(whole, after=(3, 13, 22), unlabeled=8)
