"""The error bound of Linear numbers, on both sides, against exact arithmetic."""

import math

import pytest
import torch

from tests.cpu.exact import LN2, PowersOfTwo, run_posterior, run_tangent
from tritree.cpu import backend as cpu
from tritree.cpu.chart.trust import smallest_trusted

threshold = smallest_trusted.py_func


@pytest.fixture(params=[False, True], ids=["gradual", "flushed"])
def denormals(request):
    """Subnormal numbers kept, and flushed to zero."""
    if request.param and not torch.set_flush_denormal(True):
        pytest.skip("this processor can't flush denormals")
    yield
    torch.set_flush_denormal(False)


def rivals(n, penalty, seed=0):
    """Exponents of two for n words, in pairs that have each other as best heads. One word of each pair must take a
    worse head: log Z falls by the penalty for each pair, however good the other arcs are."""
    generator = torch.Generator().manual_seed(seed)
    bits = -penalty + torch.randint(-3, 1, (n + 1, n + 1), generator=generator)
    for a in range(1, n, 2):
        bits[a, a + 1] = bits[a + 1, a] = 0
    return bits


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-11)


def penalty_at_threshold(n):
    """The largest penalty, in bits, with which Linear numbers are still trusted."""
    low, high = 1, 1000
    while high - low > 1:
        middle = (low + high) // 2
        trusted = PowersOfTwo(rivals(n, middle)).scaled_log_z >= threshold(n)
        low, high = (middle, high) if trusted else (low, middle)
    return low


@pytest.mark.parametrize("n", [6, 20, 33])
def test_both_sides_of_the_bound(n, denormals):
    last = penalty_at_threshold(n)
    for penalty, trusted in [(last, True), (last + 1, False)]:
        sentence = PowersOfTwo(rivals(n, penalty))
        assert (sentence.scaled_log_z >= threshold(n)) == trusted
        linear = run_posterior(sentence.scores[None], exact=False)
        scaled = run_posterior(sentence.scores[None], exact=True)
        assert linear[2].item() == (not trusted) and not scaled[2].item()
        for log_z, marginals, _ in [scaled] + [linear] * trusted:
            assert log_z.item() == pytest.approx(sentence.log_z, rel=1e-13)
            close(marginals[0], sentence.marginals)
        log_z, marginals = cpu.inside_outside(sentence.scores[None], torch.tensor([n]), False)
        assert torch.equal(log_z, (linear if trusted else scaled)[0])
        assert torch.equal(marginals, (linear if trusted else scaled)[1])


@pytest.mark.parametrize("single_root", [False, True])
def test_trusted_results_are_right_where_much_underflows(single_root, denormals):
    """Arcs between e^0 and e^−1400: most items of the chart are 0 or subnormal, but those of likely trees are not."""
    generator = torch.Generator().manual_seed(1)
    trusted = 0
    for _ in range(12):
        n = int(torch.randint(2, 26, (), generator=generator))
        bits = -torch.randint(0, 2000, (n + 1, n + 1), generator=generator)
        m = torch.arange(1, n + 1)
        bits[m - 1, m] = -torch.randint(0, 40, (n,), generator=generator)  # a chain of cheap arcs
        sentence = PowersOfTwo(bits, single_root)
        log_z, marginals, refused = run_posterior(sentence.scores[None], exact=False, single_root=single_root)
        if not refused.item():
            trusted += 1
            assert log_z.item() == pytest.approx(sentence.log_z, rel=1e-13)
            close(marginals[0], sentence.marginals)
        log_z, marginals = cpu.inside_outside(sentence.scores[None], torch.tensor([n]), single_root)
        assert log_z.item() == pytest.approx(sentence.log_z, rel=1e-13)
        close(marginals[0], sentence.marginals)
    assert trusted >= 6


def test_linear_numbers_do_fail_where_they_are_refused(denormals):
    """Without the bound, results would be wrong."""
    n = 30
    sentence = PowersOfTwo(rivals(n, 80))  # Z is below 2^−1200
    log_z, marginals, refused = run_posterior(sentence.scores[None], exact=False)
    assert refused.item() and log_z.item() == -math.inf
    log_z, marginals = cpu.inside_outside(sentence.scores[None], torch.tensor([n]), False)
    assert log_z.item() == pytest.approx(sentence.log_z, rel=1e-13)
    close(marginals[0], sentence.marginals)


@pytest.mark.parametrize("penalty", [20, 60, 200, 2000, 10**9])
def test_any_penalty(penalty, denormals):
    n = 16
    sentence = PowersOfTwo(rivals(n, min(penalty, 2000)))
    if penalty > 2000:  # too large for integers: but all trees pay the same, so the marginals do not change
        wanted = (n // 2) * (penalty - 2000) * LN2
        scores = rivals(n, penalty).double() * LN2
    else:
        wanted, scores = 0.0, sentence.scores
    log_z, marginals = cpu.inside_outside(scores[None], torch.tensor([n]), False)
    assert log_z.item() == pytest.approx(sentence.log_z - wanted, rel=1e-12)
    assert (marginals[0] - sentence.marginals).abs().max() < max(1e-11, penalty * 1e-14)


def number_of_trees(n):
    return math.lgamma(3 * n + 1) - math.lgamma(n + 1) - math.lgamma(2 * n + 1) - math.log(2 * n + 1)


@pytest.mark.parametrize("n, trusted", [(100, True), (300, True), (331, True), (332, False), (500, False)])
def test_long_uniform_sentences_count_their_trees(n, trusted, denormals):
    log_z, marginals, refused = run_posterior(torch.zeros(1, n + 1, n + 1), exact=False)
    assert refused.item() == (not trusted)
    log_z, marginals = cpu.inside_outside(torch.zeros(1, n + 1, n + 1), torch.tensor([n]), False)
    assert log_z.item() == pytest.approx(number_of_trees(n), rel=1e-12)
    torch.testing.assert_close(marginals[0].double().sum(0)[1:], torch.ones(n, dtype=torch.float64), rtol=0, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_long_sharp_sentences(scale, denormals):
    """300 words and one likely tree: Linear numbers are trusted and agree with Scaled ones."""
    n = 300
    scores = scale * torch.randn(1, n + 1, n + 1, dtype=torch.float64)
    scores[0, torch.arange(n), torch.arange(1, n + 1)] += 6 * scale
    linear, scaled = run_posterior(scores, exact=False), run_posterior(scores, exact=True)
    if not linear[2].item():
        torch.testing.assert_close(linear[0], scaled[0], rtol=1e-13, atol=1e-10)
        close(linear[1], scaled[1])
    column_sums = scaled[1][0].sum(0)[1:]
    torch.testing.assert_close(column_sums, torch.ones_like(column_sums), rtol=0, atol=1e-11)


@pytest.mark.parametrize("sd", [0.1, 1.0, 5.0, 20.0, 60.0, 1e4])
@pytest.mark.parametrize("single_root", [False, True])
def test_linear_and_scaled_agree(sd, single_root):
    scores = sd * torch.randn(10, 31, 31, dtype=torch.float64)
    direction = torch.randn(10, 31, 31, dtype=torch.float64)
    linear, scaled = (run_posterior(scores, exact, single_root) for exact in (False, True))
    d_linear, d_scaled = (run_tangent(scores, direction, exact, single_root) for exact in (False, True))
    assert torch.equal(linear[2], d_linear[1]) and not scaled[2].any() and not d_scaled[1].any()
    trusted = ~linear[2]
    assert trusted.all() or sd >= 20
    torch.testing.assert_close(linear[0][trusted], scaled[0][trusted], rtol=1e-14, atol=1e-12)
    torch.testing.assert_close(linear[1][trusted], scaled[1][trusted], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(d_linear[0][trusted], d_scaled[0][trusted], rtol=1e-11, atol=1e-12)
    assert scaled[1].isfinite().all() and d_scaled[0].isfinite().all()
    column_sums = scaled[1].sum(1)[:, 1:]
    torch.testing.assert_close(column_sums, torch.ones_like(column_sums), rtol=0, atol=1e-12)


def test_scores_so_large_that_exponents_round():
    """At 1e30 a float64 has no integers left; still each word has one head, and nothing is NaN."""
    for size in (1e17, 1e19, 1e30, 1e38):
        scores = size * torch.randn(8, 21, 21).round(decimals=1).double()  # with ties
        log_z, marginals, _ = run_posterior(scores, exact=True)
        assert log_z.isfinite().all()
        column_sums = marginals.sum(1)[:, 1:]
        torch.testing.assert_close(column_sums, torch.ones_like(column_sums), rtol=0, atol=1e-12)
        assert run_tangent(scores, scores, exact=True)[0].isfinite().all()
