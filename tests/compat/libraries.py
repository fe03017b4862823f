"""Both libraries that tritree.compat stands in for: their conventions, and back."""

import pytest
import torch
from hypothesis import given, settings

from tests.cases import cases, check_with_gradient, rounding
from tritree.compat import supar, torch_struct


def one_hot(heads):
    """[*, N] → [*, N, N] with 1 at the arcs."""
    return (heads.unsqueeze(-2) == torch.arange(heads.shape[-1]).unsqueeze(-1)).double()


class Supar:
    """[modifier, head]; trees are heads with 0 at ROOT and in the padding."""

    log_z = "log_partition"

    @staticmethod
    def scores(ours):
        return ours.mT

    @staticmethod
    def crf(scores, lengths, single_root=False):
        return supar.DependencyCRF(scores, lengths, multiroot=not single_root)

    @staticmethod
    def arcs(theirs):
        return theirs.mT

    @staticmethod
    def heads(trees, lengths):
        """Back to tritree's heads, [*, B, N]."""
        position = torch.arange(trees.shape[-1])
        word = (position > 0) & (position <= lengths[:, None])
        assert (trees[~word.expand(trees.shape)] == 0).all()
        return torch.where(word, trees, -1)

    @staticmethod
    def tree(heads):
        return heads.clamp(min=0)

    @staticmethod
    def kmax(dist, k):
        return dist.kmax(k)

    @staticmethod
    def topk(dist, k):
        return dist.topk(k).movedim(-1, 0)


class TorchStruct:
    """[head, modifier] without ROOT, whose arcs are on the diagonal; trees are one-hot."""

    log_z = "partition"

    @staticmethod
    def scores(ours):
        N = ours.shape[-1]
        root = ours[..., :1, 1:].expand(*ours.shape[:-2], N - 1, N - 1)
        return torch.where(torch.eye(N - 1, dtype=torch.bool), root, ours[..., 1:, 1:])

    @staticmethod
    def crf(scores, lengths, single_root=False):
        return torch_struct.DependencyCRF(scores, lengths, multiroot=not single_root)

    @staticmethod
    def arcs(theirs):
        N = theirs.shape[-1] + 1
        ours = theirs.new_zeros(*theirs.shape[:-2], N, N)
        for m in range(1, N):
            for h in range(1, N):
                ours[..., 0 if h == m else h, m] = theirs[..., h - 1, m - 1]
        return ours

    @staticmethod
    def heads(trees, lengths):
        assert ((trees == 0) | (trees == 1)).all() and (trees.sum(-2) <= 1).all()
        arcs = TorchStruct.arcs(trees)
        return torch.where(arcs.any(-2), arcs.argmax(-2), -1)

    @staticmethod
    def tree(heads):
        return TorchStruct.scores(one_hot(heads))

    @staticmethod
    def kmax(dist, k):
        return dist.kmax(k).movedim(0, -1)

    @staticmethod
    def topk(dist, k):
        return dist.topk(k)


def for_each_case(**kwargs):
    """Runs a test(case, library) on drawn cases."""

    def decorate(check):
        @pytest.mark.parametrize("library", [Supar, TorchStruct])
        def test(library):
            settings(max_examples=60)(given(cases(**kwargs))(lambda case: check(case, library)))()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def crf_of(case, library, scores=None):
    scores = library.scores(case.scores) if scores is None else scores
    return library.crf(scores, case.lengths, case.single_root)


def tolerance_of(case):
    """Log Z is taken off a score in float64: it is the difference that is rounded, however large the scores are."""
    return 4 * rounding(case, "numba")


def check_distribution(case, library, ours, theirs):
    """Compares a function of the distribution, per sentence, and its gradient."""

    def function(scores):
        return ours(crf_of(case, library, scores))

    check_with_gradient(case, library.scores(case.scores), function, theirs, tolerance_of(case), library.arcs)
