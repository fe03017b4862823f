"""Samples are trees, reproducible, and as frequent as their probability says."""

import pytest
import torch

import tritree
from tests.cases import as_fast_as, seeded
from tests.frequencies import check_frequencies
from tests.oracle import Oracle
from tritree import TreeCRF

pytestmark = pytest.mark.on_device

DRAWS = {"reference": 400, "numba": 20_000, "triton": 25}
"""For Triton's interpreter few; that its draws are those of Numba's kernels is a test of its own."""


@pytest.mark.parametrize(
    ("dtype", "single_root"), [(torch.float16, False), (torch.float32, True), (torch.float64, False)]
)
def test_frequencies(backend, dtype, single_root):
    lengths = torch.tensor([4, 3, 0])
    scores = torch.randn(3, 5, 5).to(dtype)
    scores[0, 0, 2] = scores[0, 3, 4] = -torch.inf
    draws = DRAWS[as_fast_as(backend)]
    generator = seeded(3)
    options = {"single_root": single_root, "backend": backend}
    samples = tritree.sample(scores, lengths, draws, generator=generator, **options)
    assert samples.shape == (draws, 3, 5) and samples.dtype == torch.int64
    for b, n in enumerate(lengths.tolist()):
        assert (samples[:, b, 0] == -1).all() and (samples[:, b, n + 1 :] == -1).all()
        oracle = Oracle(scores[b].double(), n, single_root)
        check_frequencies(samples[:, b, 1 : n + 1], oracle.trees, oracle.probabilities)


def test_large_scores_and_long_sentences(backend):
    """Scores whose exp overflows, and more words than can be enumerated: arc frequencies are the marginals."""
    n = {"numba": 12, "reference": 5, "triton": 3}[as_fast_as(backend)]
    scores = 2 * torch.randn(2, n + 1, n + 1) + 1e4
    dist = TreeCRF(scores, backend=backend)
    draws = DRAWS[as_fast_as(backend)]
    samples = dist.sample((draws,), generator=seeded(5))
    assert dist.support.check(samples).all()
    frequency = torch.nn.functional.one_hot(samples[..., 1:], n + 1).double().mean(0).mT
    mu = dist.marginals[..., 1:].double()
    deviation = (mu * (1 - mu) / draws).sqrt()
    assert ((frequency - mu).abs() <= 6 * deviation + 1e-3).all()


def test_the_generator_decides(backend):
    scores = torch.randn(2, 4, 4)

    def draw(seed):
        return tritree.sample(scores, None, 3, generator=seeded(seed), backend=backend)

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    generator = seeded(1)
    first, second = (tritree.sample(scores, None, 3, generator=generator, backend=backend) for _ in range(2))
    assert torch.equal(first, draw(1)) and not torch.equal(first, second)
    torch.manual_seed(4)
    first = tritree.sample(scores, None, 3, backend=backend)
    torch.manual_seed(4)
    assert torch.equal(first, tritree.sample(scores, None, 3, backend=backend))


@pytest.mark.cpu_only
@pytest.mark.needs_triton
def test_kernels_draw_the_same_trees():
    """The kernels use the same random numbers; in float64 rounding is too small to change a draw."""
    scores = torch.randn(2, 7, 7, dtype=torch.float64)
    lengths = torch.tensor([6, 4])

    def draw(backend):
        return tritree.sample(scores, lengths, 20, generator=seeded(1), backend=backend)

    assert torch.equal(draw("numba"), draw("triton"))


@pytest.mark.parametrize("backend", ["reference", "numba"])
def test_samples_are_independent_of_each_other(backend):
    """Two words with two equally likely heads each, in two sentences and two samples: no draw repeats another."""
    samples = tritree.sample(torch.zeros(2, 4, 4), None, 200, generator=seeded(0), backend=backend)
    first, second = samples[:, 0], samples[:, 1]
    assert 0.02 < (first == second).all(-1).double().mean() < 0.25  # 1/12 if independent
    assert 0.02 < (first[1:] == first[:-1]).all(-1).double().mean() < 0.25


def test_shapes(backend):
    dist = TreeCRF(torch.zeros(2, 1, 3, 3), backend=backend)
    assert dist.sample().shape == (2, 1, 3)
    assert dist.sample((3, 2)).shape == (3, 2, 2, 1, 3)
    assert tritree.sample(torch.zeros(3, 3), num_samples=0, backend=backend).shape == (0, 3)
