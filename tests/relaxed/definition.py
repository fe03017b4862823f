"""The relaxed tree by its definition, and what is compared with it."""

import math

import torch

import tritree
from tests.cases import assert_close
from tritree.conventions import result_dtype

INF = float("inf")


def soft_mean(a, temperature):
    """V = Σ b_k a_k, and b."""
    top = max(a)
    weights = [math.exp((x - top) / temperature) for x in a]
    b = [w / sum(weights) for w in weights]
    return sum(share * x for share, x in zip(b, a, strict=True)), b


def log_sum(a, temperature):
    """What makes it a tree CRF: V = τ log Σ exp(a_k / τ), and the same b."""
    top = max(a)
    total = sum(math.exp((x - top) / temperature) for x in a)
    return top + temperature * math.log(total), soft_mean(a, temperature)[1]


def by_definition(s, n, temperature, combine=soft_mean):
    """A, in Python floats: values bottom-up, then a walk down all trees that chooses split k with probability b_k."""
    V, terms = {}, {}

    def soft(item, pairs):
        pairs = [(x, y) for x, y in pairs if V[x] + V[y] > -INF]
        V[item], b = combine([V[x] + V[y] for x, y in pairs], temperature) if pairs else (-INF, [])
        terms[item] = list(zip(b, pairs, strict=True))

    for h in range(n + 1):
        V["C", h, h], terms["C", h, h] = 0.0, []
    for w in range(1, n + 1):
        for i in range(n + 1 - w):
            j = i + w
            for h, m in [(i, j), (j, i)]:
                soft(("I", h, m), [(("C", i, k), ("C", j, k + 1)) for k in range(i, j)])
                V["I", h, m] += s[h][m] if m > 0 else -INF
            for h, m in [(i, j), (j, i)]:
                splits = range(h + 1, m + 1) if h < m else range(m, h)
                soft(("C", h, m), [(("I", h, k), ("C", k, m)) for k in splits])

    A = torch.zeros(len(s), len(s), dtype=torch.float64)

    def choose(item, probability):
        kind, h, m = item
        if kind == "I":
            A[h, m] += probability
        for share, pair in terms[item]:
            for part in pair:
                choose(part, probability * share)

    if V["C", 0, n] > -INF:
        choose(("C", 0, n), 1.0)
    return A


def definitions(scores, lengths, temperature=1.0, **kwargs):
    each = zip(scores.double().tolist(), lengths.tolist(), strict=True)
    return torch.stack([by_definition(s, n, temperature, **kwargs) for s, n in each])


def tolerance(case, backend, temperature=1.0):
    """One rounding of the result, and of exponents as large as the scores; in float32, of every score in them."""
    result, exponent = (1e-13 if case.scores.dtype == torch.float64 else 2.5e-7), 1e-14
    if backend == "triton" and case.scores.dtype != torch.float64:
        exponent = 2 * case.scores.shape[-1] * result
    return 4 * result + exponent * (1 + case.magnitude / temperature)


def value_and_gradient(scores, lengths=None, weights=None, **options):
    scores = scores.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    A = tritree.relaxed_tree(scores, lengths, **options)
    if weights is None:
        weights = torch.linspace(-1, 2, A.shape[-1] ** 2).reshape(A.shape[-2:])
    (gradient,) = torch.autograd.grad(A, scores, weights.to(A.dtype).expand_as(A))
    return A.detach(), gradient


def check_definition(case, backend, temperature):
    A = tritree.relaxed_tree(case.scores, case.lengths, temperature=temperature, backend=backend)
    assert A.dtype == result_dtype(case.scores.dtype)
    assert_close(A, definitions(case.scores, case.lengths, temperature), tolerance(case, backend, temperature))
    assert (A[~case.live | (case.scores == -INF)] == 0).all()


def check_gradient(case, backend):
    """Against the reference in float64."""
    weights = torch.randn(case.scores.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    forbidden = ~case.live | (case.scores == -INF)
    weights[forbidden] = torch.nan  # ignored there
    ours = value_and_gradient(case.scores, case.lengths, weights, backend=backend)[1]
    exact = value_and_gradient(case.scores.double(), case.lengths, weights, backend="reference")[1]
    assert (ours[forbidden] == 0).all() and (exact[forbidden] == 0).all()
    assert_close(ours, exact, 64 * tolerance(case, backend) + torch.finfo(ours.dtype).eps)


def long_batch(dtype=torch.float64, B=6, n=24, scale=3.0, backend=None):
    """Ragged, with some forbidden arcs. Not long for Triton's interpreter."""
    if backend == "triton":
        B, n = min(B, 2), min(n, 4)
    lengths = torch.randint(1, n + 1, (B,))
    lengths[0] = n
    scores = scale * torch.randn(B, n + 1, n + 1, dtype=dtype)
    scores[:, 1:][torch.rand(B, n, n + 1) < 0.1] = -INF
    return scores, lengths
