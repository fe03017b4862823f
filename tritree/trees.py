"""Heads: which of them are trees, and scores under known heads."""

import torch
from torch import Tensor
from torch.distributions import constraints

from tritree import operators
from tritree.backends import kernels
from tritree.conventions import check_arcs, check_batch_lengths, check_lengths, is_integer, live_words
from tritree.projective import lift

CROSSING = "has an arc that crosses another (tritree.projectivize lifts such arcs)"


def constrain(scores: Tensor, heads: Tensor) -> Tensor:
    """Scores under which every tree has the known heads.

    Args:
        scores: ``[*batch, N, N]``.
        heads: ``[*batch, N]``, integers; −1 leaves the head of a word free. Position 0 is ignored. More leading
            dimensions than in ``scores`` are fine.

    Returns:
        A new tensor: −inf where a known head says otherwise, ``scores`` elsewhere. Differentiable.
    """
    check_arcs(scores)
    heads = check_heads(heads, scores)
    h = torch.arange(scores.shape[-1], device=scores.device).unsqueeze(-1)
    known = heads.unsqueeze(-2)
    return torch.where((known < 0) | (known == h), scores, -torch.inf)


def check_heads(heads: Tensor, scores: Tensor) -> Tensor:
    """Shape, dtype and device of heads that belong to these scores; returns them as int64."""
    if not isinstance(heads, Tensor) or not is_integer(heads):
        kind = heads.dtype if isinstance(heads, Tensor) else type(heads).__name__
        raise ValueError(f"heads must be an integer tensor, got {kind}")
    expected = scores.shape[:-1]
    try:
        fits = torch.broadcast_shapes(heads.shape, expected) == heads.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"heads must have shape [*sample, *{list(expected)}], got {list(heads.shape)}")
    if heads.device != scores.device:
        raise ValueError(f"heads are on {heads.device}, scores on {scores.device}: move one to the other")
    return heads.to(torch.int64)


def projectivize(heads: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Projective trees near the given ones: the shortest non-projective arc is lifted to the head of its head, until
    none is left (Nivre & Nilsson 2005).

    Args:
        heads: ``[*batch, N]``, integers: whole trees, projective or not. Position 0 and the padding stay as they are.
        lengths: ``[*batch]``: the number of words, ROOT not counted. Default: all words up to the last one that has a
            head.

    Returns:
        New heads, int64, of the same shape and on the same device. Trees that are projective are unchanged, and a tree
        with one root keeps it. Sentences without any head (−1 throughout) have no tree and are unchanged, too.

    Heads are read on the CPU: on CUDA this synchronises. What is no tree is a ValueError.
    """
    if not isinstance(heads, Tensor) or not is_integer(heads):
        kind = heads.dtype if isinstance(heads, Tensor) else type(heads).__name__
        raise ValueError(f"heads must be an integer tensor, got {kind}")
    if heads.dim() == 0 or heads.shape[-1] == 0:
        raise ValueError(f"heads must have shape [*batch, N] with N ≥ 1 (ROOT first), got {list(heads.shape)}")
    N = heads.shape[-1]
    result = heads.to("cpu", torch.int64, copy=True)
    known = (result >= 0) & (torch.arange(N) > 0)
    if lengths is None:
        lengths = torch.where(known, torch.arange(N), 0).amax(-1)
    else:
        lengths = check_batch_lengths(lengths, heads, heads.shape[:-1], "heads").cpu()
        check_lengths(lengths, N)
        lengths = torch.where((known & live_words(lengths, N)).any(-1), lengths, 0)
    faults = ProjectiveTree(lengths, single_root=False).faults(result)
    crossing = faults.pop(CROSSING).any(-1)
    for fault, words in {"has no head": live_words(lengths, N) & ~known, **faults}.items():
        if words.any():
            *b, m = words.nonzero()[0].tolist()
            raise ValueError(f"{sentence_name(b)}heads are no tree: word {m} {fault}")
    for b in crossing.nonzero().tolist():
        live = (*b, slice(1, int(lengths[tuple(b)]) + 1))
        result[live] = torch.tensor(lift(result[live].tolist())[0])
    return result.to(heads.device)


def sentence_name(index: list[int]) -> str:
    """The beginning of an error about one sentence of a batch."""
    return f"sentence {index[0] if len(index) == 1 else tuple(index)}: " if index else ""


class ProjectiveTree(constraints.Constraint):
    """Heads that form a projective tree; or, with some words left free (−1), known heads that have none of the faults.

    ``check`` gives one bool per sentence; ``faults`` gives one per word, by kind.
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, lengths: Tensor, single_root: bool):
        self.lengths = lengths
        self.single_root = single_root
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        if operators.bypasses_dispatcher(value):
            return kernels("numba").are_trees(value, self.lengths, self.single_root)
        return ~torch.stack([fault.any(-1) for fault in self.faults(value).values()]).any(0)

    def faults(self, heads: Tensor) -> dict[str, Tensor]:
        """For each kind of fault, [*, N] bool: the words that have it."""
        N = heads.shape[-1]
        if operators.can_read_values(self.lengths):
            check_lengths(self.lengths, N)
        m = torch.arange(N, device=heads.device)
        word = live_words(self.lengths, N)
        known = word & (heads >= 0)
        last = self.lengths.clamp(max=N - 1).unsqueeze(-1)  # in range, since heads are used as indices below
        out_of_range, itself = word & ((heads < -1) | (heads > last)), word & (heads == m)
        has_arc = known & ~out_of_range & ~itself
        h = torch.where(has_arc, heads, m)  # without an arc: the span of the word alone

        # Arcs cross when one begins inside the other and ends outside of it.
        left, right = torch.minimum(h, m), torch.maximum(h, m)
        begins_inside = (left.unsqueeze(-1) < left.unsqueeze(-2)) & (left.unsqueeze(-2) < right.unsqueeze(-1))
        crosses = (begins_inside & (right.unsqueeze(-1) < right.unsqueeze(-2))).any(-1)

        # Follow the heads, twice as many steps each time: a word that does not reach ROOT or a free word is in a cycle.
        ancestor = torch.where(has_arc, h, 0)
        for _ in range(max(N - 1, 1).bit_length()):
            ancestor = ancestor.gather(-1, ancestor)
        cycle = word & (ancestor != 0)

        faults = {"is its own head": itself, "is out of range": out_of_range, CROSSING: crosses, "is in a cycle": cycle}
        if self.single_root:
            root_child = known & (heads == 0)
            faults["is a second child of ROOT"] = root_child & (root_child.cumsum(-1) > 1)
        return faults
