"""tritree inside of torch: operators, derivatives, compilation, vmap, autocast."""

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck

import tritree
from tests.operators import FUNCTIONS, ROWS, flat
from tests.operators import KERNELS as ROWS_AND_KERNELS
from tritree import TreeCRF, operators
from tritree.backends import kernels
from tritree.operators import OPERATORS

pytestmark = pytest.mark.on_device

KERNELS = ["numba", "triton"]


def batch(dtype=torch.float64, requires_grad=True, N=4):
    scores = torch.randn(3, N, N, dtype=dtype)
    scores[0, 1, 2] = -torch.inf
    return scores.requires_grad_(requires_grad), torch.tensor([N - 1, 2, 0])


@pytest.mark.filterwarnings("ignore:.torch.jit.script", "ignore:The .grad attribute of a Tensor")  # inside opcheck
@pytest.mark.parametrize(("row", "backend"), ROWS_AND_KERNELS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "requires_grad", "single_root"),
    [
        (torch.float16, False, True),
        (torch.float64, False, True),
        (torch.float32, True, True),
        (torch.float64, True, False),
    ],
)
def test_opcheck(row, backend, dtype, requires_grad, single_root):
    scores, lengths = batch(dtype, requires_grad and row.derivatives > 0)
    opcheck(row.operator, (scores, lengths, *row.arguments(scores, single_root), backend))


@pytest.mark.parametrize(
    ("backend", "single_root"),
    [("reference", False), ("reference", True), ("numba", False), ("numba", True), ("triton", True)],
)
def test_gradcheck(backend, single_root):
    n = 2 if backend == "triton" else 3  # its interpreter is slow
    lengths = torch.tensor([n])
    scores = torch.randn(1, n + 1, n + 1, dtype=torch.float64, requires_grad=True)
    other = torch.randn(1, n + 1, n + 1, dtype=torch.float64, requires_grad=True)
    gold = torch.tensor([[-1, -1, 1, 0][: n + 1]])
    options = {"single_root": single_root, "backend": backend}

    def crf(s):
        return TreeCRF(s, lengths, validate_args=False, **options)

    def of_trees(values):  # there may be fewer than k
        return values[values.isfinite()]

    for row in FUNCTIONS:
        if row.derivatives and backend in row.backends:
            assert gradcheck(lambda s, row=row: of_trees(row.call(s, lengths, **options)[0]), scores)
        if row.derivatives > 1:
            assert gradgradcheck(lambda s, row=row: row.call(s, lengths, **options)[0], scores)
    assert gradcheck(lambda s: crf(s).entropy(), scores)
    assert gradcheck(lambda s, t: crf(s).cross_entropy(crf(t)), (scores, other))
    assert gradcheck(lambda s, t: torch.distributions.kl_divergence(crf(s), crf(t)), (scores, other))
    assert gradcheck(lambda s: crf(s).log_prob(gold), scores)


@pytest.mark.parametrize("backend", KERNELS)
def test_third_derivatives_are_refused(backend):
    scores = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    mu = tritree.marginals(scores, backend=backend)
    (gradient,) = torch.autograd.grad(mu.square().sum(), scores, create_graph=True)
    with pytest.raises(NotImplementedError, match="the next derivative is not implemented"):
        gradient.square().sum().backward()


def test_gradients_through_max_marginals_are_refused(backend):
    scores = torch.randn(3, 3, requires_grad=True)
    result = tritree.max_marginals(scores, backend=backend)
    assert torch.equal(result.detach(), tritree.max_marginals(scores.detach(), backend=backend))
    with pytest.raises(NotImplementedError, match=r"viterbi\(tritree.constrain"):
        result.sum().backward()


@pytest.mark.filterwarnings("ignore:.torch.jit.script")  # torch's own, inside jvp
@pytest.mark.parametrize("function", [row.function for row in FUNCTIONS] + [TreeCRF])
def test_forward_mode_is_refused(function):
    """torch would return a derivative of 0."""
    s = torch.randn(2, 4, 4)
    with pytest.raises(NotImplementedError, match=r"autograd\.grad"):
        torch.func.jvp(lambda x: function(torch.tanh(x)), (s,), (s,))
    with forward_ad.dual_level():
        with pytest.raises(NotImplementedError, match=r"autograd\.grad"):
            function(forward_ad.make_dual(s, s))
        function(s)


@pytest.mark.parametrize("backend", KERNELS)
def test_only_what_is_needed_runs(backend, monkeypatch):
    """No gradient: the inside pass alone. Gradient of log Z: no second-order kernel."""
    module = kernels(backend)
    calls = []
    for name in ("inside", "inside_outside", "tangent"):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=function, n=name: (calls.append(n), f(*a))[1])
    scores = torch.randn(2, 4, 4, requires_grad=True)
    tritree.log_partition(scores.detach(), backend=backend)
    with torch.no_grad():
        tritree.log_partition(scores, backend=backend)
    assert calls == ["inside"] * 2
    calls.clear()
    tritree.log_partition(scores, backend=backend).sum().backward()
    assert calls == ["inside_outside"]
    calls.clear()
    dist = TreeCRF(scores, backend=backend)
    _ = dist.log_partition, dist.marginals, dist.log_prob(dist.mode), dist.entropy()
    assert calls == ["inside_outside"]


@pytest.mark.parametrize("backend", KERNELS)
def test_no_graph_over_the_chart_is_kept(backend):
    """What autograd saves grows with N²: the scores, the lengths and the marginals."""
    B, N = 2, 12
    scores = torch.randn(B, N, N, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t.numel()), t)[1], lambda t: t):
        tritree.log_partition(scores, backend=backend)
    assert sum(saved) <= 2 * B * N * N + B


@pytest.mark.filterwarnings("ignore:.torch.jit.script")  # torch's own, inside inductor
@pytest.mark.parametrize(
    ("backend", "compiler"), [("numba", "aot_eager"), ("numba", "inductor"), ("triton", "aot_eager")]
)
def test_compile(backend, compiler):
    def parser(s, lengths, gold):
        s = torch.tanh(s) * 2
        dist = TreeCRF(s, lengths, backend=backend, validate_args=False)
        _, heads = tritree.viterbi(s, lengths, backend=backend)
        best, trees = dist.topk(2)
        loss = (
            -dist.log_prob(gold).sum() + dist.entropy().sum() + tritree.log_partition(s, lengths, backend=backend).sum()
        )
        return loss + best.sum(), heads, dist.mbr, trees, dist.max_marginals.detach()

    lengths = torch.tensor([4, 3])
    gold = torch.tensor([[-1, 0, 1, 2, 3], [-1, -1, 1, 1, -1]])
    scores = torch.randn(2, 5, 5)
    outcomes = []
    for function in (parser, torch.compile(parser, fullgraph=True, backend=compiler)):
        s = scores.clone().requires_grad_()
        loss, *rest = function(s, lengths, gold)
        loss.backward()
        outcomes.append((loss, *rest, s.grad))
    for eager, compiled in zip(*outcomes, strict=True):
        torch.testing.assert_close(eager, compiled)


@pytest.mark.cpu_only  # on a GPU, reading them would take time
def test_wrong_lengths_are_found_in_compiled_code():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def f(s, lengths):
        return tritree.log_partition(s, lengths)

    assert f(torch.zeros(2, 4, 4), torch.tensor([3, 1])).shape == (2,)
    with pytest.raises(ValueError, match=r"lengths\[1\] is 4"):
        f(torch.zeros(2, 4, 4), torch.tensor([3, 4]))


@pytest.mark.parametrize(
    ("row", "backend"), [(row, b) for row, b in ROWS_AND_KERNELS if OPERATORS[row.name].vmap], ids=str
)
def test_vmap(row, backend):
    scores, lengths = torch.randn(3, 2, 4, 4), torch.tensor([3, 2])
    arguments = row.arguments(scores[0], False)

    def f(s):
        if row.function is not None:
            return row.call(s, lengths, backend=backend)
        return flat(row.operator(s, lengths, *arguments, backend))

    for dim in (0, 1):
        mapped = torch.vmap(f, in_dims=dim)(scores.movedim(0, dim))
        for k in range(3):
            for one, many in zip(f(scores[k]), mapped, strict=True):
                assert torch.equal(one, many[k])


@pytest.mark.parametrize("backend", KERNELS)
def test_vmap_of_a_distribution(backend):
    """No values are read, with the options' defaults: results and gradients are those of one sentence at a time."""
    scores, other = torch.randn(2, 3, 5, 5)
    other[0, 1, 2] = -torch.inf
    lengths = torch.tensor([4, 2, 0])
    whole = tritree.sample(scores, lengths)[0]
    partial = torch.where(whole == 1, -1, whole)

    def f(s, t, n, whole, partial):
        p, q, one = (TreeCRF(x, n, backend=backend, single_root=r) for x, r in [(s, False), (t, False), (s, True)])
        kl = torch.distributions.kl_divergence
        losses = [p.log_prob(whole), p.log_prob(partial), p.entropy(), q.cross_entropy(p), kl(q, p), kl(p, q)]
        return torch.stack([*losses, kl(one, p)]), p.mode, p.mbr, p.topk(2)[1], p.max_marginals.detach()

    arguments = other, lengths, whole, partial
    mapped = torch.vmap(f)(leaf := scores.clone().requires_grad_(), *arguments)
    single = zip(*map(f, copy := scores.clone().requires_grad_(), *arguments), strict=True)
    for many, ones in zip(mapped, map(torch.stack, single), strict=True):
        assert torch.equal(many, ones)
        if many.requires_grad:
            for losses in (many, ones):
                losses[losses.isfinite()].sum().backward()
    torch.testing.assert_close(leaf.grad, copy.grad)


@pytest.mark.cpu_only
def test_what_vmap_can_not_do():
    scores = torch.randn(2, 4, 4)
    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(tritree.sample)(scores)
    for randomness in ("same", "different"):
        with pytest.raises(NotImplementedError, match="batch dimension"):
            torch.vmap(tritree.sample, randomness=randomness)(scores)
    with pytest.raises(RuntimeError, match="data-dependent"):
        torch.vmap(lambda s: TreeCRF(s, validate_args=True).mode)(scores)
    with pytest.raises(RuntimeError):
        torch.vmap(lambda s: tritree.marginals(s, backend="reference"))(scores)
    with pytest.raises(ValueError, match=r"lengths\[1\] is 4"):
        torch.vmap(lambda s, n: TreeCRF(s, n).log_prob(torch.tensor([-1, 0, 1, 1])))(scores, torch.tensor([3, 4]))


def test_autocast(device):
    scores = torch.randn(2, 5, 5, device=device, requires_grad=True)
    with torch.autocast(device.type, torch.bfloat16):
        half = torch.einsum("bij,bjk->bik", scores, scores)
        assert half.dtype == torch.bfloat16
        log_z = tritree.log_partition(half)
    assert log_z.dtype == torch.float32
    log_z.sum().backward()
    assert scores.grad.dtype == torch.float32 and scores.grad.isfinite().all()


def test_gradient_mode_may_change_between_uses():
    """What was computed without a gradient is computed again when one is needed."""
    scores = torch.randn(2, 5, 5, requires_grad=True)
    for mode in (torch.no_grad, torch.inference_mode):
        dist = TreeCRF(scores)
        with mode():
            before = dist.log_partition
        dist.log_partition.sum().backward()
        assert torch.equal(before, dist.log_partition)
        assert torch.equal(scores.grad, dist.marginals)
        scores.grad = None


def test_backward_of_the_mean_of_log_probs_in_half_precision():
    for dtype in (torch.float16, torch.bfloat16):
        scores = torch.randn(4, 7, 7).to(dtype).requires_grad_()
        dist = TreeCRF(scores)
        (-dist.log_prob(dist.mode).mean()).backward()
        assert scores.grad.dtype == dtype and scores.grad.isfinite().all()


@pytest.mark.cpu_only
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_direct_calls_and_operator_calls_agree(row):
    """With no tracer, transform or mode active kernels are called without the dispatcher: same bits, same gradients."""
    scores, lengths = torch.randn(5, 7, 7).requires_grad_(), torch.tensor([6, 3, 0, 6, 1])
    arguments = scores, lengths, *row.arguments(scores, True)
    assert operators.bypasses_dispatcher(scores)
    results = []
    for result in (operators.call(row.name, "numba", *arguments), row.operator(*arguments, "numba")):
        outputs = flat(result)
        results.append([x.detach() for x in outputs])
        if row.derivatives:
            outputs = [x for x in outputs if x.is_floating_point()]
            weights = [torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view_as(x) for x in outputs]
            results[-1] += torch.autograd.grad(outputs, scores, weights)
    for direct, operator in zip(*results, strict=True):
        assert torch.equal(direct, operator)


@pytest.mark.parametrize("row", [row for row in FUNCTIONS if not row.random], ids=str)
def test_a_tracer_sees_the_operator(row):
    """Otherwise results of the traced call would be constants in the graph."""
    traced = make_fx(lambda scores: row.call(scores, None))(torch.randn(2, 5, 5))
    assert any(str(node.target).startswith("tritree.") for node in traced.graph.nodes)
    scores = torch.randn(2, 5, 5)
    for actual, expected in zip(traced(scores), row.call(scores, None), strict=True):
        torch.testing.assert_close(actual, expected)
