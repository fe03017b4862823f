"""The backend's functions against an enumeration of all trees."""

import math

import pytest
import torch

from tests.oracle import Oracle
from tritree.conventions import live_arcs, result_dtype
from tritree.cpu import backend as cpu

INF, NAN = math.inf, math.nan
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
LENGTHS = torch.tensor([5, 0, 3, 1, 4, 5, 2, 5, 4])  # two groups and one sentence of float64, one and one of float32


def draw(kind, dtype):
    generator = torch.Generator().manual_seed(len(kind))
    scores = torch.randn(9, 6, 6, generator=generator, dtype=torch.float64)
    coin = torch.rand(9, 6, 6, generator=generator)
    large = min(1e30, torch.finfo(dtype).max / 16)
    lowest = torch.finfo(torch.float32 if dtype == torch.float64 else dtype).min
    scores = {
        "normal": 2 * scores,
        "forbidden": scores.masked_fill(coin < 0.5, -INF),
        "impossible": scores.masked_fill((torch.arange(6) == 1) | (coin < 0.2), -INF),
        "ties": scores.round(),
        "sharp": 300 * scores,
        "1e4": 1e4 * scores,
        "1e30": large * scores / 8,
        "lowest": scores.masked_fill(coin < 0.3, lowest),
    }[kind]
    return scores.to(dtype)


KINDS = ["normal", "forbidden", "impossible", "ties", "sharp", "1e4", "1e30", "lowest"]


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_everything(kind, dtype, single_root):
    N, S = 6, 3
    live = live_arcs(LENGTHS, N)
    scores = draw(kind, dtype).masked_fill(~live, NAN)
    out = result_dtype(dtype)
    direction = torch.randn(9, N, N, dtype=out).masked_fill(~live | (scores == -INF), NAN)
    before = scores.clone(), direction.clone()

    log_z, marginals = cpu.inside_outside(scores, LENGTHS, single_root)
    derivative = cpu.tangent(scores, LENGTHS, direction, single_root)
    best, heads = cpu.viterbi(scores, LENGTHS, single_root)
    samples = cpu.sample(scores, LENGTHS, torch.tensor([7]), S, single_root)

    assert torch.equal(log_z, cpu.inside(scores, LENGTHS, single_root))
    assert marginals.dtype == derivative.dtype == best.dtype == out
    assert heads.dtype == samples.dtype == torch.int64
    for tensor, copy in zip((scores, direction), before, strict=True):
        assert torch.equal(tensor.nan_to_num(nan=7), copy.nan_to_num(nan=7))
    assert (marginals[~live] == 0).all() and (derivative[~live] == 0).all()
    forbidden = scores == -INF
    assert (marginals[forbidden] == 0).all() and (derivative[forbidden] == 0).all()

    eps = 1e-14 if out == torch.float64 else 2e-7
    for b, n in enumerate(LENGTHS.tolist()):
        s = scores[b].double().masked_fill(~live[b], 0)
        oracle = Oracle(s, n, single_root)
        assert (heads[b, n + 1 :] == -1).all() and (samples[:, b, n + 1 :] == -1).all() and heads[b, 0] == -1
        if not oracle.possible:
            assert log_z[b] == best[b] == -INF
            assert (marginals[b] == 0).all() and (derivative[b] == 0).all()
            assert (heads[b] == -1).all() and (samples[:, b] == -1).all()
            continue
        size = 1 + s[s > -INF].abs().max().item()
        assert abs(log_z[b].item() - oracle.log_z.item()) <= eps * size * (n + 1)
        assert marginals[b].isfinite().all() and derivative[b].isfinite().all()
        if size < 1e6:  # beyond, the oracle's own sums are too coarse to tell two trees apart
            tolerance = eps + 1e-15 * size * n
            torch.testing.assert_close(marginals[b].double(), oracle.marginals, rtol=0, atol=tolerance)
            d = direction[b].double().nan_to_num(nan=0)
            torch.testing.assert_close(derivative[b].double(), oracle.tangent(d), rtol=0, atol=20 * tolerance)
        else:
            columns = marginals[b].double().sum(0)[1 : n + 1]
            torch.testing.assert_close(columns, torch.ones_like(columns), rtol=0, atol=20 * eps)
        trees = {tuple(t) for t in oracle.trees.tolist()}
        assert all(tuple(t) in trees for t in samples[:, b, 1 : n + 1].tolist())
        if best[b] > -INF or kind != "lowest":  # the sum of two `lowest` may be −inf in float32
            tree = heads[b, 1 : n + 1]
            assert tuple(tree.tolist()) in trees
            assert s[tree, torch.arange(1, n + 1)].sum().item() >= oracle.best.item() - eps * size * n
            assert abs(best[b].item() - oracle.best.item()) <= eps * size * n


@pytest.mark.parametrize("function", ["inside_outside", "tangent", "viterbi", "topk", "max_marginals", "sample"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("bad", [NAN, INF])
def test_nan_and_inf_stay_in_their_sentence(function, dtype, bad):
    lengths = torch.tensor([4, 5, 3, 5, 5, 2, 5, 5, 1])
    scores = torch.randn(9, 6, 6, dtype=dtype)
    broken = scores.clone()
    broken[3, 2, 4] = broken[8, 0, 1] = bad
    others = torch.tensor([0, 1, 2, 4, 5, 6, 7])
    direction, seed = torch.randn(9, 6, 6, dtype=dtype), torch.tensor([3])
    args = {"tangent": (direction,), "topk": (7,), "sample": (seed, 4)}.get(function, ())
    for single_root in (False, True):
        clean = getattr(cpu, function)(scores, lengths, *args, single_root)
        dirty = getattr(cpu, function)(broken, lengths, *args, single_root)
        for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (clean, dirty)), strict=True):
            dim = 1 if function == "sample" else 0
            assert torch.equal(a.index_select(dim, others), b.index_select(dim, others))
        if function in ("inside_outside", "tangent"):
            live = live_arcs(lengths, 6)
            dirty = dirty[-1] if function == "inside_outside" else dirty
            for b in (3, 8):
                assert (dirty[b][~live[b]] == 0).all()
                assert function == "tangent" or dirty[b][live[b]].isnan().all()
            if function == "tangent":
                assert dirty[3][live[3]].isnan().all()
        elif function == "max_marginals":
            live = live_arcs(lengths, 6)
            for b in (3, 8):
                assert (dirty[b][~live[b]] == -INF).all()
                assert not math.isnan(bad) or dirty[b][live[b]].isnan().all()
        elif function in ("viterbi", "topk") and math.isnan(bad):
            assert dirty[0][[3, 8]].isnan().all() and (dirty[1] >= -1).all() and (dirty[1] <= 5).all()
        else:
            heads = dirty if function == "sample" else dirty[-1]
            assert (heads >= -1).all() and (heads <= 5).all()


def test_the_empty_batch_and_the_empty_sentence():
    for B, N in [(0, 4), (3, 1), (0, 1)]:
        scores, lengths = torch.full((B, N, N), NAN), torch.zeros(B, dtype=torch.int64)
        log_z, marginals = cpu.inside_outside(scores, lengths, False)
        best, heads = cpu.viterbi(scores, lengths, True)
        assert torch.equal(log_z, torch.zeros_like(log_z)) and log_z.shape == best.shape == (B,)
        assert torch.equal(marginals, torch.zeros(B, N, N))
        assert torch.equal(best, torch.zeros(B)) and torch.equal(heads, torch.full((B, N), -1))
        assert torch.equal(cpu.tangent(scores, lengths, scores, False), torch.zeros(B, N, N))
        assert torch.equal(cpu.sample(scores, lengths, torch.tensor([1]), 2, False), torch.full((2, B, N), -1))
    assert cpu.sample(torch.zeros(2, 3, 3), torch.tensor([2, 2]), torch.tensor([1]), 0, False).shape == (0, 2, 3)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_of_equally_good_trees_the_smallest_splits_win(dtype, single_root):
    """The chart of the rules in the same precision, and the first split that attains each maximum."""
    n, N = 9, 10
    scores = torch.randint(-1, 2, (40, N, N)).to(dtype)
    best, heads = cpu.viterbi(scores, torch.full((40,), n), single_root)
    for b in range(40):
        assert (best[b].item(), heads[b].tolist()) == first_best(scores[b].tolist(), n, single_root)


def first_best(s, n, single_root):
    N = n + 1
    C = {(h, h): (0.0, None) for h in range(N)}
    I = {}
    for w in range(1, N):
        for i in range(N - w):
            j = i + w
            splits = range(1) if single_root and i == 0 else range(i, j)
            x, r = max(((C[i, k][0] + C[j, k + 1][0], k) for k in splits), key=lambda t: (t[0], -t[1]))
            for h, m in [(i, j), (j, i)]:
                I[h, m] = (x + s[h][m] if m > 0 else -INF), r
                ks = range(i + 1, j + 1) if h < m else range(i, j)
                C[h, m] = max(((I[h, k][0] + C[k, m][0], k) for k in ks), key=lambda t: (t[0], -t[1]))
    heads, todo = [-1] * N, [(0, n)]
    while todo:
        h, m = todo.pop()
        if h != m:
            k = C[h, m][1]
            heads[k] = h
            r = I[h, k][1]
            todo += [(k, m), (min(h, k), r), (max(h, k), r + 1)]
    return C[0, n][0], heads
