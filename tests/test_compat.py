"""The stand-ins for supar and torch-struct against the enumeration of all trees; neither has to be installed."""

import itertools
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from torch.autograd import gradcheck

import tritree
from tests.cases import assert_close, cases, make_case, rounding
from tests.oracle import Oracle, number_of_trees, projective_trees
from tests.test_sample import chi_squared_is_plausible
from tritree.chart import result_dtype
from tritree.compat import supar, torch_struct

INF = float("inf")
ALL_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Supar:
    """[modifier, head]; trees are heads with 0 at ROOT and in the padding."""

    log_z = "log_partition"

    @staticmethod
    def scores(ours):
        return ours.mT

    @staticmethod
    def crf(scores, lengths, single_root=False):
        return supar.DependencyCRF(scores, lengths, multiroot=not single_root)

    @staticmethod
    def arcs(theirs):
        return theirs.mT

    @staticmethod
    def heads(trees, lengths):
        """Back to tritree's heads, [*, B, N]."""
        position = torch.arange(trees.shape[-1])
        word = (position > 0) & (position <= lengths[:, None])
        assert (trees[~word.expand(trees.shape)] == 0).all()
        return torch.where(word, trees, -1)

    @staticmethod
    def tree(heads):
        return heads.clamp(min=0)

    @staticmethod
    def kmax(dist, k):
        return dist.kmax(k)

    @staticmethod
    def topk(dist, k):
        return dist.topk(k).movedim(-1, 0)


class TorchStruct:
    """[head, modifier] without ROOT, whose arcs are on the diagonal; trees are one-hot."""

    log_z = "partition"

    @staticmethod
    def scores(ours):
        N = ours.shape[-1]
        root = ours[..., :1, 1:].expand(*ours.shape[:-2], N - 1, N - 1)
        return torch.where(torch.eye(N - 1, dtype=torch.bool), root, ours[..., 1:, 1:])

    @staticmethod
    def crf(scores, lengths, single_root=False):
        return torch_struct.DependencyCRF(scores, lengths, multiroot=not single_root)

    @staticmethod
    def arcs(theirs):
        N = theirs.shape[-1] + 1
        ours = theirs.new_zeros(*theirs.shape[:-2], N, N)
        for m in range(1, N):
            for h in range(1, N):
                ours[..., 0 if h == m else h, m] = theirs[..., h - 1, m - 1]
        return ours

    @staticmethod
    def heads(trees, lengths):
        assert ((trees == 0) | (trees == 1)).all() and (trees.sum(-2) <= 1).all()
        arcs = TorchStruct.arcs(trees)
        return torch.where(arcs.any(-2), arcs.argmax(-2), -1)

    @staticmethod
    def tree(heads):
        N = heads.shape[-1]
        arcs = (heads.unsqueeze(-2) == torch.arange(N).unsqueeze(-1)).double()
        return TorchStruct.scores(arcs)

    @staticmethod
    def kmax(dist, k):
        return dist.kmax(k).movedim(0, -1)

    @staticmethod
    def topk(dist, k):
        return dist.topk(k)


@pytest.fixture(params=[Supar, TorchStruct])
def library(request):
    return request.param


def for_each_case(**kwargs):
    """Runs a test(case, library) on drawn cases."""

    def decorate(check):
        @pytest.mark.parametrize("library", [Supar, TorchStruct])
        def test(library):
            settings(max_examples=60)(given(cases(**kwargs))(lambda case: check(case, library)))()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def crf_of(case, library, scores=None):
    scores = library.scores(case.scores) if scores is None else scores
    return library.crf(scores, case.lengths, case.single_root)


def tolerance_of(case):
    """Tree scores are summed, and log Z is taken off, in the precision of the result."""
    return 4 * rounding(case, "numba") * (1 + case.magnitude)


@for_each_case(dtypes=ALL_DTYPES)
def test_log_partition_and_marginals(case, library):
    dist = crf_of(case, library)
    log_z, mu = getattr(dist, library.log_z), dist.marginals
    assert log_z.dtype == mu.dtype == result_dtype(case.scores.dtype)
    assert mu.shape == dist.batch_shape + library.scores(case.scores).shape[1:]
    assert_close(log_z, torch.stack([o.log_z for o in case.oracles()]), rounding(case, "numba"))
    assert_close(library.arcs(mu), torch.stack([o.marginals for o in case.oracles()]), rounding(case, "numba"))


@for_each_case(dtypes=ALL_DTYPES)
def test_best_trees(case, library):
    """k best in order, all different and all trees; the best one also by max, argmax and mode."""
    k = 4
    dist = crf_of(case, library)
    scores, heads = library.kmax(dist, k), library.heads(library.topk(dist, k), case.lengths)
    best = library.heads(dist.argmax, case.lengths)
    assert torch.equal(dist.mode, dist.argmax)
    for b, o in enumerate(case.oracles()):
        assert_close(dist.max[b], o.best, rounding(case, "triton"))
        expected = o.tree_scores.sort(descending=True).values[:k]
        missing = torch.full((k - len(expected),), -INF, dtype=torch.float64)
        assert_close(scores[b], torch.cat([expected, missing]), rounding(case, "triton"))
        if not o.possible:
            assert (heads[:, b, 1 : o.n + 1] == -1).all() and (best[b, 1 : o.n + 1] == -1).all()
            continue
        found = [heads[i, b, 1 : o.n + 1] for i in range(len(expected))]
        assert len({tuple(h.tolist()) for h in found}) == len(expected)
        for h, score in zip([best[b, 1 : o.n + 1], *found], [expected[0], *expected], strict=True):
            (tree,) = (o.trees == h).all(-1).nonzero()[0]
            assert_close(o.tree_scores[tree], score, rounding(case, "triton"))


def check_with_gradient(case, library, ours, theirs):
    """Compares a function of the distribution, per sentence, and its gradient."""
    scores = library.scores(case.scores).clone().requires_grad_()
    values = ours(crf_of(case, library, scores))
    scores64 = case.scores.double().requires_grad_()
    expected = torch.stack([theirs(b, o) for b, o in enumerate(case.oracles(scores64))])
    assert_close(values, expected, tolerance_of(case))
    finite = expected.isfinite()
    if not expected.requires_grad or not finite.any():
        return
    (gradient,) = torch.autograd.grad(values[finite].sum(), scores)
    (expected_gradient,) = torch.autograd.grad(expected[finite].sum(), scores64)
    assert gradient.dtype == scores.dtype
    eps = torch.finfo(gradient.dtype).eps
    assert_close(library.arcs(gradient), expected_gradient, tolerance_of(case) + eps)


@for_each_case(dtypes=ALL_DTYPES)
def test_the_gradient_of_the_log_partition(case, library):
    check_with_gradient(case, library, lambda d: getattr(d, library.log_z), lambda b, o: o.log_z)


@for_each_case(dtypes=ALL_DTYPES)
def test_entropy(case, library):
    check_with_gradient(case, library, lambda d: d.entropy, lambda b, o: o.entropy)


@for_each_case(kinds=("normal", "forbidden", "ties"))
def test_cross_entropy_and_kl(case, library):
    """Against scores that forbid other arcs, and against scores that forbid the same ones."""
    N, dtype = case.scores.shape[-1], case.scores.dtype
    unlike = make_case("forbidden", N, case.lengths.tolist(), case.single_root, dtype, "contiguous", torch.nan, 7)
    for scores in (unlike.scores, case.scores / 2):
        check_against_other(case, library, scores)


def check_against_other(case, library, other_scores):
    q, q_oracles = crf_of(case, library, library.scores(other_scores)), case.oracles(other_scores.double())

    def cross_entropy(b, oracle):
        return oracle.cross_entropy(q_oracles[b])

    check_with_gradient(case, library, lambda d: d.cross_entropy(q), cross_entropy)
    check_with_gradient(case, library, lambda d: d.kl(q), lambda b, o: cross_entropy(b, o) - o.entropy)


@for_each_case(dtypes=ALL_DTYPES)
def test_log_prob(case, library):
    """Of the first and of the last tree, forbidden ones too."""
    check_log_prob(case, library, 0)
    check_log_prob(case, library, -1)


def check_log_prob(case, library, which):
    heads = torch.full(case.scores.shape[:-1], -1)
    for b, n in enumerate(case.lengths.tolist()):
        if n:
            heads[b, 1 : n + 1] = projective_trees(n, case.single_root)[which]
    tree = library.tree(heads)
    check_with_gradient(case, library, lambda d: d.log_prob(tree), lambda b, o: o.log_prob(heads[b, 1 : o.n + 1]))


def test_the_gradient_of_kmax_is_the_trees(library):
    lengths = torch.tensor([4, 3])
    scores = library.scores(torch.randn(2, 5, 5, dtype=torch.float64)).clone().requires_grad_()
    dist = library.crf(scores, lengths)
    for k, tree in enumerate(library.topk(dist, 3)):
        (gradient,) = torch.autograd.grad(library.kmax(dist, 3)[:, k].sum(), scores)
        heads = library.heads(tree, lengths)
        assert torch.equal(library.arcs(gradient), one_hot(heads))


def one_hot(heads):
    """[*, N] → [*, N, N] with 1 at the arcs."""
    return (heads.unsqueeze(-2) == torch.arange(heads.shape[-1]).unsqueeze(-1)).double()


@pytest.mark.parametrize("single_root", [False, True])
def test_samples(library, single_root):
    lengths = torch.tensor([4, 3, 0])
    scores = torch.randn(3, 5, 5)
    scores[0, 0, 2] = -INF
    dist = library.crf(library.scores(scores), lengths, single_root)
    assert dist.sample().shape == dist.argmax.shape and dist.sample((2, 3)).shape == (2, 3, *dist.argmax.shape)
    trees = dist.sample((5000,))
    assert dist.log_prob(trees).shape == (5000, 3) and dist.log_prob(trees).isfinite().all()
    heads = library.heads(trees, lengths)
    for b, n in enumerate(lengths.tolist()):
        oracle = Oracle(scores[b].double(), n, single_root)
        which = (heads[:, b, None, 1 : n + 1] == oracle.trees).all(-1)
        assert (which.sum(-1) == 1).all(), "each sample is one of the possible trees"
        assert chi_squared_is_plausible(which.sum(0), oracle.probabilities)


def test_arguments_stay_as_they_are(library):
    """No gradient is switched on, and nothing is written."""
    scores, lengths = library.scores(torch.randn(2, 5, 5)).clone(), torch.tensor([4, 2])
    before = scores.clone()
    dist = library.crf(scores, lengths)
    results = [getattr(dist, library.log_z), dist.marginals, dist.max, dist.entropy, dist.kl(dist), dist.kmax(2)]
    results.append(dist.log_prob(dist.argmax))
    assert not scores.requires_grad and torch.equal(scores, before) and scores._version == 0
    assert not any(r.requires_grad for r in results)


def test_properties_are_computed_once(library):
    dist = library.crf(library.scores(torch.randn(2, 5, 5)), torch.tensor([4, 2]))
    for name in (library.log_z, "marginals", "max", "argmax", "mode", "entropy"):
        assert getattr(dist, name) is getattr(dist, name)


def test_a_gradient_is_kept_under_no_grad(library):
    """As in the originals, which compute their properties with gradients, whoever asks first."""
    scores = library.scores(torch.randn(2, 5, 5)).clone().requires_grad_()
    dist = library.crf(scores, torch.tensor([4, 2]))
    with torch.no_grad():
        log_z = getattr(dist, library.log_z)
    (gradient,) = torch.autograd.grad(log_z.sum(), scores)
    torch.testing.assert_close(gradient, dist.marginals.detach())


def test_what_does_not_fit_together(library):
    scores = library.scores(torch.randn(2, 5, 5))
    dist = library.crf(scores, torch.tensor([4, 2]))
    with pytest.raises(ValueError, match=r"differ in length: \[4, 2\] and \[4, 3\]"):
        dist.kl(library.crf(scores, torch.tensor([4, 3])))
    with pytest.raises(ValueError, match="differ in shape"):
        dist.cross_entropy(library.crf(library.scores(torch.randn(2, 4, 4)), torch.tensor([3, 2])))
    with pytest.raises(ValueError, match="the other distribution must be a tritree"):
        dist.kl(tritree.TreeCRF(torch.randn(2, 5, 5)))


def test_neither_library_is_needed():
    code = """
import sys
sys.modules["supar"] = sys.modules["torch_struct"] = None
import torch
from tritree.compat import supar, torch_struct
print(supar.DependencyCRF(torch.zeros(1, 3, 3)).argmax.tolist(), torch_struct.DependencyCRF(torch.zeros(1, 2, 2)).count)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[[0, 0, 1]] tensor([3.])"


@settings(max_examples=60)
@given(cases(dtypes=ALL_DTYPES))
def test_supar_partial(case):
    """Trees of which the first half of the words have a head."""
    arcs = torch.zeros(case.scores.shape[:-1], dtype=torch.int64)
    for b, n in enumerate(case.lengths.tolist()):
        if n:
            arcs[b, 1 : n + 1] = projective_trees(n, case.single_root)[-1]
            arcs[b, 1 + n // 2 : n + 1] = -1
    log_prob = lambda b, o: o.log_prob(arcs[b, 1 : o.n + 1])  # noqa: E731
    check_with_gradient(case, Supar, lambda d: d.log_prob(arcs, partial=True), log_prob)
    check_with_gradient(case, Supar, lambda d: d.score(arcs, partial=True), lambda b, o: log_prob(b, o) + o.log_z)


def test_supar_score_and_attributes():
    scores, lens = torch.randn(2, 5, 5), torch.tensor([4, 2])
    arcs = torch.tensor([[0, 2, 0, 2, 3], [0, 2, 0, 0, 0]])
    dist = supar.DependencyCRF(scores, lens)
    torch.testing.assert_close(dist.score(arcs)[1], scores[1, 1, 2] + scores[1, 2, 0])
    torch.testing.assert_close(dist.score(arcs) - dist.log_partition, dist.log_prob(arcs))
    assert dist.scores is scores and dist.lens is lens and repr(dist) == "DependencyCRF(multiroot=False)"
    assert dist.mask.tolist() == [[False, True, True, True, True], [False, True, True, False, False]]
    assert supar.DependencyCRF(scores).lens.tolist() == [4, 4]


def test_supar_refuses_arcs_that_say_nothing():
    dist = supar.DependencyCRF(torch.randn(1, 4, 4))
    for function in (dist.log_prob, dist.score):
        with pytest.raises(ValueError, match="pass partial=True"):
            function(torch.tensor([[0, 2, -1, 2]]))
        with pytest.raises(ValueError, match="a head of 4, but N is 4"):
            function(torch.tensor([[0, 2, 0, 4]]), partial=True)


@pytest.mark.parametrize("single_root", [False, True])
def test_torch_struct_counts_trees(single_root):
    lengths = [7, 0, 1, 4]
    potentials = torch.randn(4, 7, 7)
    dist = torch_struct.DependencyCRF(potentials, lengths, multiroot=not single_root)
    assert dist.count.tolist() == [number_of_trees(n, single_root) for n in lengths]
    potentials[3, 0, 0] = -INF  # the first word does not hang from ROOT
    dist = torch_struct.DependencyCRF(potentials, lengths, multiroot=not single_root)
    assert dist.count[3] == (projective_trees(4, single_root)[:, 0] != 0).sum()


def test_torch_struct_events():
    heads = torch.tensor([[2, 0, 4, 2], [0, 1, 0, 0]])
    lengths = torch.tensor([4, 2])
    dist = torch_struct.DependencyCRF(torch.randn(2, 4, 4), lengths)
    event = dist.to_event(heads, None, lengths)
    assert event.dtype == torch.int64 and event.sum((-1, -2)).tolist() == [4, 2]
    assert event[0].nonzero().tolist() == [[1, 0], [1, 1], [1, 3], [3, 2]]
    assert torch.equal(dist.from_event(event)[0], heads) and dist.from_event(event)[1] is None
    assert torch.equal(dist.struct.to_parts(heads, lengths=lengths), event)
    padded = dist.to_event(heads, None)  # heads in the padding become arcs from ROOT, which are ignored
    assert not torch.equal(padded, event) and torch.equal(dist.log_prob(padded), dist.log_prob(event))
    with pytest.raises(ValueError, match="a head is 5, but there are 4 words"):
        dist.to_event(torch.tensor([[5, 0, 1, 1]]))


def test_torch_struct_attributes():
    potentials = torch.randn(2, 4, 4)
    dist = torch_struct.DependencyCRF(potentials, args={"kept": True})
    assert dist.log_potentials is potentials and dist.lengths is None and dist.args == {"kept": True}
    assert dist.batch_shape == (2,) and dist.event_shape == (4, 4)
    torch.testing.assert_close(dist.partition, torch_struct.DependencyCRF(potentials, [4, 4]).partition)
    with pytest.raises(ValueError, match=r"\[B, N, N\] or \[B, N, N, L\], got \[2, 4, 3\]"):
        torch_struct.DependencyCRF(potentials[..., :3])
    with pytest.raises(NotImplementedError, match="relaxed_tree"):
        dist.gumbel_crf()


class LabelledOracle:
    """All labelled trees of one sentence: [T, n] heads (0 is ROOT) and labels, enumerated."""

    def __init__(self, potentials, n, single_root):
        self.events, scores = [], []
        for tree in projective_trees(n, single_root).tolist():
            for labels in itertools.product(range(potentials.shape[-1]), repeat=n):
                rows = [m if h == 0 else h - 1 for m, h in enumerate(tree)]
                score = sum(potentials[rows[m], m, labels[m]] for m in range(n))
                if score > -INF:
                    event = torch.zeros_like(potentials)
                    event[rows, range(n), labels] = 1
                    self.events.append(event)
                    scores.append(score)
        self.scores, self.events = torch.stack(scores), torch.stack(self.events)
        self.log_z, self.p = self.scores.logsumexp(0), self.scores.softmax(0)
        self.marginals = torch.einsum("t,thml->hml", self.p, self.events)

    def log_prob(self, events):
        """[S] log probabilities of [S, N, N, L]."""
        which = (self.events.flatten(1) == events.flatten(1).unsqueeze(1)).all(-1)
        assert (which.sum(-1) == 1).all(), "each is one of the possible trees"
        return (self.scores - self.log_z)[which.double().argmax(-1)]


@pytest.mark.parametrize("single_root", [False, True])
def test_torch_struct_labels(single_root):
    """[B, N, N, L]: a label for each arc, which may be forbidden alone, or with all others."""
    lengths = torch.tensor([3, 2, 1])
    p, q = torch.randn(2, 3, 3, 3, 2, dtype=torch.float64)
    p[0, 1, 2, 0] = p[0, 0, 1, :] = q[0, 0, 1, :] = q[1, 0, 1, 1] = -INF
    p[1, 2], p[2, :, 1] = torch.nan, INF  # in the padding
    p.requires_grad_()
    dist = torch_struct.DependencyCRF(p, lengths, multiroot=not single_root)
    other = torch_struct.DependencyCRF(q, lengths, multiroot=not single_root)
    k, draws = 5, dist.sample((2000,))
    kmax, topk, cross_entropy, kl = dist.kmax(k), dist.topk(k), dist.cross_entropy(other), dist.kl(other)
    assert topk.shape == (k, 3, 3, 3, 2) and draws.shape == (2000, 3, 3, 3, 2)
    for b, n in enumerate(lengths.tolist()):
        o = LabelledOracle(p.detach()[b], n, single_root)
        torch.testing.assert_close(dist.partition[b], o.log_z)
        torch.testing.assert_close(dist.marginals[b], o.marginals)
        assert dist.count[b] == len(o.scores)
        torch.testing.assert_close(dist.entropy[b], -(o.p * o.p.log()).sum())
        assert torch.equal(dist.argmax[b], o.events[o.scores.argmax()]) and dist.max[b] == o.scores.max()
        best = o.scores.sort(descending=True).values[:k]
        found = len(best)
        torch.testing.assert_close(kmax[:found, b], best)
        assert (kmax[found:, b] == -INF).all() and (topk[found:, b] == 0).all()
        torch.testing.assert_close(o.log_prob(topk[:found, b]), best - o.log_z)
        torch.testing.assert_close(dist.log_prob(topk)[:found, b], best - o.log_z)
        which = (o.events.flatten(1) == draws[:, b].flatten(1).unsqueeze(1)).all(-1)
        assert (which.sum(-1) == 1).all() and chi_squared_is_plausible(which.sum(0), o.p)
        theirs = LabelledOracle(q[b], n, single_root)
        allowed = all((theirs.events == event).flatten(1).all(-1).any() for event in o.events)
        expected = -(o.p * theirs.log_prob(o.events)).sum() if allowed else torch.tensor(INF, dtype=torch.float64)
        torch.testing.assert_close(cross_entropy[b], expected)
        torch.testing.assert_close(kl[b], expected - dist.entropy[b])
    assert cross_entropy.isinf().tolist() == [False, True, False]


def test_torch_struct_gradients_with_labels():
    lengths = torch.tensor([3, 2])
    p, q = torch.randn(2, 2, 3, 3, 2, dtype=torch.float64)
    p[0, 0, 1, :] = -INF
    p.requires_grad_()
    dist = torch_struct.DependencyCRF(p, lengths)
    (gradient,) = torch.autograd.grad(dist.partition.sum(), p, retain_graph=True)
    torch.testing.assert_close(gradient, dist.marginals.detach())
    (gradient,) = torch.autograd.grad(dist.max.sum(), p, retain_graph=True)
    assert torch.equal(gradient, dist.argmax)

    def functions(p):
        dist = torch_struct.DependencyCRF(p, lengths)
        return dist.entropy, dist.kl(torch_struct.DependencyCRF(q, lengths)), dist.marginals

    assert gradcheck(functions, p.detach().nan_to_num(neginf=0).requires_grad_())
    for value in functions(p):
        (gradient,) = torch.autograd.grad(value.sum(), p, retain_graph=True)
        assert gradient.isfinite().all() and (gradient[0, 0, 1] == 0).all()
