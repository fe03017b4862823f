"""Code written for supar 1.1.4 and torch-struct 0.5 runs with tritree's classes instead: same losses, gradients, trees.

And where the originals fail, the stand-ins do not. Needs the two packages: pip install '.[perf]'.
"""

import importlib
import warnings

import pytest
import torch
from torch import nn

from tests.oracle import Oracle
from tritree.compat import supar as our_supar
from tritree.compat import torch_struct as our_struct

# What the originals, written for older versions of torch, warn about.
pytestmark = pytest.mark.filterwarnings("ignore")

INF = float("inf")
LENGTHS = torch.tensor([7, 5, 1])
HEADS = torch.tensor([[0, 2, 0, 2, 3, 6, 4, 2], [0, 0, 1, 1, 5, 3, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]])
"""[3, 8]: trees with a single root, as supar has them."""


def original(package, module):
    """A module of a package that may be missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[perf]'")
        return importlib.import_module(module)


@pytest.fixture
def supar():
    return original("supar", "supar.structs")


@pytest.fixture
def torch_struct():
    return original("torch_struct", "torch_struct")


class SuparTraining:
    """supar's CRF model on a few sentences: its forward, loss and decode, as its parser calls them."""

    def __init__(self, models, steps=12, mbr=True):
        torch.manual_seed(1)
        self.model = models.CRFDependencyModel(
            n_words=40, n_rels=4, n_tags=6, feat=["tag"], n_embed=12, n_pretrained=12, n_feat_embed=8,
            n_lstm_hidden=10, n_lstm_layers=1, n_arc_mlp=12, n_rel_mlp=6, proj=True,
        )  # fmt: skip
        nn.init.normal_(self.model.arc_attn.weight)  # supar begins with zeros: many trees are equally good
        self.model.double()  # Adam makes rounding errors of small gradients large
        optimizer = torch.optim.Adam(self.model.parameters(), 2e-2)
        position = torch.arange(LENGTHS.max() + 1)
        padding = position > LENGTHS[:, None]
        words = torch.randint(1, 40, padding.shape).masked_fill(padding, self.model.args.pad_index)
        tags, rels = torch.randint(0, 6, padding.shape), torch.randint(0, 4, padding.shape)
        mask = ~padding & (position > 0)
        self.losses, self.marginals, self.trees = [], [], []
        for _ in range(steps):  # dropout is on, and the same in each run
            s_arc, s_rel = self.model(words, [tags])
            loss, s_arc = self.model.loss(s_arc, s_rel, HEADS, rels, mask, mbr=mbr)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.losses.append(loss.detach())
            self.marginals.append(s_arc.detach())
            self.trees.append(self.model.decode(s_arc, s_rel, mask, tree=True, proj=True)[0])
        self.gradients = {name: p.grad for name, p in self.model.named_parameters()}


@pytest.mark.parametrize("mbr", [True, False])
def test_supar_model(mbr, monkeypatch):
    models = original("supar", "supar.models.dep")
    theirs = SuparTraining(models, mbr=mbr)
    used = []
    monkeypatch.setattr(models, "DependencyCRF", lambda *args: used.append(our_supar.DependencyCRF(*args)) or used[-1])
    ours = SuparTraining(models, mbr=mbr)
    assert len(used) >= 12
    torch.testing.assert_close(ours.losses, theirs.losses)
    torch.testing.assert_close(ours.marginals, theirs.marginals)
    torch.testing.assert_close(ours.gradients, theirs.gradients)
    torch.testing.assert_close(ours.trees, theirs.trees)
    assert theirs.losses[-1] < theirs.losses[0]


def gradients(functions, scores):
    """Of values by name, which count once in the first sentence, twice in the second and so on."""
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    return {
        name: torch.autograd.grad((value * weights[: len(value)]).sum(), scores, retain_graph=True)[0]
        for name, value in functions.items()
    }


def test_supar_properties(supar):
    """All that the original has and that works there, with its gradients."""
    scores, other = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    for multiroot in (False, True):
        results = []
        for crf in (supar.DependencyCRF, our_supar.DependencyCRF):
            s, t = scores.clone().requires_grad_(), other.clone().requires_grad_()
            p, q = crf(s, LENGTHS, multiroot), crf(t, lens=LENGTHS, multiroot=multiroot)
            functions = {
                "log_partition": p.log_partition, "max": p.max, "entropy": p.entropy, "kl": p.kl(q),
                "cross_entropy": p.cross_entropy(q), "score": p.score(HEADS), "log_prob": p.log_prob(HEADS),
                "kmax": p.kmax(3)[:2].sum(-1), "marginals": p.marginals.square().sum((-1, -2)),
            }  # fmt: skip
            trees = p.argmax, p.mode, p.topk(3)[:2], p.mask, p.lens
            results.append((functions, gradients(functions, s), p.marginals, trees, repr(p)))
        torch.testing.assert_close(results[1][:4], results[0][:4])
        assert results[1][4] == results[0][4]


def test_supar_half_precision(supar):
    scores = 4 * torch.randn(3, 8, 8).half()
    with pytest.raises(RuntimeError, match="overflow"):
        _ = supar.DependencyCRF(scores.clone(), LENGTHS).log_partition
    log_z = our_supar.DependencyCRF(scores, LENGTHS).log_partition
    torch.testing.assert_close(log_z, supar.DependencyCRF(scores.float(), LENGTHS).log_partition.detach())


def test_supar_samples(supar):
    scores = torch.randn(3, 8, 8)
    with pytest.raises(AttributeError, match="movedim"):
        supar.DependencyCRF(scores.clone(), LENGTHS).sample()
    dist = our_supar.DependencyCRF(scores, LENGTHS)
    assert dist.sample().shape == HEADS.shape and dist.log_prob(dist.sample()).isfinite().all()


@pytest.mark.parametrize("multiroot", [False, True])
def test_supar_partial_trees(supar, multiroot):
    """The original builds a new distribution with its mask as the lengths, and without multiroot."""
    scores = torch.randn(3, 8, 8, dtype=torch.float64)
    partial = HEADS.masked_fill(torch.rand(HEADS.shape) < 0.5, -1)
    with pytest.raises(IndexError):
        supar.DependencyCRF(scores.clone(), LENGTHS, multiroot).log_prob(partial, partial=True)
    log_prob = our_supar.DependencyCRF(scores, LENGTHS, multiroot).log_prob(partial, partial=True)
    for b in (1, 2):  # seven words are too many to enumerate
        n = LENGTHS[b]
        oracle = Oracle(scores[b].mT, int(n), single_root=not multiroot)
        torch.testing.assert_close(log_prob[b], oracle.log_prob(partial[b, 1 : n + 1]))


def test_supar_leaves_the_scores_alone(supar):
    for crf, modified in ((supar.DependencyCRF, True), (our_supar.DependencyCRF, False)):
        scores = torch.randn(3, 8, 8)
        crf(scores, LENGTHS)
        assert scores.requires_grad == modified


def test_supar_forbidden_arcs(supar):
    """−inf is a NaN in the original; its own sentinel, −1e32, gives the same as −inf here."""
    scores = torch.randn(3, 8, 8)
    scores[:, 2, 1] = -INF
    assert supar.DependencyCRF(scores.clone(), LENGTHS).marginals.isnan().any()
    dist = our_supar.DependencyCRF(scores, LENGTHS)
    sentinel = scores.nan_to_num(neginf=-1e32)
    torch.testing.assert_close(dist.marginals, our_supar.DependencyCRF(sentinel, LENGTHS).marginals)
    torch.testing.assert_close(dist.marginals, supar.DependencyCRF(sentinel.clone(), LENGTHS).marginals.detach())


class StructTraining:
    """A parser with a bilinear scorer and roots on the diagonal, as in torch-struct's example with BERT."""

    def __init__(self, crf, steps=5):
        torch.manual_seed(2)
        N, hidden = int(LENGTHS.max()), 10
        embedding, bilinear, root = nn.Embedding(30, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
        layers = nn.ModuleList([embedding, bilinear, root]).double()
        optimizer = torch.optim.Adam(layers.parameters(), 0.1)
        words, label = torch.randint(0, 30, (3, N)), HEADS[:, 1:]
        self.losses, self.trees = [], []
        for _ in range(steps):
            out = embedding(words)
            final = torch.einsum("bnh,bmh->bnm", bilinear(out), out) + torch.diag_embed(root(out).squeeze(-1))
            dist = crf(final, lengths=LENGTHS)
            labels = dist.struct.to_parts(label, lengths=LENGTHS).type_as(final)
            loss = -dist.log_prob(labels).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.losses.append(loss.detach())
            self.trees.append(dist.argmax)
            self.wrong = (dist.argmax - labels).abs().sum() / 2
        self.gradients = {name: p.grad for name, p in layers.named_parameters()}


def test_torch_struct_training(torch_struct):
    theirs, ours = StructTraining(torch_struct.DependencyCRF), StructTraining(our_struct.DependencyCRF)
    torch.testing.assert_close(ours.losses, theirs.losses)
    torch.testing.assert_close(ours.trees, theirs.trees)
    torch.testing.assert_close(ours.gradients, theirs.gradients)
    assert ours.wrong == theirs.wrong and theirs.losses[-1] < theirs.losses[0]


@pytest.mark.parametrize("labels", [(), (2,)])
@pytest.mark.parametrize("multiroot", [False, True])
def test_torch_struct_properties(torch_struct, labels, multiroot):
    """All that the original has and that works there, with its gradients; potentials without and with labels."""
    potentials = torch.randn(3, 7, 7, *labels, dtype=torch.float64)
    results = []
    for crf in (torch_struct.DependencyCRF, our_struct.DependencyCRF):
        s = potentials.clone().requires_grad_()
        dist = crf(s, LENGTHS, multiroot=multiroot)
        functions = {
            "partition": dist.partition, "max": dist.max, "entropy": dist.entropy, "kmax": dist.kmax(3)[:, :2].sum(0),
            "log_prob": dist.log_prob(dist.argmax), "marginals": dist.marginals.square().flatten(1).sum(-1),
        }  # fmt: skip
        events = dist.argmax, dist.mode, dist.topk(3)[:, :2], dist.marginals
        shapes = dist.sample((4,)).shape, dist.batch_shape, dist.event_shape, dist.args
        results.append((functions, gradients(functions, s), events, shapes))
    torch.testing.assert_close(results[1][:3], results[0][:3])
    assert results[1][3] == results[0][3]


def test_torch_struct_heads_and_events(torch_struct):
    potentials = torch.randn(3, 7, 7, requires_grad=True)
    theirs, ours = (c(potentials, LENGTHS) for c in (torch_struct.DependencyCRF, our_struct.DependencyCRF))
    sequence = HEADS[:, 1:]
    event = theirs.struct.to_parts(sequence, lengths=LENGTHS)
    assert torch.equal(ours.struct.to_parts(sequence, lengths=LENGTHS), event)
    assert torch.equal(ours.to_event(sequence, None), theirs.to_event(sequence, None))
    assert torch.equal(ours.from_event(event)[0], theirs.from_event(event)[0])
    # The original's to_event ignores its lengths.
    assert not torch.equal(theirs.to_event(sequence, None, LENGTHS), event)
    assert torch.equal(ours.to_event(sequence, None, LENGTHS), event)


def test_torch_struct_divergence(torch_struct):
    p, q = torch.randn(2, 3, 7, 7, dtype=torch.float64, requires_grad=True)
    theirs = [torch_struct.DependencyCRF(s, LENGTHS) for s in (p, q)]
    for function in (theirs[0].kl, theirs[0].cross_entropy):
        with pytest.raises(AttributeError, match="'list' object has no attribute 'dim'"):
            function(theirs[1])
    ours = [our_struct.DependencyCRF(s, LENGTHS) for s in (p, q)]
    expected = ours[1].partition - (theirs[0].marginals * q).sum((-1, -2))
    torch.testing.assert_close(ours[0].cross_entropy(ours[1]), expected)
    torch.testing.assert_close(ours[0].kl(ours[1]), expected - theirs[0].entropy)


def test_torch_struct_without_gradients(torch_struct):
    """Potentials that require no gradient, as torch-struct's README has them, and the number of trees."""
    potentials = torch.randn(3, 7, 7)
    with pytest.raises(RuntimeError, match="in-place operation"):
        _ = torch_struct.DependencyCRF(potentials, LENGTHS).partition
    with pytest.raises(RuntimeError, match="in-place operation"):
        _ = torch_struct.DependencyCRF(potentials.clone().requires_grad_(), LENGTHS).count
    dist = our_struct.DependencyCRF(potentials, LENGTHS)
    right = torch_struct.DependencyCRF(potentials.clone().requires_grad_(), LENGTHS)
    torch.testing.assert_close(dist.partition, right.partition.detach())
    torch.testing.assert_close(dist.marginals, right.marginals.detach())
    assert dist.count.tolist() == [7752, 273, 1]


def test_torch_struct_forbidden_arcs(torch_struct):
    potentials = torch.randn(3, 7, 7)
    potentials[:, 1, 0] = -INF
    leaf = potentials.clone().requires_grad_()
    theirs = torch_struct.DependencyCRF(leaf, LENGTHS)
    assert theirs.log_prob(theirs.argmax).isnan().all()
    ours = our_struct.DependencyCRF(potentials, LENGTHS)
    assert ours.log_prob(ours.argmax).isfinite().all() and ours.marginals[:, 1, 0].eq(0).all()
    finite = torch_struct.DependencyCRF(potentials.nan_to_num(neginf=-1e4).requires_grad_(), LENGTHS)
    torch.testing.assert_close(ours.partition, finite.partition.detach())
    torch.testing.assert_close(ours.log_prob(ours.argmax), finite.log_prob(finite.argmax).detach())


def test_torch_struct_two_distributions_at_a_time(torch_struct):
    """The original keeps `multiroot` in a class: the distribution that was made last decides for all."""
    potentials = torch.randn(3, 7, 7, requires_grad=True)
    alone = torch_struct.DependencyCRF(potentials, LENGTHS).partition
    for crf, independent in ((torch_struct.DependencyCRF, False), (our_struct.DependencyCRF, True)):
        first = crf(potentials, LENGTHS, multiroot=True)
        crf(potentials, LENGTHS, multiroot=False)
        assert torch.allclose(first.partition, alone) == independent
