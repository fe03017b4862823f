"""In place of supar.structs.DependencyCRF, supar 1.1.4: scores are [modifier, head], arcs are 0 where there is none."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions.utils import lazy_property

import tritree
from tritree import operators
from tritree.compat.stand_in import StandIn
from tritree.conventions import live_words, result_dtype
from tritree.trees import check_heads


class DependencyCRF(StandIn):
    """Projective dependency trees, with supar's names and shapes.

    Args:
        scores: ``[B, N, N]``, ``scores[b, m, h]`` is the score of the arc from head h to modifier m; index 0 is ROOT.
        lens: ``[B]``: the number of words, ROOT not counted. Default: N − 1.
        multiroot: several words may hang from ROOT.

    Arcs are ``[B, N]`` int64, the head of each word; 0 at ROOT and in the padding, and −1 at words for which there is
    no tree. There are gradients if the scores require them; supar sets requires_grad in the caller's tensor.
    """

    def __init__(self, scores: Tensor, lens: Tensor | None = None, multiroot: bool = False):
        crf = tritree.TreeCRF(scores.mT, lens, single_root=not multiroot, validate_args=False)
        super().__init__(crf, scores.shape[-1:], multiroot)
        self.scores = scores
        self.lens = crf.lengths
        self.mask = live_words(self.lens, scores.shape[-1])
        self.kwargs: dict = {}  # what supar passes on to distributions that it makes from this one: always nothing

    @lazy_property
    def log_partition(self) -> Tensor:
        """Log of the summed weights of all trees, ``[B]``."""
        return self._crf.log_partition

    @lazy_property
    def marginals(self) -> Tensor:
        """The probability of each arc, ``[B, N, N]``, [modifier, head] as the scores are."""
        return self._crf.marginals.mT

    @lazy_property
    def argmax(self) -> Tensor:
        """The arcs of the best tree, ``[B, N]``."""
        return self._arcs(self._best[1])

    def kmax(self, k: int) -> Tensor:
        """The scores of the k best trees, ``[B, k]``; −inf where there are fewer."""
        return self._topk(k)[0]

    def topk(self, k: int) -> Tensor:
        """The arcs of the k best trees, ``[B, N, k]``; −1 at the words where there are fewer."""
        return self._arcs(self._topk(k)[1].movedim(-2, 0)).movedim(0, -1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The arcs of exact samples, ``[*sample_shape, B, N]``, as ``log_prob`` takes them."""
        return self._arcs(self._crf.sample(sample_shape))

    def log_prob(self, value: Tensor, partial: bool = False) -> Tensor:
        """Log probability of the arcs, ``[B]``. With ``partial``, −1 leaves the head of a word free.

        It is the score − log partition also for trees that are not projective, as in supar.
        """
        return self._crf.log_prob(self._check_arcs(value, partial))

    def score(self, value: Tensor, partial: bool = False) -> Tensor:
        """The score of the arcs, ``[B]``; with ``partial``, the log partition of all trees that agree with them."""
        value = self._check_arcs(value, partial)
        if partial:
            scores = tritree.constrain(self._crf.scores, value)
            lengths = self.lens.expand(scores.shape[:-2])
            return tritree.log_partition(scores, lengths, **self._options)
        heads = value.clamp(0, self.mask.shape[-1] - 1).unsqueeze(
            -1
        )  # those of ROOT and the padding may have any value
        arcs = self.scores.expand(*value.shape, -1).gather(-1, heads).squeeze(-1)
        return torch.where(self.mask, arcs, 0).sum(-1, dtype=result_dtype(arcs.dtype))

    def _arcs(self, heads: Tensor) -> Tensor:
        return torch.where(self.mask, heads, 0)

    def _check_arcs(self, value: Tensor, partial: bool) -> Tensor:
        """The arcs as int64."""
        value = check_heads(value, self.scores)
        if not operators.can_read_values(value):
            return value
        words = value[self.mask.expand(value.shape)]
        if not partial and (words < 0).any():
            raise ValueError("arcs have words without a head (−1): pass partial=True")
        if (words >= self.mask.shape[-1]).any():
            raise ValueError(f"arcs have a head of {words.max().item()}, but N is {self.mask.shape[-1]}")
        return value
