"""The relaxed tree: its definition, its laws, its gradient and every edge case of the conventions."""

import importlib
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.library import opcheck

import tritree
from tests.cases import assert_close, cases, fill, lay_out
from tritree.chart import live_arcs, live_words, result_dtype

INF = float("inf")
ALL_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.fixture(params=["reference", "numba"])
def backend(request):
    return request.param


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


def tolerance(case, temperature=1.0):
    """One rounding of the result, and of exponents as large as the scores."""
    result = 1e-13 if case.scores.dtype == torch.float64 else 2.5e-7
    return 4 * result + 1e-14 * (1 + case.magnitude / temperature)


def value_and_gradient(scores, lengths=None, weights=None, **options):
    scores = scores.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    A = tritree.relaxed_tree(scores, lengths, **options)
    if weights is None:
        weights = torch.linspace(-1, 2, A.shape[-1] ** 2).reshape(A.shape[-2:])
    (gradient,) = torch.autograd.grad(A, scores, weights.to(A.dtype).expand_as(A))
    return A.detach(), gradient


def test_definition(backend):
    @settings(max_examples=60 if backend == "numba" else 25)
    @given(cases(dtypes=ALL_DTYPES), st.sampled_from([0.3, 1.0, 4.0]))
    def check(case, temperature):
        check_definition(case, backend, temperature)

    check()


def check_definition(case, backend, temperature):
    A = tritree.relaxed_tree(case.scores, case.lengths, temperature=temperature, backend=backend)
    assert A.dtype == result_dtype(case.scores.dtype)
    assert_close(A, definitions(case.scores, case.lengths, temperature), tolerance(case, temperature))
    assert (A[~case.live | (case.scores == -INF)] == 0).all()


def test_with_log_sums_the_definition_is_the_tree_crf():
    """So a relaxed tree differs from the marginals only by what an item is worth to the items above it."""
    scores = 2 * torch.randn(2, 6, 6, dtype=torch.float64)
    lengths = torch.tensor([5, 3])
    for temperature in (0.5, 1.0):
        A = definitions(scores, lengths, temperature, combine=log_sum)
        torch.testing.assert_close(A, tritree.marginals(scores / temperature, lengths))
    assert (definitions(scores, lengths) - tritree.marginals(scores, lengths)).abs().max() > 1e-2


def long_batch(dtype=torch.float64, B=6, n=24, scale=3.0):
    """Ragged, with some forbidden arcs."""
    lengths = torch.randint(1, n + 1, (B,))
    lengths[0] = n
    scores = scale * torch.randn(B, n + 1, n + 1, dtype=dtype)
    scores[:, 1:][torch.rand(B, n, n + 1) < 0.1] = -INF
    return scores, lengths


@pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
def test_the_heads_of_each_word_sum_to_one(backend, scale):
    scores, lengths = long_batch(scale=scale)
    for temperature in (0.01, 1.0, 100.0):
        A = tritree.relaxed_tree(scores, lengths, temperature=temperature, backend=backend)
        torch.testing.assert_close(A.sum(-2), live_words(lengths, A.shape[-1]).double(), rtol=0, atol=1e-9)
        assert (A >= 0).all() and (A <= 1 + 1e-9).all()


def test_cold_it_is_the_best_tree(backend):
    scores, lengths = long_batch(n=10)
    _, heads = tritree.viterbi(scores, lengths)
    arcs = torch.nn.functional.one_hot(heads.clamp(min=0), 11).mT * (heads >= 0).unsqueeze(-2)
    A = tritree.relaxed_tree(scores, lengths, temperature=1e-5, backend=backend)
    torch.testing.assert_close(A, arcs.double(), rtol=0, atol=1e-9)


def test_only_scores_over_temperature_count(backend):
    scores, lengths = long_batch(n=9)
    A, gradient = value_and_gradient(scores, lengths, temperature=0.25, backend=backend)
    B, gradient_of_quotient = value_and_gradient(scores / 0.25, lengths, backend=backend)
    torch.testing.assert_close(A, B)
    torch.testing.assert_close(gradient, gradient_of_quotient / 0.25)


def test_shifting_a_column_changes_nothing(backend):
    scores, lengths = long_batch(n=9)
    shift = 50 * torch.randn(6, 1, 10, dtype=torch.float64)
    still = value_and_gradient(scores, lengths, backend=backend)
    moved = value_and_gradient(scores + shift, lengths, backend=backend)
    for x, y in zip(still, moved, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(still[1].sum(-2), torch.zeros(6, 10, dtype=torch.float64), rtol=0, atol=1e-10)


@pytest.mark.parametrize("temperature", [0.4, 1.0])
def test_gradient_by_finite_differences(backend, temperature):
    scores = torch.randn(3, 5, 5, dtype=torch.float64)
    scores[0, 1, 2] = scores[1, 0, 3] = -INF
    lengths = torch.tensor([4, 3, 0])
    possible = live_arcs(lengths, 5) & (scores != -INF)

    def of_possible_arcs(x):
        s = torch.full_like(scores, -INF).masked_scatter(possible, x)
        return tritree.relaxed_tree(s, lengths, temperature=temperature, backend=backend)

    assert gradcheck(of_possible_arcs, scores[possible].requires_grad_())


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_gradient_of_the_kernel_is_that_of_the_reference(temperature):
    scores, lengths = long_batch(n=17)
    weights = torch.randn_like(scores)
    ours, theirs = (
        value_and_gradient(scores, lengths, weights, temperature=temperature, backend=name)
        for name in ("numba", "reference")
    )
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-9, atol=1e-9)


def test_gradients_on_drawn_cases():
    settings(max_examples=40)(given(cases())(check_gradient))()


def check_gradient(case):
    weights = torch.randn(case.scores.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    forbidden = ~case.live | (case.scores == -INF)
    weights[forbidden] = torch.nan  # what arrives there is ignored
    ours = value_and_gradient(case.scores, case.lengths, weights, backend="numba")[1]
    exact = value_and_gradient(case.scores.double(), case.lengths, weights, backend="reference")[1]
    assert (ours[forbidden] == 0).all() and (exact[forbidden] == 0).all()
    assert_close(ours, exact, 64 * tolerance(case) + torch.finfo(ours.dtype).eps)


def test_no_words(backend):
    for N in (1, 4):
        A, gradient = value_and_gradient(
            torch.full((2, N, N), torch.nan), torch.zeros(2, dtype=torch.int64), backend=backend
        )
        assert (A == 0).all() and (gradient == 0).all()


def test_one_word(backend):
    scores = torch.tensor([[torch.nan, 2.5], [torch.nan, torch.nan]])
    A, gradient = value_and_gradient(scores, backend=backend)
    assert A.tolist() == [[0, 1], [0, 0]] and (gradient == 0).all()


def test_no_tree_possible(backend):
    """No head for word 2 in the first sentence, only crossing arcs in the second; the third is not disturbed."""
    scores = torch.randn(3, 5, 5)
    scores[0, :, 2] = -INF
    scores[1, :, 3:] = -INF
    scores[1, 1, 3] = scores[1, 2, 4] = 0
    A, gradient = value_and_gradient(scores, backend=backend)
    assert (A[:2] == 0).all() and (gradient[:2] == 0).all()
    expected = value_and_gradient(scores[2:], backend=backend)
    assert torch.equal(A[2:], expected[0]) and torch.equal(gradient[2:], expected[1])


def test_the_only_tree_has_no_gradient(backend):
    """Every arc but those of one tree is forbidden; scores that dwarf each other do not matter then."""
    scores = torch.full((5, 5), -INF, dtype=torch.float64)
    for m, h in enumerate([2, 0, 2, 3], 1):
        scores[h, m] = [-1e30, 1e9, 3.0, -1e4][m - 1]
    A, gradient = value_and_gradient(scores, backend=backend)
    assert torch.equal(A, torch.isfinite(scores).double())
    assert (gradient.abs() < 1e-12).all()


def test_large_negative_scores_as_a_mask(backend):
    scores = torch.randn(4, 5, 5)
    scores[:, 1, 2] = torch.tensor([-1e4, -1e9, -1e30, torch.finfo(torch.float32).min])
    forbidden = scores.clone()
    forbidden[:, 1, 2] = -INF
    for x, y in zip(
        value_and_gradient(scores, backend=backend), value_and_gradient(forbidden, backend=backend), strict=True
    ):
        torch.testing.assert_close(x, y)


def test_dead_cells_are_ignored(backend):
    lengths = torch.tensor([3, 2, 0, 1])
    scores = torch.randn(4, 4, 4)
    live = live_arcs(lengths, 4)
    clean = value_and_gradient(torch.where(live, scores, 0), lengths, backend=backend)
    for junk in (torch.nan, INF, -INF, 1e38):
        dirty = value_and_gradient(torch.where(live, scores, junk), lengths, backend=backend)
        assert torch.equal(clean[0], dirty[0]) and torch.equal(clean[1], dirty[1])


def test_nan_stays_in_its_sentence(backend):
    scores = torch.randn(5, 4, 4)
    clean = value_and_gradient(scores, backend=backend)
    scores[2, 2, 3] = torch.nan
    dirty = value_and_gradient(scores, backend=backend)
    others = torch.arange(5) != 2
    assert all(torch.equal(x[others], y[others]) for x, y in zip(clean, dirty, strict=True))


def test_half_precision_is_computed_in_more(backend):
    scores, lengths = long_batch(torch.float32, n=12)
    for dtype in (torch.float16, torch.bfloat16):
        half = scores.to(dtype)
        A, gradient = value_and_gradient(half, lengths, backend=backend)
        assert A.dtype == torch.float32 and gradient.dtype == dtype
        exact = value_and_gradient(half.double(), lengths, backend=backend)
        torch.testing.assert_close(A.double(), exact[0], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(gradient, exact[1].to(dtype), rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_padding_and_strides_do_not_matter_bitwise(backend, dtype):
    scores, lengths = long_batch(dtype, B=7, n=13 if backend == "numba" else 7)
    weights = torch.randn_like(scores)
    N = scores.shape[-1]
    together = value_and_gradient(scores, lengths, weights, backend=backend)
    wide, wide_weights = torch.full((2, 7, N + 5, N + 5), torch.nan, dtype=dtype)
    wide[:, :N, :N], wide_weights[:, :N, :N] = scores, weights
    padded = value_and_gradient(wide, lengths, wide_weights, backend=backend)
    assert all(torch.equal(x, y[:, :N, :N]) for x, y in zip(together, padded, strict=True))
    for layout in ("transposed", "sliced"):
        strided = value_and_gradient(lay_out(scores, layout), lengths, lay_out(weights, layout), backend=backend)
        assert all(torch.equal(x, y) for x, y in zip(together, strided, strict=True)), layout
    for b, n in enumerate(lengths.tolist()):
        part = slice(b, b + 1), slice(n + 1), slice(n + 1)
        alone = value_and_gradient(scores[part], lengths[b : b + 1], weights[part], backend=backend)
        assert all(torch.equal(x[part], y) for x, y in zip(together, alone, strict=True)), b


def test_threads_and_old_workspaces_do_not_matter_bitwise(monkeypatch):
    cpu = importlib.import_module("tritree.cpu")
    scores, lengths = long_batch(torch.float32, B=30)
    expected = value_and_gradient(scores, lengths)
    workspace = cpu.pool.workspace

    def filled_with_nan(size, dtype):
        work = workspace(size, dtype)
        work.fill(math.nan)
        return work

    monkeypatch.setattr(cpu.pool, "workspace", filled_with_nan)
    monkeypatch.setattr(cpu, "WORTH_A_THREAD", 1)
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            result = value_and_gradient(scores, lengths)
            assert all(torch.equal(x, y) for x, y in zip(expected, result, strict=True))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("batch", [(), (2, 1, 2), (0,)])
def test_batch_shapes(backend, batch):
    scores = fill("normal", 4, 4, torch.Generator().manual_seed(0))[: math.prod(batch)].reshape(*batch, 4, 4)
    lengths = torch.randint(1, 4, batch)
    shaped = value_and_gradient(scores, lengths, backend=backend)
    flat = value_and_gradient(scores.reshape(-1, 4, 4), lengths.reshape(-1), backend=backend)
    for x, y in zip(shaped, flat, strict=True):
        assert x.shape == (*batch, 4, 4) and torch.equal(x.reshape(-1, 4, 4), y)


def test_inputs_are_not_modified(backend):
    scores, lengths = long_batch(n=5)
    weights = torch.randn_like(scores)
    copies = scores.clone(), lengths.clone(), weights.clone()
    value_and_gradient(scores, lengths, weights, backend=backend)
    assert all(torch.equal(x, y) for x, y in zip((scores, lengths, weights), copies, strict=True))


def test_no_gradient_is_computed_where_none_is_asked_for(backend):
    scores = torch.randn(2, 4, 4, requires_grad=True)
    with torch.no_grad():
        assert not tritree.relaxed_tree(scores, backend=backend).requires_grad
    assert not tritree.relaxed_tree(scores.detach(), backend=backend).requires_grad
    with torch.inference_mode():
        tritree.relaxed_tree(scores, backend=backend)


def test_what_a_user_gets_wrong(backend):
    scores = torch.zeros(2, 3, 3)
    for wrong in (0.0, -1.0, INF, math.nan, True, "1", None, torch.tensor(1.0)):
        with pytest.raises(ValueError, match="temperature must be a positive number"):
            tritree.relaxed_tree(scores, temperature=wrong, backend=backend)
    with pytest.raises(ValueError, match=r"lengths\[1\] is 3, but scores with N = 3 hold 0 to 2 words"):
        tritree.relaxed_tree(scores, torch.tensor([2, 3]), backend=backend)
    with pytest.raises(ValueError, match=r"shape \[\*batch, N, N\]"):
        tritree.relaxed_tree(torch.zeros(3, 4), backend=backend)
    with pytest.raises(ValueError, match="has no Triton kernel"):
        tritree.relaxed_tree(scores, backend="triton")


@pytest.mark.parametrize(("dtype", "requires_grad"), [(torch.float16, False), (torch.float32, True)])
def test_opcheck(dtype, requires_grad):
    scores = torch.randn(3, 4, 4).to(dtype).requires_grad_(requires_grad)
    lengths = torch.tensor([3, 2, 0])
    opcheck(torch.ops.tritree.relaxed, (scores, lengths, 0.5))
    grad = torch.randn(3, 4, 4)
    opcheck(torch.ops.tritree.relaxed_gradient, (scores.detach(), lengths, grad, 0.5))


def test_nothing_but_the_scores_is_kept():
    scores = torch.randn(2, 12, 12, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t.numel()), t)[1], lambda t: t):
        tritree.relaxed_tree(scores)
    assert sum(saved) <= scores.numel() + 2


def test_second_derivatives_are_refused():
    scores = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    A = tritree.relaxed_tree(scores)
    (gradient,) = torch.autograd.grad(A.square().sum(), scores, create_graph=True)
    with pytest.raises(NotImplementedError, match="differentiable once"):
        gradient.sum().backward()


def test_compile():
    def decoder(s, lengths, temperature):
        return tritree.relaxed_tree(s.tanh(), lengths, temperature=temperature).square().sum()

    scores, lengths = torch.randn(2, 5, 5), torch.tensor([4, 3])
    compiled = torch.compile(decoder, fullgraph=True, backend="aot_eager")
    for temperature in (1.0, 0.5, 0.25):  # annealed
        outcomes = []
        for function in (decoder, compiled):
            s = scores.clone().requires_grad_()
            loss = function(s, lengths, temperature)
            loss.backward()
            outcomes.append((loss.detach(), s.grad))
        torch.testing.assert_close(*outcomes)


def test_vmap():
    scores, lengths = torch.randn(3, 2, 4, 4), torch.tensor([3, 2])
    for dim in (0, 1):
        mapped = torch.vmap(lambda s: tritree.relaxed_tree(s, lengths), in_dims=dim)(scores.movedim(0, dim))
        for k in range(3):
            assert torch.equal(mapped[k], tritree.relaxed_tree(scores[k], lengths))
