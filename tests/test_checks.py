"""What a user gets wrong is a ValueError that says what to do."""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tritree
from tests.operators import ROWS
from tritree import TreeCRF, operators
from tritree.backends import kernels, resolve_backend

FUNCTIONS = [row.function for row in ROWS if row.function is not None] + [TreeCRF]
WITH_SINGLE_ROOT = [row.function for row in ROWS if row.function is not None and row.has_single_root] + [TreeCRF]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("scores", "lengths", "message"),
    [
        ([[0.0]], None, "must be a tensor"),
        (torch.zeros(3), None, r"shape \[\*batch, N, N\]"),
        (torch.zeros(3, 4), None, r"got \[3, 4\]"),
        (torch.zeros(2, 0, 0), None, "N ≥ 1"),
        (torch.zeros(3, 3, dtype=torch.int64), None, "float16, bfloat16, float32 or float64"),
        (torch.zeros(3, 3, dtype=torch.complex64), None, "float16, bfloat16, float32 or float64"),
        (torch.zeros(2, 3, 3), torch.tensor([1.0, 2.0]), "integer tensor"),
        (torch.zeros(2, 3, 3), torch.tensor([True, False]), "integer tensor"),
        (torch.zeros(2, 3, 3), [1, 2], "integer tensor"),
        (torch.zeros(2, 3, 3), torch.tensor([1]), "batch shape"),
        (torch.zeros(2, 3, 3), torch.tensor(1), "batch shape"),
        (torch.zeros(2, 3, 3), torch.zeros(2, dtype=torch.int64, device="meta"), "move one to the other"),
    ],
)
def test_shapes_and_dtypes(function, scores, lengths, message):
    with pytest.raises(ValueError, match=message):
        function(scores, lengths)


@pytest.mark.parametrize("lengths", [[2, 3], [-1, 2]])
def test_lengths_out_of_range(backend, lengths):
    scores, lengths = torch.zeros(2, 3, 3), torch.tensor(lengths)
    for row in ROWS:
        if row.function is not None and backend in row.backends:
            with pytest.raises(ValueError, match=r"lengths\[[01]\] is (3|-1), but scores with N = 3 hold 0 to 2 words"):
                row.call(scores, lengths, False, backend)
    with pytest.raises(ValueError, match="hold 0 to 2 words"):
        _ = TreeCRF(scores, lengths, backend=backend, validate_args=False).log_partition


@pytest.mark.parametrize("lengths", [[9, 2], [-1, 2]])
def test_lengths_out_of_range_in_a_distribution(backend, lengths):
    """It is found before the heads are checked, which may be in range for such a length."""
    scores, lengths, options = torch.zeros(2, 5, 5), torch.tensor(lengths), {"backend": backend}
    message = r"lengths\[0\] is (9|-1), but scores with N = 5 hold 0 to 4 words"
    with pytest.raises(ValueError, match=message):
        TreeCRF(scores, lengths, validate_args=True, **options)
    for heads in ([-1, 0, 1, 1, 1], [-1, 0, 8, 8, 8], [-1, -1, -1, 1, 1]):
        heads = torch.tensor([heads, heads])
        dist = TreeCRF(scores, lengths, validate_args=False, **options)
        for function in (dist.log_prob, dist.support.check, dist.support.faults):
            with pytest.raises(ValueError, match=message):
                function(heads.expand(3, 2, 5))
        with pytest.raises(ValueError, match=message):
            dist.cross_entropy(TreeCRF(scores, validate_args=False, **options))


def test_lengths_out_of_range_that_are_not_checked(backend, monkeypatch):
    """As on a GPU: wrong results, but no index outside of a tensor, which would end the process there."""
    monkeypatch.setattr(operators, "can_read_values", lambda tensor: False)
    monkeypatch.setattr(operators, "bypasses_dispatcher", lambda *_: False)
    monkeypatch.setattr(operators, "check_lengths", lambda lengths, N: None)
    scores, lengths, heads = torch.zeros(2, 5, 5), torch.tensor([9, -1]), torch.tensor([[-1, 8, 8, 8, 8]] * 2)
    assert TreeCRF(scores, lengths).support.check(heads).tolist() == [False, True]
    if backend == "numba":  # always checks them
        return
    dist = TreeCRF(scores, lengths, backend=backend)
    assert dist.log_prob(heads).shape == (2,) and dist.mode.shape == dist.sample().shape == (2, 5)
    assert dist.topk(2)[1].shape == (2, 2, 5) and dist.max_marginals.shape == (2, 5, 5)
    assert tritree.relaxed_tree(scores, lengths, backend="reference").shape == (2, 5, 5)


def test_integer_lengths_of_any_kind(backend):
    scores = torch.zeros(2, 3, 3)
    expected = tritree.log_partition(scores, torch.tensor([2, 1]), backend=backend)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        lengths = torch.tensor([2, 1], dtype=dtype)
        assert torch.equal(tritree.log_partition(scores, lengths, backend=backend), expected)


def test_unknown_backend():
    with pytest.raises(ValueError, match="one of 'numba', 'triton', 'reference', got 'cuda'"):
        tritree.viterbi(torch.zeros(3, 3), backend="cuda")


def test_number_of_samples():
    for wrong in (-1, 2.0, True):
        with pytest.raises(ValueError, match="num_samples must be an integer of 0 or more"):
            tritree.sample(torch.zeros(3, 3), num_samples=wrong)


def test_number_of_best_trees():
    for wrong in (-1, 0, 2.0, True):
        with pytest.raises(ValueError, match="k must be an integer of 1 or more"):
            tritree.topk(torch.zeros(3, 3), k=wrong)


def test_numbers_of_numpy():
    scores = torch.zeros(3, 3)
    for two in (np.int64(2), np.uint8(2)):
        assert tritree.topk(scores, k=two)[0].shape == TreeCRF(scores).topk(two)[0].shape == (2,)
        assert tritree.sample(scores, num_samples=two).shape == (2, 3)
    for wrong in (np.True_, np.float64(2), torch.tensor(2), "2", None):
        with pytest.raises(ValueError, match="k must be an integer of 1 or more"):
            tritree.topk(scores, k=wrong)
        with pytest.raises(ValueError, match="num_samples must be an integer of 0 or more"):
            tritree.sample(scores, num_samples=wrong)


@pytest.mark.parametrize("function", WITH_SINGLE_ROOT, ids=lambda f: f.__name__)
def test_single_root_is_a_bool(function, monkeypatch):
    """Of any library: the kernels get Python's, so that Numba compiles nothing for another type."""
    seen = []
    module = kernels("numba")
    for name in [row.name for row in ROWS if row.has_single_root]:
        kernel = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=kernel: (seen.append(a[-1]), f(*a))[1])
    for value in (True, False, 1, 0, np.True_, np.False_, np.int64(1)):
        result = function(torch.zeros(3, 3), single_root=value)
        if function is TreeCRF:
            _ = result.log_partition
        assert seen.pop() is bool(value)
    for wrong in (None, 2, -1, 1.0, "yes", torch.tensor(True), np.zeros((40, 40))):
        with pytest.raises(ValueError, match=r"^single_root must be True or False, got [^\n]{,20}$"):
            function(torch.zeros(3, 3), single_root=wrong)


def test_device_without_kernels():
    with pytest.raises(ValueError, match="no kernels for meta tensors"):
        tritree.log_partition(torch.zeros(3, 3, device="meta"))


@pytest.mark.needs_triton
def test_the_device_decides():
    with FakeTensorMode():
        assert resolve_backend(None, torch.empty(3, 3, device="cuda")) == "triton"
        with pytest.raises(ValueError, match="backend='numba' needs CPU tensors, got cuda"):
            tritree.log_partition(torch.empty(3, 3, device="cuda"), backend="numba")
    assert resolve_backend(None, torch.empty(3, 3)) == "numba"


@pytest.mark.needs_triton
def test_sentences_that_are_too_long_for_the_gpu():
    with FakeTensorMode(), pytest.raises(ValueError, match="N = 17000 is too large"):
        kernels("triton").inside(torch.empty(1, 17000, 17000), torch.tensor([9]), False)


@pytest.mark.needs_triton
def test_triton_on_cpu_tensors_needs_the_interpreter(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    with pytest.raises(ValueError, match="needs CUDA tensors; TRITON_INTERPRET=1"):
        tritree.log_partition(torch.zeros(3, 3), backend="triton")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_scores_that_are_no_scores(value):
    scores = torch.zeros(2, 2, 4, 4)
    scores[1, 0, 2, 3] = value
    with pytest.raises(ValueError, match=rf"sentence \(1, 0\): the score of arc 2 → 3 is {value}"):
        TreeCRF(scores, validate_args=True)
    TreeCRF(scores, validate_args=False)
    TreeCRF(scores, torch.full((2, 2), 2), validate_args=True)  # in the padding it is no fault


@pytest.mark.parametrize(
    ("heads", "fault"),
    [
        ([-1, 0, 5, 0, 0], "word 2 with head 5 is out of range"),
        ([-1, 0, 2, 0, 0], "word 2 with head 2 is its own head"),
        ([-1, 0, -2, 0, 0], "word 2 with head -2 is out of range"),
        ([-1, 3, 4, 0, 0], "word 1 with head 3 has an arc that crosses another"),
        ([-1, 2, 3, 1, 0], "word 1 with head 2 is in a cycle"),
        ([-1, 2, 1, 0, 0], "word 1 with head 2 is in a cycle"),
        ([-1, 2, 1, -1, -1], "word 1 with head 2 is in a cycle"),
        ([-1, 0, 1, 0, 1], "word 3 with head 0 has an arc that crosses another"),
    ],
)
def test_heads_that_are_no_projective_tree(heads, fault):
    dist = TreeCRF(torch.zeros(2, 5, 5), validate_args=True)
    good = torch.tensor([-1, 0, 1, 2, 3])
    dist.log_prob(torch.stack([good, good]))
    with pytest.raises(ValueError, match=f"sentence 1: heads are no projective tree: {fault}"):
        dist.log_prob(torch.stack([good, torch.tensor(heads)]))


def test_two_roots_under_single_root():
    dist = TreeCRF(torch.zeros(3, 3), single_root=True, validate_args=True)
    with pytest.raises(ValueError, match="word 2 with head 0 is a second child of ROOT"):
        dist.log_prob(torch.tensor([-1, 0, 0]))


def test_without_checks_log_prob_is_the_plain_formula():
    scores = torch.randn(4, 4)
    dist = TreeCRF(scores, validate_args=False)
    crossing = torch.tensor([-1, 3, 0, 0])
    expected = scores[crossing[1:], [1, 2, 3]].sum() - dist.log_partition
    torch.testing.assert_close(dist.log_prob(crossing), expected)


@pytest.mark.parametrize("heads", [torch.zeros(4), torch.zeros(3, dtype=torch.int64), torch.zeros(3, 4).bool(), [0, 0]])
def test_heads_of_the_wrong_shape_or_dtype(heads):
    scores = torch.zeros(2, 4, 4)
    with pytest.raises(ValueError, match="heads must"):
        TreeCRF(scores, validate_args=False).log_prob(heads)
    with pytest.raises(ValueError, match="heads must"):
        tritree.constrain(scores, heads)


def test_heads_on_another_device():
    scores, heads = torch.zeros(2, 4, 4), torch.zeros(2, 4, dtype=torch.int64, device="meta")
    with pytest.raises(ValueError, match="heads are on meta, scores on cpu"):
        TreeCRF(scores, validate_args=False).log_prob(heads)
    with pytest.raises(ValueError, match="heads are on meta, scores on cpu"):
        tritree.constrain(scores, heads)


@pytest.mark.parametrize(
    "scores", [torch.zeros(4), torch.zeros(2, 3, 4), torch.zeros(2, 4, 4, dtype=torch.int64), [[0.0]], None]
)
def test_constrain_checks_its_scores(scores):
    with pytest.raises(ValueError, match="scores must"):
        tritree.constrain(scores, torch.zeros(2, 4, dtype=torch.int64))


def test_kl_between_unequal_lengths():
    p, q = (TreeCRF(torch.zeros(2, 4, 4), torch.tensor([3, n]), validate_args=True) for n in (3, 2))
    with pytest.raises(ValueError, match="sentence 1: the distributions differ in length"):
        torch.distributions.kl_divergence(p, q)
    with pytest.raises(ValueError, match="differ in N: 4 and 5"):
        p.cross_entropy(TreeCRF(torch.zeros(2, 5, 5)))
    with pytest.raises(ValueError, match="must be a TreeCRF, got Normal"):
        p.cross_entropy(torch.distributions.Normal(0.0, 1.0))
