"""The functions: scores of any batch shape in, results of that batch shape out."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from tritree import operators
from tritree.conventions import check_count, check_scores, check_single_root, flatten, result_dtype

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
    """Puts the arguments that all functions share into the docstring, before what is the function's own."""
    if function.__doc__:  # python -OO has none
        head, _, tail = function.__doc__.partition("\n\n    ARGS\n")
        function.__doc__ = head + _SHARED_ARGS + tail
    return function


def _flatten(scores: Tensor, lengths: Tensor | None, single_root: bool, backend: str | None):
    """Checked arguments as a flat batch: scores [B, N, N], lengths [B], single_root, and the backend's name."""
    lengths = check_scores(scores, lengths)
    return *flatten(scores, lengths), check_single_root(single_root), operators.resolve_backend(backend, scores)


@_shared_args
def log_partition(
    scores: Tensor,
    lengths: Tensor | None = None,
    *,
    single_root: bool = False,
    backend: str | None = None,
) -> Tensor:
    """Log of the summed weights of all trees, a tree's weight being exp of the sum of its arcs' scores.

    ARGS

    Returns:
        ``[*batch]``; −inf where there is no tree, 0 for length 0. Differentiable twice: its gradient is the marginals.
    """
    flat, flat_lengths, single_root, backend = _flatten(scores, lengths, single_root, backend)
    log_z = operators.inside(flat, flat_lengths, single_root, backend)
    return log_z.to(result_dtype(scores.dtype)).reshape(scores.shape[:-2])


@_shared_args
def marginals(
    scores: Tensor,
    lengths: Tensor | None = None,
    *,
    single_root: bool = False,
    backend: str | None = None,
) -> Tensor:
    """The probability of each arc, under the distribution in which a tree's probability is its share of the weight.

    ARGS

    Returns:
        ``[*batch, N, N]``; the column of each word sums to one. 0 in dead cells and where there is no tree.
        Differentiable.
    """
    flat, flat_lengths, single_root, backend = _flatten(scores, lengths, single_root, backend)
    _, mu = operators.inside_outside(flat, flat_lengths, single_root, backend)
    return mu.reshape(scores.shape)


@_shared_args
def viterbi(
    scores: Tensor,
    lengths: Tensor | None = None,
    *,
    single_root: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The best tree and its score.

    ARGS

    Returns:
        ``(best [*batch], heads [*batch, N])``. Heads are int64, −1 at position 0, in the padding and where there is
        no tree (best is −inf there). Among equally good trees the smallest split index wins, on every backend.
        ``best`` is differentiable: its gradient is 1 at the arcs of the tree.
    """
    flat, flat_lengths, single_root, backend = _flatten(scores, lengths, single_root, backend)
    best, heads = operators.viterbi(flat, flat_lengths, single_root, backend)
    return best.reshape(scores.shape[:-2]), heads.reshape(scores.shape[:-1])


@_shared_args
def topk(
    scores: Tensor,
    lengths: Tensor | None = None,
    k: int = 1,
    *,
    single_root: bool = False,
    backend: str | None = None,
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
    flat, flat_lengths, single_root, backend = _flatten(scores, lengths, single_root, backend)
    best, heads = operators.topk(flat, flat_lengths, k, single_root, backend)
    return best.reshape(*scores.shape[:-2], k), heads.reshape(*scores.shape[:-2], k, scores.shape[-1])


@_shared_args
def max_marginals(
    scores: Tensor,
    lengths: Tensor | None = None,
    *,
    single_root: bool = False,
    backend: str | None = None,
) -> Tensor:
    """For each arc the score of the best tree that has it.

    ARGS

    Returns:
        ``[*batch, N, N]``; −inf in dead cells and where no tree has the arc. The largest entry in the column of a word
        is the score of the best tree, up to rounding. Has no gradient, and says so when asked for one: use
        ``viterbi(constrain(scores, heads))``.
    """
    flat, flat_lengths, single_root, backend = _flatten(scores, lengths, single_root, backend)
    return operators.max_marginals(flat, flat_lengths, single_root, backend).reshape(scores.shape)


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
    flat, flat_lengths, single_root, backend = _flatten(scores, lengths, single_root, backend)
    heads = operators.sample(flat, flat_lengths, num_samples, generator, single_root, backend)
    return heads.reshape(num_samples, *scores.shape[:-1])
