"""In place of torch_struct.DependencyCRF, torch-struct 0.5: root arcs on the diagonal, trees as one-hot matrices."""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.distributions.utils import lazy_property
from torch.nn.functional import pad

import tritree
from tritree import crf, operators
from tritree.compat import labels
from tritree.compat.stand_in import StandIn
from tritree.conventions import check_scores, result_dtype


class DependencyCRF(StandIn):
    """Projective dependency trees, with torch-struct's names and shapes.

    Args:
        log_potentials: ``[B, N, N]``, [head, modifier], without ROOT: the diagonal has the scores of the arcs from
            ROOT. Or with labels, ``[B, N, N, L]``.
        lengths: ``[B]``: the number of words. Default: N.
        args: kept and not used, as in torch-struct.
        multiroot: several words may hang from ROOT.

    An event is a tree, shaped like the potentials of a sentence: 1 at its arcs, 0 elsewhere and where there is no
    tree. ``struct.to_parts`` and ``from_parts`` convert from and to heads ``[B, N]``, in which 0 is ROOT.
    """

    def __init__(
        self,
        log_potentials: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        args: dict | None = None,
        multiroot: bool = True,
    ):
        shape = log_potentials.shape
        if len(shape) not in (3, 4) or shape[1] != shape[2]:
            raise ValueError(f"log_potentials must have shape [B, N, N] or [B, N, N, L], got {list(shape)}")
        self.log_potentials = log_potentials
        self.lengths = lengths
        self.args = {} if args is None else args
        self.struct = DepTree
        if lengths is not None:
            lengths = torch.as_tensor(lengths, device=log_potentials.device)
        with_root = log_potentials.new_empty(()).expand(shape[0], 1 + shape[1], 1 + shape[1])
        lengths = check_scores(with_root, lengths)
        word = torch.arange(shape[1], device=lengths.device) < lengths.unsqueeze(-1)
        dead = ~(word.unsqueeze(-1) & word.unsqueeze(-2))
        self._labelled = len(shape) == 4
        self._dead = dead.unsqueeze(-1) if self._labelled else dead
        arcs: Tensor = log_potentials
        self._constant: Tensor | int = 0
        if self._labelled:
            arcs, self._constant = labels.tree_scores(self._potentials)
        trees = tritree.TreeCRF(_with_root(arcs), lengths, single_root=not multiroot, validate_args=False)
        super().__init__(trees, shape[1:], multiroot)

    @lazy_property
    def partition(self) -> Tensor:
        """Log of the summed weights of all trees, ``[B]``."""
        return self._log_z.to(result_dtype(self.log_potentials.dtype))

    @lazy_property
    def marginals(self) -> Tensor:
        """The probability of each arc, shaped like the potentials."""
        arcs = _on_diagonal(self._crf.marginals)
        return arcs.unsqueeze(-1) * labels.shares(self._potentials) if self._labelled else arcs

    @lazy_property
    def argmax(self) -> Tensor:
        """The best tree as an event, shaped like the potentials."""
        label = self._potentials.argmax(-1) if self._labelled else None
        return self._event(self._best[1], label)

    def kmax(self, k: int) -> Tensor:
        """The scores of the k best trees, ``[k, B]``; −inf where there are fewer."""
        return self._k_best(k)[0].movedim(-1, 0)

    def topk(self, k: int) -> Tensor:
        """The k best trees as events, ``[k, *]`` with * the shape of the potentials; 0 where there are fewer."""
        return self._event(*self._k_best(k)[1:]).movedim(1, 0)

    @lazy_property
    def count(self) -> Tensor:
        """The number of trees without a forbidden arc, ``[B]``."""
        allowed = torch.where(self._potentials == -torch.inf, -torch.inf, 0).double()
        arcs = labels.log_sum(allowed) if self._labelled else allowed
        log_count = tritree.log_partition(_with_root(arcs), self._crf.lengths, **self._options)
        return log_count.exp().round().to(self._potentials.dtype)

    @lazy_property
    def entropy(self) -> Tensor:  # type: ignore[override]
        """Entropy in nats, ``[B]``."""
        return self.cross_entropy(self)

    def cross_entropy(self, other: Self) -> Tensor:
        """−Σ p(tree) · log q(tree) with p this distribution and q the other, ``[B]``."""
        if not self._labelled:
            return super().cross_entropy(other)
        return self._labelled_cross_entropy(other).to(crf.common_dtype(self._crf, other._crf))

    def kl(self, other: Self) -> Tensor:
        """KL(p ‖ q) with p this distribution and q the other, ``[B]``."""
        if not self._labelled:
            return super().kl(other)
        kl = self._labelled_cross_entropy(other) - self._labelled_cross_entropy(self)
        return kl.to(crf.common_dtype(self._crf, other._crf))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Exact samples as events, ``[*sample_shape, *]`` with * the shape of the potentials."""
        label = None
        if self._labelled:
            probabilities = labels.shares(self._potentials.detach())
            label = Categorical(probabilities, validate_args=False).sample(sample_shape)
        return self._event(self._crf.sample(sample_shape), label)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of events, ``[*sample, B]``: Σ value · potentials − log partition.

        Args:
            value: ``[*sample, *]`` with * the shape of the potentials. What is in the padding is ignored.
        """
        phi = self._potentials
        ignored = self._dead | ((value == 0) & (phi == -torch.inf))
        score = (phi.masked_fill(ignored, 0) * value).flatten(-len(self.event_shape)).sum(-1, dtype=torch.float64)
        impossible = (score == -torch.inf) | (self._log_z == -torch.inf)
        return torch.where(impossible, -torch.inf, score - self._log_z).to(phi.dtype)

    def gumbel_crf(self, temperature: float = 1.0) -> Tensor:
        raise NotImplementedError("gumbel_crf is not offered; tritree.relaxed_tree of noisy scores is a soft tree, too")

    def to_event(self, sequence: Tensor, extra: None = None, lengths: Tensor | None = None) -> Tensor:
        """Heads ``[B, N]`` → events ``[B, N, N]``."""
        return self.struct.to_parts(sequence, extra, lengths)

    def from_event(self, event: Tensor) -> tuple[Tensor, None]:
        """Events ``[B, N, N]`` → heads ``[B, N]``, and None."""
        return self.struct.from_parts(event)

    @lazy_property
    def _log_z(self) -> Tensor:
        """In float64: rounded first, it would make differences from large scores wrong."""
        return self._crf.log_partition_float64 + self._constant

    @lazy_property
    def _potentials(self) -> Tensor:
        """In the dtype of the results, with −inf in the padding, whatever that holds."""
        phi = self.log_potentials
        return phi.to(result_dtype(phi.dtype)).masked_fill(self._dead, -torch.inf)

    @property
    def _scores_of_best(self) -> Tensor:
        return _with_root(self._potentials.max(-1).values) if self._labelled else self._crf.scores

    def _k_best(self, k: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Scores [B, k], heads [B, k, 1 + N] and labels that can be broadcast to [B, k, N, N]."""
        best, heads = self._topk(k)
        if not self._labelled:
            return best, heads, None
        best, heads, label = labels.k_best(best, heads, _with_root(self._potentials))
        return best, heads, label[..., None, 1:]

    def _event(self, heads: Tensor, label: Tensor | None = None) -> Tensor:
        event = _one_hot(heads[..., 1:])
        if label is not None:
            every_label = torch.arange(self.event_shape[-1], device=label.device)
            event = event.unsqueeze(-1) & (label.unsqueeze(-1) == every_label)
        return event.to(self._potentials.dtype)

    def _labelled_cross_entropy(self, other: Self) -> Tensor:
        """In float64. A labelled tree is a tree and labels: it is the sum of the cross-entropies of both."""
        self._check_other(other)
        p, q = self._potentials, other._potentials
        trees = crf.cross_entropy_float64(self._crf, other._crf)
        value = trees + labels.cross_entropy(_on_diagonal(self._crf.marginals), p, q)
        if other is self:
            return value
        # It is infinite where q forbids a label of an arc that p allows, as where q forbids the arc.
        forbidden = ((p != -torch.inf) & (q == -torch.inf)).any(-1)
        strict = tritree.TreeCRF(
            _with_root(torch.where(forbidden, -torch.inf, 0.0)),
            other._crf.lengths,
            single_root=other._crf.single_root,
            validate_args=False,
        )
        impossible = crf.allows_more(self._crf, strict) | (trees == torch.inf)
        return torch.where(impossible, torch.inf, value)


class DepTree:
    """Trees as events and as heads."""

    @staticmethod
    def to_parts(sequence: Tensor, extra: None = None, lengths: Tensor | None = None) -> Tensor:
        """Heads ``[*, N]``, in which 0 is ROOT → events ``[*, N, N]``, int64."""
        N = sequence.shape[-1]
        if operators.can_read_values(sequence) and (sequence > N).any():
            raise ValueError(f"a head is {sequence.max().item()}, but there are {N} words")
        event = _one_hot(sequence)
        if lengths is not None:
            lengths = torch.as_tensor(lengths, device=sequence.device)
            word = torch.arange(N, device=sequence.device) < lengths.unsqueeze(-1)
            event &= word.unsqueeze(-2)
        return event.long()

    @staticmethod
    def from_parts(arcs: Tensor) -> tuple[Tensor, None]:
        """Events ``[*, N, N]`` → heads ``[*, N]``, 0 for ROOT and for words without an arc, and None."""
        here = (arcs != 0).long()
        row = here.argmax(-2)
        from_root = row == torch.arange(arcs.shape[-1], device=arcs.device)
        return torch.where(here.any(-2) & ~from_root, row + 1, 0), None


def _with_root(potentials: Tensor) -> Tensor:
    """Potentials [B, N, N, *] → scores [B, 1 + N, 1 + N, *], with the diagonal in the row of ROOT."""
    root = potentials.diagonal(dim1=1, dim2=2).movedim(-1, 1)
    rows = torch.cat([root.unsqueeze(1), potentials], 1)
    return pad(rows, (0, 0) * (rows.dim() - 3) + (1, 0))


def _on_diagonal(arcs: Tensor) -> Tensor:
    """Arcs [B, 1 + N, 1 + N] → [B, N, N], with the row of ROOT on the diagonal, which has no arcs of its own."""
    return arcs[:, 1:, 1:] + torch.diag_embed(arcs[:, 0, 1:])


def _one_hot(heads: Tensor) -> Tensor:
    """Heads [*, N], in which 0 is ROOT and less is no head → [*, N, N] bool."""
    m = torch.arange(heads.shape[-1], device=heads.device)
    row = torch.where(heads == 0, m, heads - 1)
    return row.unsqueeze(-2) == m.unsqueeze(-1)
