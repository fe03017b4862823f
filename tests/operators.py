"""One row per operator: how it is called, and how its results are checked. All that is tested of each operator, by
whatever file, goes over these rows."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

import tritree
from tests.cases import ALL_DTYPES, Case, assert_close, rounding, seeded
from tests.relaxed import definition
from tritree import TreeCRF
from tritree.conventions import live_words, result_dtype
from tritree.operators import OPERATORS

BACKENDS = ("reference", "numba", "triton")
K, S = 3, 2
"""How many best trees and samples the rows ask for."""


@dataclass(frozen=True)
class Row:
    name: str
    check: Callable[[Case, str], None]
    """(case, backend): compares the results with those of all trees, enumerated."""
    function: Callable | None = None
    """The function of tritree that calls it. None: derivatives call it."""
    options: Callable[[], dict] = dict
    """Arguments of the function beside scores, lengths, single_root and backend."""
    results: dict[str, str] = field(default_factory=dict)
    """What the function returns, by name, and its shape: B sentences, N nodes, K best trees, S samples."""
    derivatives: int = 0
    """How often the first result is differentiable."""
    arguments: Callable[[Tensor, bool], tuple] = lambda scores, single_root: (single_root,)
    """(scores, single_root): arguments of the operator between the lengths and the backend."""
    backends: tuple[str, ...] = BACKENDS
    cases: dict = field(default_factory=lambda: {"dtypes": ALL_DTYPES})
    """What tests.cases.cases draws for the check."""
    random: bool = False

    @property
    def operator(self):
        return getattr(torch.ops.tritree, self.name)

    @property
    def has_single_root(self) -> bool:
        return "single_root" in OPERATORS[self.name].schema

    def call(self, scores: Tensor, lengths: Tensor | None, single_root: bool = False, backend: str | None = None):
        """The function's results, as a tuple."""
        roots = {"single_root": single_root} if self.has_single_root else {}
        return flat(self.function(scores, lengths, backend=backend, **roots, **self.options()))

    def call_by_name(self, *args) -> dict[str, Tensor]:
        return dict(zip(self.results, self.call(*args), strict=True))

    def __str__(self) -> str:
        return self.name


def flat(result: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (result,) if isinstance(result, Tensor) else tuple(result)


def directions_like(scores: Tensor, seed: int = 0) -> Tensor:
    return torch.randn(scores.shape, generator=seeded(seed), dtype=torch.float64)


def result_like(scores: Tensor) -> Tensor:
    return directions_like(scores).to(result_dtype(scores.dtype))


def check_log_partition(case: Case, backend: str) -> None:
    log_z = tritree.log_partition(case.scores, case.lengths, backend=backend, **case.args)
    assert log_z.dtype == result_dtype(case.scores.dtype)
    assert_close(log_z, torch.stack([o.log_z for o in case.oracles()]), rounding(case, backend))


def check_marginals(case: Case, backend: str) -> None:
    marginals = tritree.marginals(case.scores, case.lengths, backend=backend, **case.args)
    assert marginals.dtype == result_dtype(case.scores.dtype)
    assert_close(marginals, torch.stack([o.marginals for o in case.oracles()]), rounding(case, backend))
    assert (marginals[~case.live | (case.scores == -torch.inf)] == 0).all()


def check_derivatives(case: Case, backend: str) -> None:
    """∂log Z is the marginals, weighted per sentence; ∂⟨marginals, D⟩ is the Hessian times D."""
    scores = case.scores.clone().requires_grad_()
    D = directions_like(scores)
    weight = D[:, 0, 0]
    log_z = tritree.log_partition(scores, case.lengths, backend=backend, **case.args)
    (first,) = torch.autograd.grad(log_z, scores, weight.to(log_z.dtype), create_graph=True)
    junk = torch.where(case.live & (case.scores != -torch.inf), D, torch.nan)  # ignored in dead cells and for −inf
    second = torch.zeros_like(first)
    if first.requires_grad:  # N = 1: the reference's gradient is a constant
        (second,) = torch.autograd.grad(first, scores, junk.to(first.dtype))
    assert first.dtype == second.dtype == scores.dtype
    tolerance = 4 * rounding(case, backend)
    for b, oracle in enumerate(case.oracles()):
        assert_close(first[b], weight[b] * oracle.marginals, tolerance)
        assert_close(second[b], weight[b] * oracle.tangent(D[b]), tolerance)

    scores = case.scores.clone().requires_grad_()
    marginals = tritree.marginals(scores, case.lengths, backend=backend, **case.args)
    (gradient,) = torch.autograd.grad(marginals, scores, junk.to(marginals.dtype))
    assert_close(gradient, torch.stack([o.tangent(d) for o, d in zip(case.oracles(), D, strict=True)]), tolerance)
    assert (gradient[~case.live | (case.scores == -torch.inf)] == 0).all()


def check_viterbi(case: Case, backend: str) -> None:
    best, heads = tritree.viterbi(case.scores, case.lengths, backend=backend, **case.args)
    assert best.dtype == result_dtype(case.scores.dtype) and heads.dtype == torch.int64
    for b, oracle in enumerate(case.oracles()):
        n = oracle.n
        assert_close(best[b], oracle.best, rounding(case, "triton"))
        assert heads[b, 0] == -1 and (heads[b, n + 1 :] == -1).all()
        if not oracle.possible:
            assert (heads[b] == -1).all()
            continue
        (chosen,) = (oracle.trees == heads[b, 1 : n + 1]).all(-1).nonzero()[0]  # it is one of the trees
        assert_close(oracle.tree_scores[chosen], oracle.best, rounding(case, "triton"))
    reference = tritree.viterbi(case.scores, case.lengths, backend="reference", **case.args)
    assert torch.equal(best, reference[0])
    assert torch.equal(heads, reference[1]), "ties are broken in another way"


def check_topk(case: Case, backend: str, k: int = 5) -> None:
    """Different trees of falling scores, the best there are; to the bit what the reference finds, and viterbi."""
    scores = case.scores.clone().requires_grad_()
    best, heads = tritree.topk(scores, case.lengths, k, backend=backend, **case.args)
    assert best.dtype == result_dtype(case.scores.dtype) and heads.dtype == torch.int64
    weights = torch.randn(best.shape, generator=seeded(0)).to(best.dtype)
    (gradient,) = torch.autograd.grad(best, scores, weights)
    assert gradient.dtype == scores.dtype
    for b, oracle in enumerate(case.oracles()):
        n, count = oracle.n, min(k, len(oracle.trees))
        assert_close(best[b], oracle.best_scores(k), rounding(case, "triton"))
        assert (best[b, 1:] <= best[b, :-1]).all()
        assert (heads[b, :, 0] == -1).all() and (heads[b, :, n + 1 :] == -1).all() and (heads[b, count:] == -1).all()
        same = (heads[b, :count, None, 1 : n + 1] == oracle.trees).all(-1)
        assert (same.sum(-1) == 1).all() and (same.sum(-2) <= 1).all()  # each is a tree, and no other's
        chosen = same.nonzero()[:, 1]
        assert_close(oracle.tree_scores[chosen], best[b, :count], rounding(case, "triton"))
        expected = torch.einsum("t,thm->hm", weights[b, :count].double(), oracle.arcs[chosen])
        assert_close(gradient[b], expected, k * torch.finfo(gradient.dtype).eps)
    reference = tritree.topk(case.scores, case.lengths, k, backend="reference", **case.args)
    assert torch.equal(best, reference[0])
    assert torch.equal(heads, reference[1]), "ties are broken in another way"
    viterbi = tritree.viterbi(case.scores, case.lengths, backend=backend, **case.args)
    only = tritree.topk(case.scores, case.lengths, backend=backend, **case.args)
    for one, first in zip(viterbi, only, strict=True):
        assert torch.equal(one.unsqueeze(1), first)


def check_max_marginals(case: Case, backend: str) -> None:
    result = tritree.max_marginals(case.scores, case.lengths, backend=backend, **case.args)
    assert result.dtype == result_dtype(case.scores.dtype)
    assert_close(result, torch.stack([o.max_marginals for o in case.oracles()]), rounding(case, "triton"))


def check_samples(case: Case, backend: str, number: int = 3) -> None:
    """Each is a possible tree, and the generator alone decides which. (test_sample.py looks at their frequencies.)"""
    draws = [
        tritree.sample(case.scores, case.lengths, number, generator=seeded(1), backend=backend, **case.args)
        for _ in range(2)
    ]
    assert torch.equal(*draws)
    dist = TreeCRF(case.scores, case.lengths, backend=backend, validate_args=True, **case.args)
    possible = dist.log_partition != -torch.inf
    assert (dist.log_prob(draws[0])[:, possible] > -torch.inf).all()
    assert (draws[0][:, ~possible] == -1).all()
    words = live_words(case.lengths, case.scores.shape[-1])
    assert ((draws[0] >= 0) == (words & possible.unsqueeze(-1))).all()


def check_relaxed(case: Case, backend: str) -> None:
    for temperature in (0.3,) if backend == "triton" else (0.3, 1.0, 4.0):
        definition.check_definition(case, backend, temperature)


ROWS = [
    Row(
        "inside",
        check_log_partition,
        tritree.log_partition,
        results={"log_partition": "B"},
        derivatives=2,
        cases={"dtypes": ALL_DTYPES, "max_n": 6},
    ),
    Row(
        "inside_outside",
        check_marginals,
        tritree.marginals,
        results={"marginals": "BNN"},
        derivatives=1,
        cases={"dtypes": ALL_DTYPES, "max_n": 6},
    ),
    Row(
        "tangent",
        check_derivatives,
        arguments=lambda scores, single_root: (result_like(scores).requires_grad_(), single_root),
        cases={},  # gradients in half precision are rounded so much that a second derivative says nothing
    ),
    Row(
        "viterbi",
        check_viterbi,
        tritree.viterbi,
        results={"best": "B", "heads": "BN"},
        derivatives=1,
        cases={"dtypes": ALL_DTYPES, "max_n": 6},
    ),
    Row(
        "topk",
        check_topk,
        tritree.topk,
        options=lambda: {"k": K},
        results={"k best": "BK", "k heads": "BKN"},
        derivatives=1,
        arguments=lambda scores, single_root: (K, single_root),
    ),
    Row("max_marginals", check_max_marginals, tritree.max_marginals, results={"max_marginals": "BNN"}),
    Row(
        "sample",
        check_samples,
        tritree.sample,
        options=lambda: {"num_samples": S, "generator": seeded(0)},
        results={"samples": "SBN"},
        arguments=lambda scores, single_root: (torch.tensor([1]), S, single_root),
        random=True,
    ),
    Row(
        "relaxed",
        check_relaxed,
        tritree.relaxed_tree,
        options=lambda: {"temperature": 0.5},
        results={"relaxed": "BNN"},
        derivatives=1,
        arguments=lambda scores, single_root: (0.5,),
    ),
    Row(
        "relaxed_gradient",
        definition.check_gradient,
        arguments=lambda scores, single_root: (result_like(scores), 0.5),
    ),
]
FUNCTIONS = [row for row in ROWS if row.function is not None]
KERNELS = [(row, backend) for row in ROWS for backend in row.backends if backend != "reference"]
