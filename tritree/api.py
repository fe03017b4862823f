"""The functions: scores of any batch shape in, results of that batch shape out."""

import math
from collections.abc import Callable
from numbers import Real
from typing import TypeVar

import torch
from torch import Tensor

from tritree import operators
from tritree.backends import resolve_backend
from tritree.conventions import check_count, check_scores, check_single_root, describe, flatten, result_dtype

_SHARED_ARGS = """

    Args:
        scores: ``[*batch, N, N]``, ``scores[..., h, m]`` is the score of the arc from head h to modifier m; index 0 is
            ROOT. float16, bfloat16, float32 or float64. −inf forbids an arc. Column 0, the diagonal and the padding
            are ignored, whatever they hold.
        lengths: ``[*batch]``, integers: the number of words, ROOT not counted. Default: N − 1.
        single_root: exactly one word hangs from ROOT.
        backend: None picks by device: ``"triton"`` on CUDA, ``"numba"`` on the CPU. ``"reference"`` is plain torch.
"""


_F = TypeVar("_F", bound=Callable)


def _shared_args(function: _F) -> _F:
    """Puts the arguments that all functions share into the docstring, before those of the function alone."""
    if function.__doc__:  # python -OO has none
        head, _, tail = function.__doc__.partition("\n\n    ARGS\n")
        function.__doc__ = head + _SHARED_ARGS + tail
    return function


def _flatten(
    scores: Tensor, lengths: Tensor | None, single_root: bool, backend: str | None
) -> tuple[str, Tensor, Tensor, bool]:
    """Checked arguments: the backend's name, and a flat batch, scores [B, N, N], lengths [B] and single_root."""
    lengths = check_scores(scores, lengths)
    return resolve_backend(backend, scores), *flatten(scores, lengths), check_single_root(single_root)


@_shared_args
def log_partition(
    scores: Tensor, lengths: Tensor | None = None, *, single_root: bool = False, backend: str | None = None
) -> Tensor:
    """Log of the summed weights of all trees, a tree's weight being exp of the sum of its arcs' scores.

    ARGS

    Returns:
        ``[*batch]``; −inf where there is no tree, 0 for length 0. Differentiable twice: its gradient is the marginals.
    """
    backend, flat, flat_lengths, single_root = _flatten(scores, lengths, single_root, backend)
    log_z = operators.log_partition(backend, flat, flat_lengths, single_root)
    return log_z.to(result_dtype(scores.dtype)).reshape(scores.shape[:-2])


@_shared_args
def marginals(
    scores: Tensor, lengths: Tensor | None = None, *, single_root: bool = False, backend: str | None = None
) -> Tensor:
    """The probability of each arc, under the distribution in which a tree's probability is its share of the weight.

    ARGS

    Returns:
        ``[*batch, N, N]``; the column of each word sums to one. 0 in dead cells and where there is no tree.
        Differentiable.
    """
    backend, flat, flat_lengths, single_root = _flatten(scores, lengths, single_root, backend)
    _, mu = operators.call("inside_outside", backend, flat, flat_lengths, single_root)
    return mu.reshape(scores.shape)


@_shared_args
def viterbi(
    scores: Tensor, lengths: Tensor | None = None, *, single_root: bool = False, backend: str | None = None
) -> tuple[Tensor, Tensor]:
    """The best tree and its score.

    ARGS

    Returns:
        ``(best [*batch], heads [*batch, N])``. Heads are int64, −1 at position 0, in the padding and where there is
        no tree (best is −inf there). Among equally good trees the smallest split index wins, on every backend.
        ``best`` is differentiable: its gradient is 1 at the arcs of the tree.
    """
    backend, flat, flat_lengths, single_root = _flatten(scores, lengths, single_root, backend)
    best, heads = operators.call("viterbi", backend, flat, flat_lengths, single_root)
    return best.reshape(scores.shape[:-2]), heads.reshape(scores.shape[:-1])


@_shared_args
def topk(
    scores: Tensor, lengths: Tensor | None = None, k: int = 1, *, single_root: bool = False, backend: str | None = None
) -> tuple[Tensor, Tensor]:
    """The k best trees and their scores, the best first.

    ARGS
        k: how many trees to find for each sentence.

    Returns:
        ``(best [*batch, k], heads [*batch, k, N])``. Heads are int64, −1 at position 0 and in the padding. Where there
        are fewer than k trees, the rest is −inf and −1. The first tree is that of :func:`viterbi`; equally good trees
        come in one order on every backend (tritree/conventions.py). ``best`` is differentiable: the gradient of each
        score is 1 at the arcs of its tree. On a GPU this is a series of torch operations, two dozen per diagonal of the
        chart: slower than the other functions, which are single kernels, but like them without a synchronisation.
    """
    k = check_count("k", k, 1)
    backend, flat, flat_lengths, single_root = _flatten(scores, lengths, single_root, backend)
    best, heads = operators.call("topk", backend, flat, flat_lengths, k, single_root)
    return best.reshape(*scores.shape[:-2], k), heads.reshape(*scores.shape[:-2], k, scores.shape[-1])


@_shared_args
def max_marginals(
    scores: Tensor, lengths: Tensor | None = None, *, single_root: bool = False, backend: str | None = None
) -> Tensor:
    """For each arc the score of the best tree that has it.

    ARGS

    Returns:
        ``[*batch, N, N]``; −inf in dead cells and where no tree has the arc. The largest entry in the column of a word
        is the score of the best tree, up to rounding. Has no gradient, and says so when asked for one: use
        ``viterbi(constrain(scores, heads))``.
    """
    backend, flat, flat_lengths, single_root = _flatten(scores, lengths, single_root, backend)
    return operators.call("max_marginals", backend, flat, flat_lengths, single_root).reshape(scores.shape)


@_shared_args
def sample(
    scores: Tensor,
    lengths: Tensor | None = None,
    num_samples: int = 1,
    *,
    single_root: bool = False,
    generator: torch.Generator | None = None,
    backend: str | None = None,
) -> Tensor:
    """Trees drawn from the distribution, exactly and independently.

    ARGS
        num_samples: how many trees to draw for each sentence.
        generator: makes the draw reproducible; torch's default generator otherwise.

    Returns:
        Heads, ``[num_samples, *batch, N]`` int64, −1 at position 0, in the padding and where there is no tree.
    """
    num_samples = check_count("num_samples", num_samples, 0)
    backend, flat, flat_lengths, single_root = _flatten(scores, lengths, single_root, backend)
    # A generator can't be an argument of an operator. It yields one seed, from which the kernels count on.
    device = scores.device if generator is None else generator.device
    seed = torch.randint(2**63 - 1, (1,), generator=generator, device=device).to(scores.device)
    heads = operators.call("sample", backend, flat, flat_lengths, seed, num_samples, single_root)
    return heads.reshape(num_samples, *scores.shape[:-1])


def relaxed_tree(
    scores: Tensor, lengths: Tensor | None = None, *, temperature: float = 1.0, backend: str | None = None
) -> Tensor:
    """A soft adjacency matrix: the best tree, relaxed so that it has a gradient.

    With Gumbel noise added to the scores it is a relaxed sample (differentiable perturb-and-parse). Its definition is
    in tritree/relaxed.py.

    Args:
        scores: as in :func:`log_partition`. Several words may hang from ROOT.
        lengths: ``[*batch]``, integers: the number of words, ROOT not counted. Default: N − 1.
        temperature: positive. The smaller, the closer to the best tree, and the steeper.
        backend: as in :func:`log_partition`. The memory of ``"reference"`` grows with N³ when a gradient is asked for.

    Returns:
        ``[*batch, N, N]``, each entry between 0 and 1; the column of each word sums to one. 0 in dead cells and where
        there is no tree. Differentiable once.
    """
    flat, flat_lengths = flatten(scores, check_scores(scores, lengths))
    if isinstance(temperature, bool) or not isinstance(temperature, Real) or not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be a positive number, got {describe(temperature)}")
    backend = resolve_backend(backend, scores)
    return operators.call("relaxed", backend, flat, flat_lengths, float(temperature)).reshape(scores.shape)
