"""The operators: a table with one record for each, from which all that torch asks for is registered.

An operator takes scores [B, N, N] and lengths [B]; api.py brings other shapes here and back. Every backend's module
(backends.py) has a function of the operator's name that takes the arguments of its schema but for the backend:

    inside(scores, lengths, single_root)                     log Z [B], float64
    inside_outside(scores, lengths, single_root)             log Z [B], float64, and the marginals μ [B, N, N]
    tangent(scores, lengths, direction, single_root)         dμ(s + t·direction)/dt at t = 0   [B, N, N]
    viterbi(scores, lengths, single_root)                    best [B], heads [B, N]
    topk(scores, lengths, k, single_root)                    best [B, k], heads [B, k, N]
    max_marginals(scores, lengths, single_root)              [B, N, N]
    sample(scores, lengths, seed, num_samples, single_root)  heads [S, B, N]
    relaxed(scores, lengths, temperature)                    A [B, N, N]
    relaxed_gradient(scores, lengths, grad, temperature)     Σ grad · dA/ds   [B, N, N]

Derivatives. ∂log Z/∂s = μ, so the first derivative is a product with an output that is there already. The derivative
of μ is the Hessian of log Z; it is symmetric, so the vector–Jacobian product that autograd asks for is the directional
derivative `tangent`. No graph over the chart is ever kept. The third derivative is not offered. The derivative of the
score of a tree that was found is its arcs. That of max_marginals would be N² trees, and is refused. The relaxed tree
keeps nothing for its derivative but the scores, and has no second one.

log Z stays float64 until it is returned, so that differences of log partitions (entropy, KL) lose nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tritree import torch_private
from tritree.backends import BACKENDS, kernels
from tritree.conventions import check_lengths, result_dtype

Outputs = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True)
class Operator:
    name: str
    arguments: str
    """Those between the scores and lengths, which come first, and the backend, which comes last. Tensors first."""
    outputs: tuple[tuple[str, torch.dtype | None], ...]
    """Shapes, of B sentences, N nodes and arguments by name, and dtypes; None is conventions.result_dtype."""
    save: Callable[[Any, tuple, Outputs], None] = lambda ctx, inputs, output: None
    """(ctx, inputs, output): keeps in ctx what the derivative needs."""
    derivative: Callable[..., tuple[Tensor | None, ...]] | None = None
    """(ctx, gradients of the outputs) → gradients of the first inputs. None: the outputs are integers."""
    vmap: bool = True
    """Whether a new dimension may join the batch."""
    reference_has_graph: bool = False
    """Autograd follows the reference backend's function itself, any number of times: it is called directly."""

    @property
    def schema(self) -> str:
        returns = ", ".join(["Tensor"] * len(self.outputs))
        return f"{self.name}(Tensor scores, Tensor lengths, {self.arguments}, str backend) -> ({returns})"


# What is saved, and derivatives. They call operators through torch.ops, so that a tracer sees those, too.


def _save_inputs(ctx: Any, inputs: tuple, output: Outputs) -> None:
    scores, lengths, *rest = inputs
    ctx.save_for_backward(scores, lengths)
    ctx.options = [x for x in rest if not isinstance(x, Tensor)]


def _save_marginals(ctx: Any, inputs: tuple, output: Outputs) -> None:
    ctx.options = inputs[2:]
    ctx.save_for_backward(*inputs[:2], output[1])
    # An output without a gradient then has None, and not zeros, for which `tangent` would run.
    ctx.set_materialize_grads(False)


def _save_heads(ctx: Any, inputs: tuple, output: Outputs) -> None:
    heads, ctx.dtype = output[1], inputs[0].dtype
    ctx.mark_non_differentiable(heads)
    ctx.save_for_backward(heads)


def _per_sentence(grad: Tensor, marginals: Tensor) -> Tensor:
    return grad.to(marginals.dtype)[:, None, None] * marginals


def _inside_derivative(ctx: Any, grad: Tensor) -> tuple[Tensor]:
    scores, lengths = ctx.saved_tensors
    _, marginals = torch.ops.tritree.inside_outside(scores, lengths, *ctx.options)
    return (_per_sentence(grad, marginals).to(scores.dtype),)


def _inside_outside_derivative(ctx: Any, grad_log_z: Tensor | None, grad_marginals: Tensor | None) -> tuple:
    scores, lengths, marginals = ctx.saved_tensors
    grad = None
    if grad_log_z is not None:
        grad = _per_sentence(grad_log_z, marginals)
    if grad_marginals is not None:
        hvp = torch.ops.tritree.tangent(scores, lengths, grad_marginals.to(marginals.dtype), *ctx.options)
        grad = hvp if grad is None else grad + hvp
    return (None if grad is None else grad.to(scores.dtype),)


def _tangent_derivative(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
    if ctx.needs_input_grad[0]:
        raise NotImplementedError(
            "tritree differentiates log_partition twice and marginals once: the next derivative is not implemented"
        )
    scores, lengths = ctx.saved_tensors
    return None, None, torch.ops.tritree.tangent(scores, lengths, grad, *ctx.options)


def _arcs_of_trees(ctx: Any, grad_best: Tensor, _: None) -> tuple[Tensor]:
    """The arcs of trees [B, k, N] or [B, N], each tree weighted by the gradient of its score, summed into [B, N, N].

    One tree after the other: no two of them are then added to a cell at once, in an order that may change.
    """
    (heads,) = ctx.saved_tensors
    heads, grads = (heads, grad_best) if heads.dim() == 3 else (heads.unsqueeze(1), grad_best.unsqueeze(1))
    B, k, N = heads.shape
    total, grads = grads.new_zeros(B, N, N), torch.where(heads >= 0, grads.unsqueeze(-1), 0)
    for tree in range(k):
        arcs = heads[:, tree : tree + 1].clamp(min=0)
        total = total.scatter_add(1, arcs, grads[:, tree : tree + 1])
    return (total.to(ctx.dtype),)


def _refuse_max_marginals(ctx: Any, _: Tensor) -> tuple[()]:
    raise NotImplementedError(
        "max_marginals has no gradient: tritree.viterbi(tritree.constrain(scores, heads)) finds the best tree with "
        "given arcs, and its score has one"
    )


def _relaxed_derivative(ctx: Any, grad: Tensor) -> tuple[Tensor]:
    scores, lengths = ctx.saved_tensors
    grad = grad.to(result_dtype(scores.dtype))
    return (torch.ops.tritree.relaxed_gradient(scores, lengths, grad, *ctx.options).to(scores.dtype),)


def _refuse_second_relaxed(ctx: Any, _: Tensor) -> tuple[()]:
    raise NotImplementedError("relaxed_tree is differentiable once: the next derivative is not implemented")


_LOG_Z, _BEST, _HEADS, _ARCS = ("B", torch.float64), ("B", None), ("B N", torch.int64), ("B N N", None)
_K_BEST, _K_HEADS, _SAMPLES = ("B k", None), ("B k N", torch.int64), ("num_samples B N", torch.int64)
_ROOT = "bool single_root"

OPERATORS = {
    operator.name: operator
    for operator in (
        Operator("inside", _ROOT, (_LOG_Z,), _save_inputs, _inside_derivative),
        Operator(
            "inside_outside",
            _ROOT,
            (_LOG_Z, _ARCS),
            _save_marginals,
            _inside_outside_derivative,
            reference_has_graph=True,
        ),
        Operator("tangent", f"Tensor direction, {_ROOT}", (_ARCS,), _save_inputs, _tangent_derivative),
        Operator("viterbi", _ROOT, (_BEST, _HEADS), _save_heads, _arcs_of_trees),
        Operator("topk", f"SymInt k, {_ROOT}", (_K_BEST, _K_HEADS), _save_heads, _arcs_of_trees),
        Operator("max_marginals", _ROOT, (_ARCS,), derivative=_refuse_max_marginals),
        Operator("sample", f"Tensor seed, SymInt num_samples, {_ROOT}", (_SAMPLES,), vmap=False),
        Operator("relaxed", "float temperature", (_ARCS,), _save_inputs, _relaxed_derivative, reference_has_graph=True),
        Operator("relaxed_gradient", "Tensor grad, float temperature", (_ARCS,), derivative=_refuse_second_relaxed),
    )
}


# Registration.


def _run(name: str, backend: str, scores: Tensor, lengths: Tensor, *args: Any) -> Outputs:
    """Calls the function of the backend."""
    if not BACKENDS[backend].reads_values and lengths.device.type == "cpu":  # on a GPU it would synchronise
        check_lengths(lengths, scores.shape[-1])
    return getattr(kernels(backend), name)(scores, lengths, *args)


def _kernel(operator: Operator) -> Callable[..., Outputs]:
    def kernel(scores: Tensor, *inputs: Any) -> Outputs:
        *args, backend = inputs
        return _run(operator.name, backend, scores.detach(), *args)

    return kernel


def _fake(operator: Operator) -> Callable[..., Outputs]:
    """Empty outputs, for torch.compile and export."""
    names = [argument.split()[1] for argument in operator.arguments.split(", ")]

    def fake(scores: Tensor, lengths: Tensor, *args: Any) -> Outputs:
        sizes = {"B": scores.shape[0], "N": scores.shape[1]} | dict(zip(names, args, strict=False))
        default = result_dtype(scores.dtype)
        outputs = [
            scores.new_empty([sizes[name] for name in shape.split()], dtype=dtype or default)
            for shape, dtype in operator.outputs
        ]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return fake


def _backward(operator: Operator) -> Callable[..., tuple[Tensor | None, ...]]:
    """The derivative, with None for all inputs that have no gradient."""
    derivative, nones = operator.derivative, (None,) * (operator.arguments.count(",") + 4)
    assert derivative is not None

    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        found = derivative(ctx, *grads)
        return found + nones[len(found) :]

    return backward


def _batching_rule(operator: Operator) -> Callable[..., tuple]:
    """For torch.vmap: the new dimension joins the batch."""
    name, num_tensors = operator.name, operator.arguments.count("Tensor ") + 2

    def rule(info: Any, in_dims: tuple, *args: Any) -> tuple:
        if not operator.vmap:
            raise NotImplementedError(f"tritree.{name} under torch.vmap: give scores a batch dimension instead")
        S = info.batch_size

        def flat(tensor: Tensor, dim: int | None) -> Tensor:
            tensor = tensor.expand(S, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            return tensor.flatten(0, 1)

        tensors = [flat(x, d) for x, d in zip(args[:num_tensors], in_dims[:num_tensors], strict=True)]
        shape = S, tensors[0].shape[0] // S
        out = getattr(torch.ops.tritree, name)(*tensors, *args[num_tensors:])
        if isinstance(out, Tensor):
            return out.unflatten(0, shape), 0
        return tuple(x.unflatten(0, shape) for x in out), (0,) * len(out)

    return rule


def _autograd_function(operator: Operator) -> type[torch.autograd.Function]:
    """The kernel with its derivative, for calls that bypass the dispatcher."""
    name, save = operator.name, operator.save

    class Direct(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Outputs:
            output = getattr(kernels(inputs[-1]), name)(inputs[0].detach(), *inputs[1:-1])
            save(ctx, inputs, output)
            return output

        backward = staticmethod(_backward(operator))

    return Direct


_library = torch.library.Library("tritree", "DEF")
_differentiable = {}
for _name, _operator in OPERATORS.items():
    _library.define(_operator.schema)
    _library.impl(_name, _kernel(_operator), "CompositeExplicitAutograd")
    _name = f"tritree::{_name}"
    torch.library.register_fake(_name, _fake(_operator), lib=_library)
    torch.library.register_vmap(_name, _batching_rule(_operator), lib=_library)
    if _operator.derivative is not None:
        torch.library.register_autograd(_name, _backward(_operator), setup_context=_operator.save, lib=_library)
        _differentiable[_operator.name] = _autograd_function(_operator)


# Calls. The way through torch's dispatcher to a kernel in Python costs 30 µs, and 100 with a gradient: more than the
# kernels take for a small batch.


def can_read_values(tensor: Tensor) -> bool:
    """Whether Python may read the tensor's values.

    Not on a GPU, where that would synchronise; not while tracing, where there are none; not under torch.vmap, where one
    tensor stands for many.
    """
    return (
        tensor.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not torch_private.transforms_are_active()
        and not torch.jit.is_tracing()
    )


def bypasses_dispatcher(tensor: Tensor, backend: str = "numba") -> bool:
    """Whether an operator on it would run a CPU kernel and do nothing else: no tracer, transform or mode is active."""
    return (
        BACKENDS[backend].reads_values
        and can_read_values(tensor)
        and type(tensor) in (Tensor, torch.nn.Parameter)
        and torch_private.num_dispatch_modes() == 0
    )


def needs_gradient(scores: Tensor) -> bool:
    return scores.requires_grad and torch.is_grad_enabled()


def call(name: str, backend: str, scores: Tensor, *args: Any) -> Any:
    """Calls an operator, or its kernel directly where that makes no difference. ``args`` are those of its schema."""
    if bypasses_dispatcher(scores, backend):
        if needs_gradient(scores) and name in _differentiable:
            return _differentiable[name].apply(scores, *args, backend)
        return getattr(kernels(backend), name)(scores.detach(), *args)
    if backend == "reference" and OPERATORS[name].reference_has_graph:
        return _run(name, backend, scores, *args)
    return getattr(torch.ops.tritree, name)(scores, *args, backend)


def log_partition(backend: str, scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """log Z [B] as float64. With a gradient, the marginals are computed along with it: they are its derivative."""
    if needs_gradient(scores):
        return call("inside_outside", backend, scores, lengths, single_root)[0]
    return call("inside", backend, scores, lengths, single_root)
