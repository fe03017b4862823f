"""GAP: Θ against counts by hand, both powers and their limit, the ELBO, the sum over processes, what is saved."""

import math
import threading

import pytest
import torch

import tritree
from parsers.data.batches import tree_arcs
from parsers.data.vocabulary import ROOT, UNKNOWN
from parsers.gap import elbo
from parsers.networks.theta import Counts, Theta
from parsers.system import Context
from parsers.training.processes import Group
from tests.oracle import projective_trees
from tests.parsers.helpers import NO_LABELS, build, one_batch, small_data, small_trainer, tiny_options
from tests.parsers.training.interruption import check_resumed


def gap(*arguments, count=6, unlabeled=5, epoch=1):
    """A model at the beginning of an epoch, its options' data, and the context."""
    options = tiny_options("gap", NO_LABELS, *arguments)
    data, vocab = small_data(options, count, unlabeled)
    model = build(options, vocab).double().requires_grad_(False)
    context = Context(data, Group("cpu"), options, stage=1, epoch=epoch, epochs=options.epochs)
    model.begin_stage(context)
    model.begin_epoch(context)
    return model, data, context


def counts(*pairs, num_modifiers=3, **sizes):
    """From (h, m, expectation)."""
    buffer = Counts(num_modifiers, **sizes)
    h, m, expectations = map(torch.tensor, zip(*pairs, strict=True))
    buffer.add(h, m, expectations)
    buffer.merge()
    return buffer


def test_theta_by_hand():
    """Heads 0 to 2, modifiers 0 to 2, κ = 2."""
    theta = Theta(3, 3, smoothing=2.0)
    theta.renew(counts((0, 1, 1.0), (0, 1, 0.5), (0, 2, 0.5), (1, 2, 2.0)))
    prior = [(0 + 1) / 7, (1.5 + 1) / 7, (2.5 + 1) / 7]
    expected = [
        [(0 + 2 * prior[0]) / 4, (1.5 + 2 * prior[1]) / 4, (0.5 + 2 * prior[2]) / 4],
        [(0 + 2 * prior[0]) / 4, (0 + 2 * prior[1]) / 4, (2 + 2 * prior[2]) / 4],
        prior,  # a head without counts
    ]
    h, m = torch.meshgrid(torch.arange(3), torch.arange(3), indexing="ij")
    torch.testing.assert_close(theta.log_prob(h, m).exp(), torch.tensor(expected, dtype=torch.float64))
    empty = Theta(3, 3, smoothing=2.0)
    torch.testing.assert_close(empty.log_prob(h, m), torch.full((3, 3), -math.log(3), dtype=torch.float64))


def test_the_largest_counts_are_kept():
    buffer = counts((0, 0, 0.1), (1, 1, 0.9), (2, 2, 0.3), (0, 0, 0.1), (2, 0, 0.0), max_cells=2)
    assert buffer.keys.tolist() == [4, 8] and buffer.sums.tolist() == pytest.approx([0.9, 0.3])


def test_theta_of_trees_by_hand():
    """Words: the number of trees' arcs h → m; ROOT is a head; words seen once are one word."""
    model, data, _ = gap("--theta=words", "--smoothing=3")
    seen = torch.bincount(torch.cat([torch.from_numpy(e.words[1:]) for e in [*data.labeled, *data.unlabeled]]))
    rare = {w for w, n in enumerate(seen.tolist()) if n == 1}
    arcs = []
    for example in data.labeled:
        words = [UNKNOWN if w in rare else w for w in example.words.tolist()]
        arcs += [(words[h], words[m]) for m, h in enumerate(example.heads[1:].tolist(), 1)]
    V = len(model.vocab.words)
    for h, m in {*arcs, (ROOT, UNKNOWN), (arcs[0][1], arcs[0][1])}:
        prior = (sum(b == m for _, b in arcs) + 1) / (len(arcs) + V)
        expected = (arcs.count((h, m)) + 3 * prior) / (sum(a == h for a, _ in arcs) + 3)
        assert model.theta.log_prob(torch.tensor(h), torch.tensor(m)).exp().item() == pytest.approx(expected)
    assert any(h == ROOT for h, _ in arcs) and any(UNKNOWN in arc for arc in arcs)
    assert model.theta.log_prob(torch.full((V,), ROOT), torch.arange(V)).exp().sum().item() == pytest.approx(1)


def test_tags_and_places():
    """--theta tags: to the right 1, 2, 3, 4–5, 6–10, more; the same to the left; all distributions sum to 1."""
    model, data, _ = gap("--theta=tags")
    batch = next(data.batches([max(data.labeled, key=len)], 1))
    h, m = (events[0] for events in model.decoder_events(batch))
    pos, N = batch.pos[0], batch.N
    assert all(h[i, j] == pos[i] and m[i, j] // 12 == pos[j] for i in range(N) for j in range(N))
    places = m[0] % 12
    assert places[1:14].tolist() == [0, 1, 2, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5][: N - 1]
    assert (m[1:, 1] % 12)[1:6].tolist() == [6, 7, 8, 9, 9][: N - 2]
    every = torch.arange(model.theta.num_modifiers)
    for head in range(len(model.vocab.pos)):
        assert model.theta.log_prob(torch.full_like(every, head), every).exp().sum().item() == pytest.approx(1)


def tree_probabilities(s):
    """All trees of one sentence and the exponentials of their scores."""
    trees = projective_trees(len(s) - 1)
    words = torch.arange(1, len(s))
    return trees, torch.stack([s[torch.as_tensor(tree), words].sum() for tree in trees.tolist()]).exp()


def arc_sums(trees, weights, N):
    sums = torch.zeros(N, N, dtype=torch.float64)
    for tree, weight in zip(trees.tolist(), weights, strict=True):
        for m, h in enumerate(tree, 1):
            sums[h, m] += weight
    return sums


@pytest.mark.parametrize("sigma", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("power", ["arc", "tree"])
def test_both_powers(power, sigma):
    model, _, _ = gap(f"--power={power}")
    s = torch.randn(1, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    trees, weights = tree_probabilities(s[0])
    if power == "tree":
        weights = weights ** (1 / (1 - sigma))
    expected = arc_sums(trees, weights / weights.sum(), 5)
    if power == "arc":
        expected = expected ** (1 / (1 - sigma))
    model.sigma = sigma
    torch.testing.assert_close(model.expectations(model.posterior(s, torch.tensor([4])))[0], expected)


@pytest.mark.parametrize("power", ["arc", "tree"])
def test_at_one_the_best_tree_is_counted(power):
    model, *_ = gap(f"--power={power}")
    assert model.sigma == 1
    s = torch.randn(3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    lengths = torch.tensor([5, 3, 0])
    best = tree_arcs(tritree.viterbi(s, lengths)[1]).double()
    torch.testing.assert_close(model.expectations(model.posterior(s, lengths)), best)
    model.sigma = 0.999  # the limit is what it tends to
    if power == "tree":
        torch.testing.assert_close(model.expectations(model.posterior(s, lengths)), best, atol=1e-6, rtol=0)


def test_sigma_goes_down():
    model, _, context = gap("--epochs=9", "--sigma=0.2")
    sigmas = []
    for context.epoch in range(1, 10):
        model.begin_epoch(context)
        sigmas.append(model.sigma)
    assert sigmas == pytest.approx([1, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2, 0.2, 0.2])


@pytest.mark.parametrize("theta", ["words", "tags"])
def test_elbo(theta):
    """For the posterior it is log U − log Z, for other distributions it is less."""
    model, data, _ = gap(f"--theta={theta}")
    batch = one_batch(data)
    s, log_theta = model.encode(batch)[0], model.log_theta(batch)
    P, posterior = (tritree.TreeCRF(scores, batch.lengths) for scores in (s, s + log_theta))
    J_u = tritree.log_partition(s + log_theta, batch.lengths) - tritree.log_partition(s, batch.lengths)
    reconstruction, kl = elbo(posterior, P, log_theta)
    torch.testing.assert_close(reconstruction - kl, J_u, rtol=0, atol=1e-9)
    for model.sigma in (1.0, 0.5):
        reconstruction, kl = elbo(model.posterior(s + log_theta, batch.lengths), P, log_theta)
        assert (reconstruction - kl < J_u - 1e-6).all()
    best = tritree.viterbi(s + log_theta, batch.lengths)[1]
    model.sigma = 1.0
    _, kl = elbo(model.posterior(s + log_theta, batch.lengths), P, log_theta)
    torch.testing.assert_close(kl, -P.log_prob(best))


def test_labeled_loss():
    """−log P(x, T), and for the encoder no other gradient than that of NTP."""
    model, data, _ = gap("--theta-weight=1")
    ntp = build(tiny_options("ntp", NO_LABELS), model.vocab).double()
    ntp.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith(("theta", "teacher"))})
    model.requires_grad_(True)
    batch = one_batch(data)
    loss, metrics = model.labeled_loss(batch)
    words = torch.arange(batch.N)
    s1 = model.arc_scores(batch)
    joint = torch.stack([
        row[heads[1 : n + 1], words[1 : n + 1]].sum()
        for row, heads, n in zip(s1, batch.heads, batch.lengths.tolist(), strict=True)
    ])  # fmt: skip
    log_z = tritree.log_partition(model.encode(batch)[0], batch.lengths)
    torch.testing.assert_close(loss, (log_z - joint).sum())
    torch.testing.assert_close(metrics["tree_loss"], ntp.labeled_loss(batch)[0])
    torch.testing.assert_close(metrics["parse_loss"], metrics["tree_loss"])  # without labels
    model.theta.totals.add_(7)  # another Θ: the loss changes, and what is shown of it does not
    other, metrics = model.labeled_loss(batch)
    assert other != loss
    torch.testing.assert_close(metrics["parse_loss"], metrics["tree_loss"])
    loss.backward()
    ntp.labeled_loss(batch)[0].backward()
    found = dict(model.named_parameters())
    for name, parameter in ntp.named_parameters():
        torch.testing.assert_close(found[name].grad, parameter.grad, msg=name)


@pytest.mark.parametrize("sigma", [0.0, 0.4, 1.0])
def test_unlabeled_loss(sigma):
    """W times the ELBO of Q, regularised; the gradient is the arcs of P less those of Q, and the same if Q is fixed."""
    model, data, _ = gap("--unlabeled-weight=2", "--posterior=moving", "--theta-weight=0.7")
    model.sigma = sigma
    batch = next(data.unlabeled_batches())
    s, log_theta = model.encode(batch)[0].requires_grad_(), 0.7 * model.log_theta(batch)
    P, Q = tritree.TreeCRF(s, batch.lengths), model.posterior((s + log_theta).detach(), batch.lengths)
    reconstruction, kl = elbo(Q, P, log_theta)
    model.encode = lambda batch: (s, None)
    loss, _ = model.unlabeled_loss(batch)
    torch.testing.assert_close(loss, -2 * (reconstruction - kl - sigma * Q.entropy()).sum())
    loss.backward()
    torch.testing.assert_close(s.grad, 2 * (P.marginals - Q.marginals))
    (grad,) = torch.autograd.grad(2 * torch.distributions.kl_divergence(Q, P).sum(), s)
    torch.testing.assert_close(grad, s.grad)


def test_the_teacher():
    """In the second stage a new encoder learns from Q of the best parser before it, without dropout."""
    model, data, context = gap("--unlabeled-weight=2")
    model.theta_weight.fill_(0.6)
    batch = next(data.unlabeled_batches())
    Q = tritree.TreeCRF(model.arc_scores(batch) / 0.7, batch.lengths)
    old = model.scorer.weight.clone()
    context.stage = 2
    assert model.begin_stage(context)  # forget what was best
    model.begin_epoch(context)
    assert model.sigma == 0.3 and model.teacher_weight == 0.6 and not torch.equal(model.scorer.weight, old)
    model.theta_weight.fill_(0)
    P = tritree.TreeCRF(model.encode(batch.draw("dropout"))[0], batch.lengths)
    loss, _ = model.unlabeled_loss(batch.draw("dropout"))
    torch.testing.assert_close(loss, 2 * torch.distributions.kl_divergence(Q, P).sum())


@pytest.mark.parametrize("posterior", ["fixed", "moving"])
def test_the_encoder_learns_from_unlabelled_sentences_unless_told_not_to(tmp_path, posterior):
    plain, both = (
        small_trainer(
            tiny_options("gap", "--epochs=1", f"--posterior={posterior}", *extra), tmp_path / name, unlabeled=9
        )
        .train()
        .history[:-1]
        for name, extra in (("plain", ["--unlabeled-weight=0"]), ("both", []))
    )
    assert len(plain) == 1 and "unlabeled_loss" not in plain[0]
    assert [record["stage"] for record in both] == [1, 2] and "unlabeled_loss" not in both[0]
    assert math.isfinite(both[1]["unlabeled_loss"])


def test_an_epoch_by_hand():
    """Θ after it has the arcs of the trees and the expected ones of the other sentences."""
    model, data, context = gap("--epochs=3", "--theta-weight=0.4", "--sigma=0.3", "--power=tree", epoch=2)
    assert model.sigma == pytest.approx(0.3)
    old = model.theta.counts.sum()
    assert old == sum(map(len, data.labeled))
    expected = torch.zeros(model.theta.num_heads * model.theta.num_modifiers, dtype=torch.float64)
    for examples in (data.labeled, data.unlabeled):
        for batch in data.batches(examples, 1):
            h, m = model.decoder_events(batch)
            arcs = tree_arcs(batch.heads) if batch.heads is not None else tritree.marginals(
                model.arc_scores(batch) / 0.7
            )  # fmt: skip
            expected.index_add_(0, (h * model.theta.num_modifiers + m).flatten(), arcs.flatten().double())
    record = model.end_epoch(context)
    found = torch.zeros_like(expected)
    found[model.theta.keys] = model.theta.counts
    torch.testing.assert_close(found, expected)
    assert model.theta.counts.sum().item() == pytest.approx(sum(map(len, [*data.labeled, *data.unlabeled])))
    assert record["elbo"] < record["log_likelihood"] < 0 and record["theta_weight"] == 0.4


def test_without_unlabelled_sentences():
    model, _, context = gap(unlabeled=0)
    before = [tensor.clone() for tensor in model.theta.state_dict().values()]
    assert "elbo" not in model.end_epoch(context)
    assert all(torch.equal(a, b) for a, b in zip(before, model.theta.state_dict().values(), strict=True))


def test_trees_that_are_forgotten():
    """With --tree-counts first, only the first epoch's B has them; without text there is nothing else to count."""
    for counted, epoch, with_trees in (("always", 2, True), ("first", 1, True), ("first", 2, False)):
        model, data, context = gap("--sigma=0", f"--tree-counts={counted}", epoch=epoch)
        model.end_epoch(context)
        expected = sum(map(len, data.unlabeled)) + with_trees * sum(map(len, data.labeled))
        assert model.theta.totals.sum().item() == pytest.approx(expected)
    model, data, context = gap("--tree-counts=first", epoch=2, unlabeled=0)
    model.end_epoch(context)
    assert model.theta.totals.sum() == sum(map(len, data.labeled))


def test_words_of_the_text_are_unknown_in_the_first_stage():
    model, _, context = gap("--encoder-words=all", unlabeled=40)
    model.end_epoch(context)
    table, known = model.encoder.word.weight, model.vocab.num_labeled
    assert len(table) > known and torch.equal(table[known:], table[UNKNOWN].expand_as(table[known:]))
    assert not torch.equal(table[2], table[UNKNOWN])


def test_the_weight_is_chosen_on_the_dev_set():
    """The encoder has no opinion, so Θ decides; with scores of the right trees, no weight is needed."""
    model, data, context = gap()
    model.encode = lambda batch: (torch.zeros_like(model.log_theta(batch)), None)
    model.choose_weight(context)
    assert model.theta_weight > 0
    gold = {id(e): torch.tensor([-1, *e.gold]) for e in data.dev}

    def certain(batch):
        heads = torch.full(batch.words.shape, -1)
        for row, example in zip(heads, batch.examples, strict=True):
            row[: len(example) + 1] = gold[id(example)]
        return 1000.0 * tree_arcs(heads), None

    model.encode = certain
    model.choose_weight(context)
    assert model.theta_weight == 0


class Threads(Group):
    """Processes played by threads that meet at a barrier."""

    barrier, table = threading.Barrier(2), {}

    def __init__(self, rank):
        super().__init__("cpu")
        self.rank, self.world = rank, 2

    def sum_(self, tensor):
        self.table[self.rank] = tensor.clone()
        self.barrier.wait(60)
        tensor.copy_(self.table[0] + self.table[1])
        self.barrier.wait(60)
        return tensor

    def sum_numbers(self, numbers):
        return self.sum_(torch.tensor(numbers, dtype=torch.float64)).tolist()


def test_two_processes_count_as_one():
    whole, _, context = gap("--theta=words")
    expected = whole.end_epoch(context)
    parts = [gap("--theta=words") for _ in range(2)]
    records = {}

    def work(rank):
        model, data, context = parts[rank]
        data.place(rank, 2, torch.device("cpu"))
        context.group = Threads(rank)
        model.begin_stage(context)
        records[rank] = model.end_epoch(context)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for rank, (model, *_) in enumerate(parts):
        assert torch.equal(model.theta.keys, whole.theta.keys)
        torch.testing.assert_close(model.theta.state_dict(), whole.theta.state_dict())
        assert records[rank] == pytest.approx(expected)


def test_theta_survives_an_interruption(tmp_path):
    options = tiny_options("gap", "--epochs=2", "--unlabeled-weight=0.5")
    whole = small_trainer(options, tmp_path / "whole", count=8, unlabeled=9)
    whole.train()
    check_resumed(whole, after=(3, 7), count=8, unlabeled=9)
    loaded, *_ = whole.run.load_model(options, torch.device("cpu"))
    assert torch.equal(loaded.theta.counts, whole.model.theta.counts) and len(loaded.theta.counts)


def test_fifty_thousand_words_are_little():
    """Θ of 50,000 types from more pairs than are kept: at most 100 MB."""
    V, generator = 50_000, torch.Generator().manual_seed(0)
    buffer = Counts(V)
    for _ in range(12):
        h, m = (torch.randint(V, (500_000,), generator=generator) for _ in range(2))
        buffer.add(h, m, torch.rand(500_000, generator=generator))
    buffer.merge()
    theta = Theta(V, V, smoothing=5.0)
    theta.renew(buffer)
    assert sum(tensor.nbytes for tensor in theta.state_dict().values()) < 100 * 10**6
    assert len(theta.keys) == 2**22 and (theta.keys[1:] > theta.keys[:-1]).all()
    h = theta.keys[:1] // V
    sums = theta.log_prob(h.expand(V), torch.arange(V)).exp().sum().item()
    assert sums == pytest.approx(1)
