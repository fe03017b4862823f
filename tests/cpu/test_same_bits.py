"""A sentence has the same results, to the bit, in any batch, with any padding, strides and number of threads."""

import math

import pytest
import torch

from tests.threads import threads
from tritree.cpu import backend as cpu

SEED = torch.tensor([12345])


def everything(scores, lengths, direction, single_root):
    log_z, marginals = cpu.inside_outside(scores, lengths, single_root)
    k_best, k_heads = cpu.topk(scores, lengths, 6, single_root)
    return {
        "log_z": log_z,
        "marginals": marginals,
        "tangent": cpu.tangent(scores, lengths, direction, single_root),
        "best": cpu.viterbi(scores, lengths, single_root)[0],
        "heads": cpu.viterbi(scores, lengths, single_root)[1],
        "k best": k_best,
        "k heads": k_heads.mT,
        "max_marginals": cpu.max_marginals(scores, lengths, single_root),
    }


def batch(dtype, scale, B=13, N=24):
    """Sentences of all lengths; at scale 80 some need Linear numbers and some need Scaled ones."""
    lengths = torch.randint(0, N, (B,))
    lengths[0] = N - 1
    scores = scale * torch.randn(B, N, N, dtype=dtype)
    scores[torch.rand(B, N, N) < 0.05] = -math.inf
    return scores, lengths, torch.randn(B, N, N, dtype=dtype)


def assert_same(expected, actual, label):
    for name in expected:
        assert torch.equal(expected[name], actual[name]), (label, name)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("scale", [1.0, 80.0])
def test_alone_in_any_batch_and_any_padding(scale, dtype, single_root):
    scores, lengths, direction = batch(dtype, scale)
    whole = everything(scores, lengths, direction, single_root)
    assert not any(v.isnan().any() for v in whole.values())
    shuffled = torch.randperm(len(lengths))
    again = everything(scores[shuffled], lengths[shuffled], direction[shuffled], single_root)
    assert_same({k: v[shuffled] for k, v in whole.items()}, again, "order")
    for b, n in enumerate(lengths.tolist()):
        for N in {n + 1, n + 2, 24, 31}:
            M = min(N, 24)
            s, d = torch.full((2, 1, N, N), math.nan, dtype=dtype)
            s[:, :M, :M], d[:, :M, :M] = scores[b, :M, :M], direction[b, :M, :M]
            alone = everything(s, lengths[b : b + 1], d, single_root)
            expected = {k: v[b, : n + 1, : n + 1] if v.dim() == 3 else v[b] for k, v in whole.items()}
            expected["heads"] = expected["heads"][: n + 1]
            actual = {k: v[0, : n + 1, : n + 1] if v.dim() == 3 else v[0] for k, v in alone.items()}
            actual["heads"] = actual["heads"][: n + 1]
            assert_same(expected, actual, (b, n, N))


@pytest.mark.parametrize("scale", [1.0, 80.0])
def test_any_strides(scale):
    scores, lengths, direction = batch(torch.float32, scale)
    expected = everything(scores, lengths, direction, False)
    transposed = everything(scores.mT.contiguous().mT, lengths, direction.mT.contiguous().mT, False)
    assert_same(expected, transposed, "transposed")
    wide = torch.full((26, 50, 30), math.nan)
    wide[::2, 1:49:2, 3:27] = scores
    assert_same(expected, everything(wide[::2, 1:49:2, 3:27], lengths, direction, False), "sliced")
    one = everything(scores[:1].expand(5, -1, -1), lengths[:1].expand(5), direction[:1].expand(5, -1, -1), False)
    assert_same({k: v[:1].expand_as(one[k]) for k, v in expected.items()}, one, "expanded")


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_any_number_of_threads(scale, flush, monkeypatch):
    monkeypatch.setattr(cpu, "WORTH_A_THREAD", 1)
    scores, lengths, direction = batch(torch.float32, scale, B=40)
    results = []
    try:
        if flush and not torch.set_flush_denormal(True):
            pytest.skip("this processor can't flush denormals")
        for number in (1, 2, 3, 8):
            with threads(number):
                result = everything(scores, lengths, direction, False)
                result["samples"] = cpu.sample(scores, lengths, SEED, 50, False)
            results.append(result)
    finally:
        torch.set_flush_denormal(False)
    for number, result in zip((2, 3, 8), results[1:], strict=True):
        assert_same(results[0], result, number)


def test_samples_do_not_depend_on_their_number():
    scores, lengths, _ = batch(torch.float64, 1.0, B=3, N=8)
    many = cpu.sample(scores, lengths, SEED, 100, False)
    assert torch.equal(cpu.sample(scores, lengths, SEED, 7, False), many[:7])
