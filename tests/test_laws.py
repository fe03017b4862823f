"""Laws that hold for any scores, also for sentences too long to enumerate."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import kl_divergence

import tritree
from tests.cases import KINDS, LAYOUTS, as_fast_as, assert_close, fill, lay_out, make_case, rounding, seeded
from tests.operators import FUNCTIONS
from tritree import TreeCRF

pytestmark = pytest.mark.on_device

SIZES = {"reference": (8, 6, 10), "numba": (40, 6, 60), "triton": (5, 2, 4)}
"""The longest sentence, the largest batch and the number of cases."""


def for_each_batch(check):
    """Runs a law(case, backend) on drawn batches, as large as the backend is fast."""

    @pytest.mark.parametrize("backend", SIZES)
    def test(backend):
        longest, largest, examples = SIZES[as_fast_as(backend)]

        @settings(max_examples=examples)
        @given(st.data())
        def run(data):
            N = data.draw(st.integers(2, longest + 1), label="N")
            case = make_case(
                kind=data.draw(st.sampled_from(KINDS)),
                N=N,
                lengths=data.draw(st.lists(st.integers(0, N - 1), min_size=1, max_size=largest)),
                single_root=data.draw(st.booleans()),
                dtype=data.draw(st.sampled_from([torch.float32, torch.float64])),
                layout="contiguous",
                junk=torch.nan,
                seed=data.draw(st.integers(0, 2**16)),
            )
            check(case, backend)

        run()

    test.__name__, test.__doc__, test.check = check.__name__, check.__doc__, check
    return test


def crf(case, backend, scores=None, lengths=None):
    scores, lengths = case.scores if scores is None else scores, case.lengths if lengths is None else lengths
    return TreeCRF(scores, lengths, backend=backend, validate_args=False, **case.args)


def results(scores, lengths, case, backend):
    """Values and derivatives that have one sentence per row."""
    scores = scores.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    rows = [row for row in FUNCTIONS if not row.random and backend in row.backends]
    values = [value for row in rows for value in row.call(scores, lengths, case.single_root, backend)]
    dist = crf(case, backend, scores, lengths)
    values += [dist.mbr, *torch.autograd.grad(dist.entropy().sum(), scores)]
    with torch.no_grad():
        values.append(tritree.log_partition(scores, lengths, backend=backend, **case.args))  # the inside pass alone
    return [x.detach() for x in values]


@for_each_batch
def test_the_heads_of_each_word_sum_to_one(case, backend):
    dist = crf(case, backend)
    words = tritree.conventions.live_words(case.lengths, case.scores.shape[-1])
    expected = words & (dist.log_partition != -torch.inf).unsqueeze(-1)
    assert_close(dist.marginals.sum(-2), expected, 4 * rounding(case, backend))
    assert (dist.marginals >= 0).all() and (dist.marginals <= 1 + rounding(case, backend)).all()


@for_each_batch
def test_entropy_is_cross_entropy_with_itself(case, backend):
    p = crf(case, backend)
    q = crf(case, backend, case.scores.clone())
    assert torch.equal(p.entropy(), p.cross_entropy(q))
    assert (kl_divergence(p, q) == 0).all()
    assert (p.entropy() >= -rounding(case, backend) * (1 + case.magnitude)).all()


@for_each_batch
def test_kl_is_not_negative(case, backend):
    other = fill("normal", *case.scores.shape[:2], seeded(1)).to(case.scores.dtype)
    p, q = crf(case, backend), crf(case, backend, other)
    bound = -4 * rounding(case, backend) * (1 + case.magnitude)
    assert (kl_divergence(p, q) >= bound).all() and (kl_divergence(q, p) >= bound).all()


@for_each_batch
def test_shifting_a_column_shifts_log_z_and_nothing_else(case, backend):
    shift = torch.randint(-8, 9, case.scores.shape[:1] + case.scores.shape[-1:]).to(case.scores.dtype)
    moved = crf(case, backend, case.scores + shift.unsqueeze(-2))
    still = crf(case, backend)
    words = tritree.conventions.live_words(case.lengths, case.scores.shape[-1])
    total = torch.where(words, shift, 0).sum(-1)
    tolerance = 8 * rounding(case, backend)
    assert_close(moved.log_partition, still.log_partition + total, tolerance)
    assert_close(moved.marginals, still.marginals, tolerance)
    assert_close(moved.entropy(), still.entropy(), tolerance * (1 + case.magnitude))


@for_each_batch
def test_the_best_tree_bounds_the_sum(case, backend):
    """best ≤ log Z ≤ best + log(number of trees), and the mode is as probable as its score says."""
    best, heads = tritree.viterbi(case.scores, case.lengths, backend=backend, **case.args)
    dist = crf(case, backend)
    slack = 4 * rounding(case, "triton") * (1 + best.abs().nan_to_num(posinf=0))
    possible = best != -torch.inf
    assert torch.equal(possible, dist.log_partition != -torch.inf)
    assert (best <= dist.log_partition + slack)[possible].all()
    log_count = case.lengths * torch.tensor(6.75).log()
    assert (dist.log_partition <= best + log_count + slack)[possible].all()
    assert_close(dist.log_prob(heads)[possible], (best - dist.log_partition)[possible], 1, slack.max().item())
    assert dist.support.check(heads).all()


@for_each_batch
def test_the_best_tree_with_each_arc(case, backend):
    """The best of them, in the column of any word, is the best tree."""
    best, heads = tritree.viterbi(case.scores, case.lengths, backend=backend, **case.args)
    with_arc = crf(case, backend).max_marginals
    words = tritree.conventions.live_words(case.lengths, case.scores.shape[-1])
    expected = torch.where(words, best.unsqueeze(-1), -torch.inf)
    assert_close(with_arc.amax(-2), expected, rounding(case, "triton"))
    found = with_arc.gather(-2, heads.clamp(min=0).unsqueeze(-2)).squeeze(-2)
    assert_close(torch.where(heads >= 0, found, -torch.inf), expected, rounding(case, "triton"))


@for_each_batch
def test_the_k_best_trees(case, backend):
    """Falling scores, each that of its tree; no tree twice; the first is the best; a smaller k gives the first."""
    k = 5 if backend == "triton" else 12
    best, heads = crf(case, backend).topk(k)
    possible = best != -torch.inf
    assert (best[:, 1:] <= best[:, :-1]).all()
    assert torch.equal(
        heads >= 0, tritree.conventions.live_words(case.lengths, heads.shape[-1])[:, None] & possible[..., None]
    )
    arcs = case.scores.gather(1, heads.clamp(min=0)).masked_fill(heads < 0, 0)
    assert_close(torch.where(possible, arcs.double().sum(-1), -torch.inf), best, 4 * rounding(case, "triton"))
    same = (heads.unsqueeze(1) == heads.unsqueeze(2)).all(-1) & possible.unsqueeze(1) & possible.unsqueeze(2)
    assert torch.equal(same, torch.diag_embed(possible))
    support = crf(case, backend).support
    assert (support.check(heads.movedim(1, 0)).movedim(0, 1) | ~possible).all()
    for fewer in (1, k // 2):
        few = crf(case, backend).topk(fewer)
        assert torch.equal(few[0], best[:, :fewer]) and torch.equal(few[1], heads[:, :fewer])
    viterbi = tritree.viterbi(case.scores, case.lengths, backend=backend, **case.args)
    assert torch.equal(viterbi[0], best[:, 0]) and torch.equal(viterbi[1], heads[:, 0])


@pytest.mark.parametrize("single_root", [False, True])
def test_all_trees_together_weigh_as_much_as_log_z_says(backend, single_root):
    N, k = (4, 14) if backend == "triton" else (5, 60)
    dist = TreeCRF(torch.randn(2, N, N, dtype=torch.float64), single_root=single_root, backend=backend)
    torch.testing.assert_close(dist.topk(k)[0].logsumexp(-1), dist.log_partition)


@for_each_batch
def test_batch_and_padding_do_not_matter_bitwise(case, backend):
    """Each sentence alone, without padding, and with more padding: the same bits as in the batch."""
    together = results(case.scores, case.lengths, case, backend)
    N = case.scores.shape[-1]
    wide = case.scores.new_full((len(case.lengths), N + 3, N + 3), torch.nan)
    wide[:, :N, :N] = case.scores
    for whole, padded in zip(together, results(wide, case.lengths, case, backend), strict=True):
        assert torch.equal(whole, padded[tuple(slice(s) for s in whole.shape)])
    for b, n in enumerate(case.lengths.tolist()):
        alone = results(case.scores[b : b + 1, : n + 1, : n + 1], case.lengths[b : b + 1], case, backend)
        for whole, part in zip(together, alone, strict=True):
            assert torch.equal(whole[b][tuple(slice(s) for s in part.shape[1:])], part[0])


@for_each_batch
def test_strides_do_not_matter_bitwise(case, backend):
    expected = results(case.scores, case.lengths, case, backend)
    for layout in LAYOUTS[1:3]:
        actual = results(lay_out(case.scores, layout), case.lengths, case, backend)
        assert all(torch.equal(x, y) for x, y in zip(expected, actual, strict=True)), layout
    one = results(
        case.scores[:1].contiguous().expand_as(case.scores), case.lengths[:1].expand_as(case.lengths), case, backend
    )
    assert all(torch.equal(x[0], y[0]) and torch.equal(y[0], y[-1]) for x, y in zip(expected, one, strict=True))


@pytest.mark.parametrize("backend", ["numba", "triton"])
def test_backends_agree_with_the_reference_beyond_enumeration(backend):
    n = 14 if as_fast_as(backend) == "numba" else 9
    scores = 3 * torch.randn(2, n + 1, n + 1, dtype=torch.float64)
    lengths = torch.tensor([n, 7])
    for single_root in (False, True):
        values = []
        for name in (backend, "reference"):
            s = scores.clone().requires_grad_()
            dist = TreeCRF(s, lengths, single_root=single_root, backend=name, validate_args=False)
            (gradient,) = torch.autograd.grad(dist.entropy().sum(), s)
            values.append([dist.log_partition, dist.marginals, dist.mode, gradient])
        for ours, theirs in zip(*values, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
