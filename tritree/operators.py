"""The operators: one dispatch to the backends, with shapes for tracing, derivatives and batching rules.

All functions take scores [B, N, N] and lengths [B]; api.py brings other shapes here and back. This is the only file
that looks at a device. A backend (tritree.cpu, tritree.gpu, tritree.reference) offers

    inside(scores, lengths, single_root)                     log Z [B], float64
    inside_outside(scores, lengths, single_root)             log Z [B], float64, and the marginals μ [B, N, N]
    tangent(scores, lengths, direction, single_root)         dμ(s + t·direction)/dt at t = 0   [B, N, N]
    viterbi(scores, lengths, single_root)                    best [B], heads [B, N]
    topk(scores, lengths, k, single_root)                    best [B, k], heads [B, k, N]
    max_marginals(scores, lengths, single_root)              [B, N, N]
    sample(scores, lengths, seed, num_samples, single_root)  heads [S, B, N]

Derivatives. ∂log Z/∂s = μ, so the first derivative is a product with an output that is there already. The derivative
of μ is the Hessian of log Z; it is symmetric, so the vector–Jacobian product that autograd asks for is the directional
derivative `tangent`. No graph over the chart is ever kept. The third derivative is not offered. The derivative of the
score of a tree that was found is its arcs. That of max_marginals would be N² trees, and is refused.

log Z is float64 on its way, so that differences of log partitions (entropy, KL) lose nothing; callers round it.
"""

import functools
import importlib
import os

import torch
from torch import Tensor

from tritree import reference
from tritree.conventions import bad_length, result_dtype

_MODULES = {"numba": "tritree.cpu.backend", "triton": "tritree.gpu.backend", "reference": "tritree.reference"}


@functools.cache
def _module(backend: str):
    """Imported at the first use: neither Triton nor Numba is paid for, or needed, before."""
    return importlib.import_module(_MODULES[backend])


def resolve_backend(backend: str | None, scores: Tensor) -> str:
    """The backend to use for these scores; ValueError where the one asked for can't."""
    device = scores.device.type
    if backend is None:
        if device == "cpu":
            return "numba"
        if device == "cuda":
            return "triton"
        raise ValueError(f"there are no kernels for {device} tensors: move them to cpu, or use backend='reference'")
    if backend not in _MODULES:
        raise ValueError(f"backend must be None or one of {', '.join(map(repr, _MODULES))}, got {backend!r}")
    if backend == "numba" and device != "cpu":
        raise ValueError(f"backend='numba' needs CPU tensors, got {device}")
    if backend == "triton":
        if importlib.util.find_spec("triton") is None:
            raise ValueError("backend='triton' needs Triton, which is not installed: pip install triton (Linux only)")
        if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
            raise ValueError(
                "backend='triton' needs CUDA tensors; TRITON_INTERPRET=1, set before Python starts, "
                "runs the kernels on CPU tensors, slowly"
            )
    return backend


def reads_are_free(tensor: Tensor) -> bool:
    """Whether Python may look at the tensor's values.

    Not on a GPU, where that would synchronise; nor where there are none, while tracing, or many, under torch.vmap.
    """
    return (
        tensor.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and not torch.jit.is_tracing()
    )


def _check_lengths(lengths: Tensor, N: int) -> None:
    """As check_lengths, where it does not synchronise."""
    if lengths.device.type == "cpu":
        check_lengths(lengths, N)


def check_lengths(lengths: Tensor, N: int) -> None:
    """ValueError where a length is out of range. Reads them, wherever they are."""
    if ((lengths < 0) | (lengths >= N)).any():
        raise bad_length(lengths.reshape(-1).cpu().numpy(), N)


_lib = torch.library.Library("tritree", "DEF")
_TREES = "Tensor scores, Tensor lengths"
_OPTIONS = "bool single_root, str backend"
_lib.define(f"inside({_TREES}, {_OPTIONS}) -> Tensor")
_lib.define(f"inside_outside({_TREES}, {_OPTIONS}) -> (Tensor, Tensor)")
_lib.define(f"tangent({_TREES}, Tensor direction, {_OPTIONS}) -> Tensor")
_lib.define(f"viterbi({_TREES}, {_OPTIONS}) -> (Tensor, Tensor)")
_lib.define(f"topk({_TREES}, SymInt k, {_OPTIONS}) -> (Tensor, Tensor)")
_lib.define(f"max_marginals({_TREES}, {_OPTIONS}) -> Tensor")
_lib.define(f"sample({_TREES}, Tensor seed, SymInt num_samples, {_OPTIONS}) -> Tensor")


def _register_kernel(name: str) -> None:
    def kernel(scores, lengths, *args):
        *args, single_root, backend = args
        if backend != "numba":  # which checks them itself, as it goes through them
            _check_lengths(lengths, scores.shape[-1])
        return getattr(_module(backend), name)(scores.detach(), lengths, *args, single_root)

    _lib.impl(name, kernel, "CompositeExplicitAutograd")


for _name in ("inside", "inside_outside", "tangent", "viterbi", "topk", "max_marginals", "sample"):
    _register_kernel(_name)


# Shapes, for torch.compile and export.


def _empty(scores: Tensor, *shape, dtype=None) -> Tensor:
    return scores.new_empty(shape, dtype=dtype or result_dtype(scores.dtype))


@torch.library.register_fake("tritree::inside", lib=_lib)
def _(scores, lengths, single_root, backend):
    return _empty(scores, scores.shape[0], dtype=torch.float64)


@torch.library.register_fake("tritree::inside_outside", lib=_lib)
def _(scores, lengths, single_root, backend):
    return _empty(scores, scores.shape[0], dtype=torch.float64), _empty(scores, *scores.shape)


@torch.library.register_fake("tritree::tangent", lib=_lib)
def _(scores, lengths, direction, single_root, backend):
    return _empty(scores, *scores.shape)


@torch.library.register_fake("tritree::viterbi", lib=_lib)
def _(scores, lengths, single_root, backend):
    return _empty(scores, scores.shape[0]), _empty(scores, *scores.shape[:2], dtype=torch.int64)


@torch.library.register_fake("tritree::topk", lib=_lib)
def _(scores, lengths, k, single_root, backend):
    B, N, _ = scores.shape
    return _empty(scores, B, k), _empty(scores, B, k, N, dtype=torch.int64)


@torch.library.register_fake("tritree::max_marginals", lib=_lib)
def _(scores, lengths, single_root, backend):
    return _empty(scores, *scores.shape)


@torch.library.register_fake("tritree::sample", lib=_lib)
def _(scores, lengths, seed, num_samples, single_root, backend):
    return _empty(scores, num_samples, *scores.shape[:2], dtype=torch.int64)


# Derivatives.


def _per_sentence(grad: Tensor, marginals: Tensor) -> Tensor:
    return grad.to(marginals.dtype)[:, None, None] * marginals


def _save_inputs(ctx, inputs, output):
    scores, lengths, *_, ctx.single_root, ctx.backend = inputs
    ctx.save_for_backward(scores, lengths)


def _inside_backward(ctx, grad):
    scores, lengths = ctx.saved_tensors
    _, marginals = torch.ops.tritree.inside_outside(scores, lengths, ctx.single_root, ctx.backend)
    return _per_sentence(grad, marginals).to(scores.dtype), None, None, None


def _save_marginals(ctx, inputs, output):
    scores, lengths, ctx.single_root, ctx.backend = inputs
    ctx.save_for_backward(scores, lengths, output[1])
    # An output that nobody differentiates has no gradient, rather than zeros that would cost a run of the kernel.
    ctx.set_materialize_grads(False)


def _inside_outside_backward(ctx, grad_log_z, grad_marginals):
    scores, lengths, marginals = ctx.saved_tensors
    grad = None
    if grad_log_z is not None:
        grad = _per_sentence(grad_log_z, marginals)
    if grad_marginals is not None:
        options = ctx.single_root, ctx.backend
        hvp = torch.ops.tritree.tangent(scores, lengths, grad_marginals.to(marginals.dtype), *options)
        grad = hvp if grad is None else grad + hvp
    return None if grad is None else grad.to(scores.dtype), None, None, None


def _tangent_backward(ctx, grad):
    if ctx.needs_input_grad[0]:
        raise NotImplementedError(
            "tritree differentiates log_partition twice and marginals once: the next derivative is not implemented"
        )
    scores, lengths = ctx.saved_tensors
    grad_direction = torch.ops.tritree.tangent(scores, lengths, grad, ctx.single_root, ctx.backend)
    return None, None, grad_direction, None, None


def _save_trees(ctx, inputs, output):
    scores, *_ = inputs
    _, heads = output
    ctx.mark_non_differentiable(heads)
    ctx.save_for_backward(heads)
    ctx.dtype = scores.dtype


def _arcs_of_trees(grads: Tensor, heads: Tensor) -> Tensor:
    """The arcs of trees [B, k, N], each tree weighted by its gradient [B, k], summed into [B, N, N].

    One tree after the other: then no two of them meet in an atomic addition, whose order nobody knows.
    """
    B, k, N = heads.shape
    total, grads = grads.new_zeros(B, N, N), torch.where(heads >= 0, grads.unsqueeze(-1), 0)
    for tree in range(k):
        arcs = heads[:, tree : tree + 1].clamp(min=0)
        total = total.scatter_add(1, arcs, grads[:, tree : tree + 1])
    return total


def _viterbi_backward(ctx, grad_best, _):
    (heads,) = ctx.saved_tensors
    return _arcs_of_trees(grad_best.unsqueeze(1), heads.unsqueeze(1)).to(ctx.dtype), None, None, None


def _topk_backward(ctx, grad_best, _):
    (heads,) = ctx.saved_tensors
    return _arcs_of_trees(grad_best, heads).to(ctx.dtype), None, None, None, None


def _save_no_tensor(ctx, inputs, output):
    pass


def _max_marginals_backward(ctx, _):
    raise NotImplementedError(
        "max_marginals has no gradient: tritree.viterbi(tritree.constrain(scores, heads)) finds the best tree with "
        "given arcs, and its score has one"
    )


def _save_nothing(ctx, inputs, output):
    ctx.mark_non_differentiable(output)


def _sample_backward(ctx, _):
    return None, None, None, None, None, None


_autograd = functools.partial(torch.library.register_autograd, lib=_lib)
_autograd("tritree::inside", _inside_backward, setup_context=_save_inputs)
_autograd("tritree::inside_outside", _inside_outside_backward, setup_context=_save_marginals)
_autograd("tritree::tangent", _tangent_backward, setup_context=_save_inputs)
_autograd("tritree::viterbi", _viterbi_backward, setup_context=_save_trees)
_autograd("tritree::topk", _topk_backward, setup_context=_save_trees)
_autograd("tritree::max_marginals", _max_marginals_backward, setup_context=_save_no_tensor)
_autograd("tritree::sample", _sample_backward, setup_context=_save_nothing)


# torch.vmap: the new dimension joins the batch.


def _register_vmap(name: str, num_tensors: int) -> None:
    op = getattr(torch.ops.tritree, name)

    def rule(info, in_dims, *args):
        S = info.batch_size

        def flat(tensor, dim):
            tensor = tensor.expand(S, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            return tensor.flatten(0, 1)

        tensors = [flat(x, d) for x, d in zip(args[:num_tensors], in_dims[:num_tensors], strict=True)]
        shape = S, tensors[0].shape[0] // S
        out = op(*tensors, *args[num_tensors:])
        if isinstance(out, Tensor):
            return out.unflatten(0, shape), 0
        return tuple(x.unflatten(0, shape) for x in out), (0,) * len(out)

    torch.library.register_vmap(f"tritree::{name}", rule, lib=_lib)


for _name, _num_tensors in (
    ("inside", 2),
    ("inside_outside", 2),
    ("tangent", 3),
    ("viterbi", 2),
    ("topk", 2),
    ("max_marginals", 2),
):
    _register_vmap(_name, _num_tensors)


@functools.partial(torch.library.register_vmap, "tritree::sample", lib=_lib)
def _(info, in_dims, scores, lengths, seed, num_samples, single_root, backend):
    raise NotImplementedError("tritree.sample under torch.vmap: give scores a batch dimension instead")


# What api.py and crf.py call.
#
# The way through torch's dispatcher to a kernel in Python costs 30 µs, and 100 with a gradient: more than the kernels
# take for a small batch. Where nobody is there to see the operator, it is left out.


class _InsideOutside(torch.autograd.Function):
    """The operator with its derivative, for eager mode."""

    @staticmethod
    def forward(ctx, scores, lengths, single_root, backend):
        output = _module(backend).inside_outside(scores.detach(), lengths, single_root)
        _save_marginals(ctx, (scores, lengths, single_root, backend), output)
        return output

    backward = staticmethod(_inside_outside_backward)


def is_eager(tensor: Tensor, backend: str = "numba") -> bool:
    """Whether an operator on it would run a CPU kernel and nothing else: nobody traces, transforms or observes."""
    return (
        backend == "numba"
        and reads_are_free(tensor)
        and type(tensor) in (Tensor, torch.nn.Parameter)
        and torch._C._len_torch_dispatch_stack() == 0
    )


def _needs_gradient(scores: Tensor) -> bool:
    return scores.requires_grad and torch.is_grad_enabled()


def inside(scores: Tensor, lengths: Tensor, single_root: bool, backend: str) -> Tensor:
    """log Z [B] as float64. The inside pass alone where no gradient is asked for."""
    if _needs_gradient(scores):
        return inside_outside(scores, lengths, single_root, backend)[0]
    if is_eager(scores, backend):
        return _module(backend).inside(scores.detach(), lengths, single_root)
    return torch.ops.tritree.inside(scores, lengths, single_root, backend)


def inside_outside(scores: Tensor, lengths: Tensor, single_root: bool, backend: str) -> tuple[Tensor, Tensor]:
    """log Z [B] as float64 and the marginals [B, N, N]."""
    if backend == "reference":  # differentiates itself
        _check_lengths(lengths, scores.shape[-1])
        return reference.inside_outside(scores, lengths, single_root)
    if is_eager(scores, backend):
        if _needs_gradient(scores):
            return _InsideOutside.apply(scores, lengths, single_root, backend)
        return _module(backend).inside_outside(scores.detach(), lengths, single_root)
    return torch.ops.tritree.inside_outside(scores, lengths, single_root, backend)


def viterbi(scores: Tensor, lengths: Tensor, single_root: bool, backend: str) -> tuple[Tensor, Tensor]:
    """The best score [B], differentiable, and its heads [B, N]."""
    if is_eager(scores, backend) and not _needs_gradient(scores):
        return _module(backend).viterbi(scores.detach(), lengths, single_root)
    return torch.ops.tritree.viterbi(scores, lengths, single_root, backend)


def topk(scores: Tensor, lengths: Tensor, k: int, single_root: bool, backend: str) -> tuple[Tensor, Tensor]:
    """The k best scores [B, k], differentiable, and their heads [B, k, N]."""
    if is_eager(scores, backend) and not _needs_gradient(scores):
        return _module(backend).topk(scores.detach(), lengths, k, single_root)
    return torch.ops.tritree.topk(scores, lengths, k, single_root, backend)


def max_marginals(scores: Tensor, lengths: Tensor, single_root: bool, backend: str) -> Tensor:
    """For each arc the score of the best tree that has it, [B, N, N]."""
    if is_eager(scores, backend) and not _needs_gradient(scores):
        return _module(backend).max_marginals(scores.detach(), lengths, single_root)
    return torch.ops.tritree.max_marginals(scores, lengths, single_root, backend)


def sample(
    scores: Tensor,
    lengths: Tensor,
    num_samples: int,
    generator: torch.Generator | None,
    single_root: bool,
    backend: str,
) -> Tensor:
    """Heads [S, B, N]. The generator yields one seed; the kernels count on from there."""
    device = scores.device if generator is None else generator.device
    seed = torch.randint(2**63 - 1, (1,), generator=generator, device=device).to(scores.device)
    return torch.ops.tritree.sample(scores, lengths, seed, num_samples, single_root, backend)


def are_trees(heads: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """[*] bool for heads [*, N] that ``is_eager`` accepts. No operator: nothing differentiates or compiles it."""
    return _module("numba").are_trees(heads, lengths, single_root)
