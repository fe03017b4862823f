"""The conventions of tritree. All other files refer to this page.

Shapes
    scores[b, h, m]   score of the arc from head h to modifier m. Index 0 is ROOT, the words are 1..n, and N = n + 1
                      is the size of a sentence with its ROOT. Any leading batch shape, also none.
    lengths[b]        number of words, ROOT not counted; N − 1 unless given.
    heads[b, m]       int64, the head of word m; −1 at position 0 and in the padding.
    Dead cells        column 0, the diagonal, and rows and columns beyond the length: they are ignored, whatever they
                      hold (NaN too). All other cells are live.

Trees
    Projective: no two arcs cross, and none covers ROOT. Several words may hang from ROOT, unless single_root=True.
    A score of −inf forbids an arc, exactly: it adds no term, its marginal and its gradient are 0, and it causes no NaN.
    No tree possible: log partition −inf, marginals 0, best score −inf, heads −1, entropy 0, log_prob −inf, gradients 0.
    Length 0: log partition 0; there are no arcs.
    Ties: the smallest split index wins, on every backend. Of the k best trees (topk), equal ones come by split index,
    then by the rank of the left factor of the term among the derivations of its own item, then by that of the right
    factor: I before C in complete, C[i,k] before C[j,k+1] in join (rules.py).

Numbers
    float16, bfloat16 and float32 scores are computed with in float32 or better and give float32 results; float64
    scores give float64 results. Gradients have the dtype of the scores.
    A sentence's results do not depend on the rest of the batch, on padding, on strides, on threads or on the run.

Charts
    Head-indexed: C[h, m] and I[h, m] hold right-facing items where m > h and left-facing ones where m < h, so that one
    rule serves both directions (rules.py). The CPU kernels store them this way, with sentences in SIMD lanes
    (cpu/chart/lanes.py); the GPU kernels store them by diagonals, chart[w, i] for the span (i, i + w) (gpu/chart.py).
"""

from numbers import Integral, Number

import numpy as np
import torch
from torch import Tensor

from tritree import torch_private

SCORE_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def result_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of what is computed from scores of this dtype."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def live_words(lengths: Tensor, N: int) -> Tensor:
    """[*batch, N] bool: True at the words, False at ROOT and in the padding."""
    m = torch.arange(N, device=lengths.device)
    return (m > 0) & (m <= lengths.unsqueeze(-1))


def live_arcs(lengths: Tensor, N: int) -> Tensor:
    """[*batch, N, N] bool: True where a score means something."""
    m = torch.arange(N, device=lengths.device)
    h = m.unsqueeze(-1)
    return (h <= lengths[..., None, None]) & live_words(lengths, N).unsqueeze(-2) & (h != m)


def check_arcs(scores: Tensor) -> None:
    """Shape and dtype of scores."""
    if not isinstance(scores, Tensor):
        raise ValueError(f"scores must be a tensor [*batch, N, N], got {type(scores).__name__}")
    if scores.dtype not in SCORE_DTYPES:
        raise ValueError(f"scores must be float16, bfloat16, float32 or float64, got {scores.dtype}")
    if scores.dim() < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
        raise ValueError(f"scores must have shape [*batch, N, N] with N ≥ 1 (ROOT first), got {list(scores.shape)}")


def check_scores(scores: Tensor, lengths: Tensor | None) -> Tensor:
    """Shapes and dtypes of the two arguments that every function takes; returns the lengths, filled in, as int64."""
    check_arcs(scores)
    if torch_private.has_forward_gradient(scores):  # for which torch would return 0, without an error
        raise NotImplementedError("there are no forward-mode derivatives: use torch.autograd.grad")
    batch = scores.shape[:-2]
    if lengths is None:
        return torch.full(batch, scores.shape[-1] - 1, dtype=torch.int64, device=scores.device)
    return check_batch_lengths(lengths, scores, batch, "scores")


def check_batch_lengths(lengths: Tensor, tensor: Tensor, batch: torch.Size, name: str) -> Tensor:
    """Shape, dtype and device of lengths that belong to a tensor of this name; returns them as int64."""
    if not isinstance(lengths, Tensor) or not is_integer(lengths):
        kind = lengths.dtype if isinstance(lengths, Tensor) else type(lengths).__name__
        raise ValueError(f"lengths must be an integer tensor of shape {list(batch)}, got {kind}")
    if lengths.shape != batch:
        raise ValueError(f"lengths must have the batch shape of {name}, {list(batch)}, got {list(lengths.shape)}")
    if lengths.device != tensor.device:
        raise ValueError(f"lengths are on {lengths.device}, {name} on {tensor.device}: move one to the other")
    return lengths if lengths.dtype == torch.int64 else lengths.long()


def check_lengths(lengths: Tensor, N: int) -> None:
    """ValueError where a length is out of range. Reads the values: on a GPU it synchronises."""
    if ((lengths < 0) | (lengths >= N)).any():
        raise bad_length(lengths.reshape(-1).cpu().numpy(), N)


def bad_length(lengths: np.ndarray, N: int) -> ValueError:
    """The error that names the first length that is out of range for scores of size N."""
    b = int(((lengths < 0) | (lengths >= N)).argmax())
    return ValueError(f"lengths[{b}] is {lengths[b]}, but scores with N = {N} hold 0 to {N - 1} words")


def check_single_root(single_root: bool) -> bool:
    """As Python's bool: Numba would compile its kernels again for any other type."""
    if isinstance(single_root, bool):
        return single_root
    if not isinstance(single_root, Integral | np.bool_) or single_root not in (0, 1):
        raise ValueError(f"single_root must be True or False, got {describe(single_root)}")
    return bool(single_root)


def check_count(name: str, count: int, least: int) -> int:
    """As Python's int, or a tracer's. A tensor is refused: to read it would synchronise."""
    if isinstance(count, bool) or not isinstance(count, (Integral, torch.SymInt)) or count < least:
        raise ValueError(f"{name} must be an integer of {least} or more, got {describe(count)}")
    return count if isinstance(count, (int, torch.SymInt)) else int(count)


def describe(argument: object) -> str:
    """An argument in an error message: its value if that is short, else its type."""
    return repr(argument) if isinstance(argument, Number | str | None) else type(argument).__name__


def flatten(scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Scores [B, N, N] and lengths [B], of any batch shape; unchanged if they have this one."""
    if scores.dim() == 3:
        return scores, lengths
    N = scores.shape[-1]
    return scores.reshape(-1, N, N), lengths.reshape(-1)


def is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
