"""What the stand-ins have in common: a TreeCRF behind another library's names."""

from typing import Self

import torch
from torch import Tensor
from torch.distributions import Distribution, kl_divergence
from torch.distributions.utils import lazy_property

import tritree
from tritree import operators


class StandIn(Distribution):
    """Results that are the same in either library. As there, a property is computed at its first use and kept."""

    argmax: lazy_property
    """The best tree, as each library writes it."""

    arg_constraints = {}  # noqa: RUF012 (torch.distributions wants a plain dict)

    def __init__(self, crf: tritree.TreeCRF, event_shape: torch.Size, multiroot: bool):
        self._crf = crf
        self.multiroot = multiroot
        super().__init__(crf.batch_shape, event_shape, validate_args=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(multiroot={self.multiroot})"

    @lazy_property
    def max(self) -> Tensor:
        """The score of the best tree, ``[B]``."""
        return self._best[0]

    @lazy_property
    def mode(self) -> Tensor:
        """The same as ``argmax``."""
        return self.argmax

    @lazy_property
    def entropy(self) -> Tensor:  # type: ignore[override]  # a property in both libraries, and a method in torch
        """Entropy in nats, ``[B]``."""
        return self._crf.entropy()

    def cross_entropy(self, other: Self) -> Tensor:
        """−Σ p(tree) · log q(tree) with p this distribution and q the other, ``[B]``."""
        self._check_other(other)
        return self._crf.cross_entropy(other._crf)

    def kl(self, other: Self) -> Tensor:
        """KL(p ‖ q) with p this distribution and q the other, ``[B]``."""
        self._check_other(other)
        return kl_divergence(self._crf, other._crf)

    @lazy_property
    def _best(self) -> tuple[Tensor, Tensor]:
        return tritree.viterbi(self._scores_of_best, self._crf.lengths, **self._options)

    def _topk(self, k: int) -> tuple[Tensor, Tensor]:
        return tritree.topk(self._scores_of_best, self._crf.lengths, k, **self._options)

    @property
    def _scores_of_best(self) -> Tensor:
        """The scores under which the best trees are best."""
        return self._crf.scores

    @property
    def _options(self) -> dict:
        return {"single_root": not self.multiroot}

    def _check_other(self, other: Self) -> None:
        if type(other) is not type(self):
            raise ValueError(f"the other distribution must be a {type(self).__module__}.DependencyCRF, got {other!r}")
        if other.event_shape != self.event_shape:
            raise ValueError(f"the distributions differ in shape: {self.event_shape} and {other.event_shape}")
        ours, theirs = self._crf.lengths, other._crf.lengths
        if operators.can_read_values(ours) and not ours.equal(theirs):
            raise ValueError(f"the distributions differ in length: {ours.tolist()} and {theirs.tolist()}")
