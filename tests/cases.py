"""Batches of scores as Hypothesis draws them, with everything the conventions allow, and how results are compared."""

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.oracle import Oracle
from tritree.conventions import live_arcs

KINDS = ["normal", "ties", "forbidden", "impossible", "large", "ones"]  # and "mixed", which only tests/fuzz.py takes
LAYOUTS = ["contiguous", "transposed", "sliced", "expanded"]
ALL_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
JUNK = [float("nan"), float("inf"), float("-inf"), 1e30]


def seeded(seed: int) -> torch.Generator:
    """On the device on which tensors are made."""
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def as_fast_as(backend: str) -> str:
    """The backend that has as many cases: Triton's kernels are slow in the interpreter only."""
    is_compiled = backend == "triton" and os.environ.get("TRITON_INTERPRET") != "1"
    return "numba" if is_compiled else backend


@dataclass
class Case:
    scores: Tensor  # [B, N, N], with junk in the dead cells
    lengths: Tensor
    single_root: bool
    label: str

    @property
    def args(self) -> dict:
        return {"single_root": self.single_root}

    @property
    def live(self) -> Tensor:
        return live_arcs(self.lengths, self.scores.shape[-1])

    @property
    def magnitude(self) -> float:
        """The largest finite score that counts."""
        s = self.scores[self.live].double()
        s = s[s.isfinite()].abs()
        return s.max().item() if s.numel() else 0.0

    def oracles(self, scores: Tensor | None = None) -> list[Oracle]:
        """One oracle per sentence, on float64 copies of the scores (or on the given ones)."""
        scores = self.scores.double() if scores is None else scores
        return [Oracle(s, n, self.single_root) for s, n in zip(scores, self.lengths.tolist(), strict=True)]

    def __repr__(self) -> str:
        return f"Case({self.label})"


def fill(kind: str, B: int, N: int, generator: torch.Generator) -> Tensor:
    normal = torch.randn(B, N, N, generator=generator, dtype=torch.float64)
    coin = torch.rand(B, N, N, generator=generator)
    if kind == "ties":
        return normal.round()
    if kind == "ones":
        return torch.ones(B, N, N, dtype=torch.float64)
    if kind == "forbidden":
        return torch.where(coin < 0.3, -torch.inf, normal)
    if kind == "impossible":
        normal[0, :, -1] = -torch.inf  # the first sentence's last word can hang nowhere, if it is that long
        return normal
    if kind == "mixed":  # every size beside every other, and whole columns on the edge of what is possible
        sizes = 10 ** torch.randint(-3, 7, (B, N, N), generator=generator).double()
        return torch.where(coin < 0.4, -torch.inf, torch.where(coin < 0.6, normal.round(), sizes * normal))
    if kind == "large":
        return torch.where(coin < 0.5, normal * 1e4, normal.sign() * 1e4)
    return 3 * normal


def lay_out(scores: Tensor, layout: str) -> Tensor:
    """The same values with other strides."""
    if layout == "transposed":
        return scores.mT.contiguous().mT
    if layout == "sliced":
        B, N, _ = scores.shape
        whole = scores.new_full((B, 2 * N, N + 3), torch.nan)
        whole[:, ::2, 1 : N + 1] = scores
        return whole[:, ::2, 1 : N + 1]
    if layout == "expanded":
        return scores[:1].expand_as(scores)
    return scores


def make_case(kind, N, lengths, single_root, dtype, layout, junk, seed) -> Case:
    generator = seeded(seed)
    lengths = torch.tensor(lengths, dtype=torch.int64)
    scores = fill(kind, len(lengths), N, generator)
    if layout == "expanded":
        lengths = lengths[:1].expand_as(lengths)
    largest = torch.finfo(dtype).max  # +inf is no score
    scores = torch.where(scores == -torch.inf, scores, scores.clamp(-largest, largest))
    scores = torch.where(live_arcs(lengths, N), scores, junk).to(dtype)
    label = f"{kind}, N={N}, lengths={lengths.tolist()}, {single_root=}, {dtype}, {layout}, {junk=}, {seed=}"
    return Case(lay_out(scores, layout), lengths, single_root, label)


@st.composite
def cases(draw, dtypes=(torch.float32, torch.float64), kinds=tuple(KINDS), max_n=5, max_batch=3):
    N = draw(st.integers(1, max_n + 1))
    return make_case(
        kind=draw(st.sampled_from(kinds)),
        N=N,
        lengths=draw(st.lists(st.integers(0, N - 1), min_size=1, max_size=max_batch)),
        single_root=draw(st.booleans()),
        dtype=draw(st.sampled_from(dtypes)),
        layout=draw(st.sampled_from(LAYOUTS)),
        junk=draw(st.sampled_from(JUNK)),
        seed=draw(st.integers(0, 2**16)),
    )


def rounding(case: Case, backend: str) -> float:
    """What rounding may cost: one unit for the result and, where the arithmetic is float32, a few for every score."""
    result = 1e-13 if case.scores.dtype == torch.float64 else 2.5e-7
    arithmetic = 2.5e-7 if backend == "triton" and case.scores.dtype != torch.float64 else 1e-15
    n = case.scores.shape[-1]
    return 8 * result + 2 * n * arithmetic * (1 + case.magnitude)


def assert_close(actual: Tensor, expected: Tensor, tolerance: float, scale: float = 1.0) -> None:
    """Equal where infinite; elsewhere within tolerance · (scale + |expected|)."""
    actual, expected = actual.detach().double(), expected.detach().double()
    assert actual.shape == expected.shape
    finite = expected.isfinite()
    assert torch.equal(actual[~finite], expected[~finite]), (actual, expected)
    error = (actual - expected)[finite].abs()
    assert (error <= tolerance * (scale + expected[finite].abs())).all(), (
        f"largest error {error.max():.3g}, allowed {tolerance:.3g}: {actual} instead of {expected}"
    )


def check_with_gradient(
    case: Case,
    scores: Tensor,
    function: Callable[[Tensor], Tensor],
    theirs: Callable[[int, Oracle], Tensor],
    tolerance: float,
    arcs: Callable[[Tensor], Tensor] = lambda gradient: gradient,
) -> None:
    """Compares a function of the scores, which has a value for each sentence, and its gradient with an oracle's.

    ``scores`` are those of the case as the function wants them; ``arcs`` makes [B, N, N] of such a tensor.
    """
    scores = scores.clone().requires_grad_()
    values = function(scores)
    exact = case.scores.to(torch.float64, copy=True).requires_grad_()
    expected = [theirs(b, oracle) for b, oracle in enumerate(case.oracles(exact))]
    assert_close(values, torch.stack(expected), tolerance)
    finite = torch.stack(expected).isfinite()
    if not finite.any():
        return
    (gradient,) = torch.autograd.grad(values[finite].sum(), scores)
    total = sum(e for e, f in zip(expected, finite, strict=True) if f)
    expected_gradient = torch.zeros_like(exact)
    if total.requires_grad:
        (expected_gradient,) = torch.autograd.grad(total, exact)
    assert gradient.dtype == scores.dtype
    assert_close(arcs(gradient), expected_gradient, tolerance + torch.finfo(gradient.dtype).eps)
    assert (arcs(gradient)[~case.live | (case.scores == -torch.inf)] == 0).all()
