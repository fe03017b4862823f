"""What the stand-ins compute, against the enumeration of all trees."""

import torch

from tests.cases import ALL_DTYPES, assert_close, make_case, rounding
from tests.compat.libraries import check_distribution, crf_of, for_each_case
from tests.oracle import projective_trees
from tritree.conventions import result_dtype


@for_each_case(dtypes=ALL_DTYPES)
def test_log_partition_and_marginals(case, library):
    dist = crf_of(case, library)
    log_z, mu = getattr(dist, library.log_z), dist.marginals
    assert log_z.dtype == mu.dtype == result_dtype(case.scores.dtype)
    assert mu.shape == dist.batch_shape + library.scores(case.scores).shape[1:]
    assert_close(log_z, torch.stack([o.log_z for o in case.oracles()]), rounding(case, "numba"))
    assert_close(library.arcs(mu), torch.stack([o.marginals for o in case.oracles()]), rounding(case, "numba"))


@for_each_case(dtypes=ALL_DTYPES)
def test_the_gradient_of_the_log_partition(case, library):
    check_distribution(case, library, lambda d: getattr(d, library.log_z), lambda b, o: o.log_z)


@for_each_case(dtypes=ALL_DTYPES)
def test_entropy(case, library):
    check_distribution(case, library, lambda d: d.entropy, lambda b, o: o.entropy)


@for_each_case(kinds=("normal", "forbidden", "ties"))
def test_cross_entropy_and_kl(case, library):
    """Against scores that forbid other arcs, and against scores that forbid the same ones."""
    N, dtype = case.scores.shape[-1], case.scores.dtype
    unlike = make_case("forbidden", N, case.lengths.tolist(), case.single_root, dtype, "contiguous", torch.nan, 7)
    for scores in (unlike.scores, case.scores / 2):
        check_against_other(case, library, scores)


def check_against_other(case, library, other_scores):
    q, q_oracles = crf_of(case, library, library.scores(other_scores)), case.oracles(other_scores.double())

    def cross_entropy(b, oracle):
        return oracle.cross_entropy(q_oracles[b])

    check_distribution(case, library, lambda d: d.cross_entropy(q), cross_entropy)
    check_distribution(case, library, lambda d: d.kl(q), lambda b, o: cross_entropy(b, o) - o.entropy)


def test_each_distribution_has_its_own_number_of_roots(library):
    """Against one with a single root, KL is infinite if there are two words or more."""
    scores, lengths = library.scores(torch.randn(2, 4, 4)), torch.tensor([3, 1])
    several, single = (library.crf(scores, lengths, single_root) for single_root in (False, True))
    assert several.kl(single).isinf().tolist() == several.cross_entropy(single).isinf().tolist() == [True, False]
    assert single.kl(several).isfinite().all() and single.kl(several)[0] > 0


@for_each_case(dtypes=ALL_DTYPES)
def test_log_prob(case, library):
    """Of the first and of the last tree, forbidden ones too."""
    check_log_prob(case, library, 0)
    check_log_prob(case, library, -1)


def check_log_prob(case, library, which):
    heads = torch.full(case.scores.shape[:-1], -1)
    for b, n in enumerate(case.lengths.tolist()):
        if n:
            heads[b, 1 : n + 1] = projective_trees(n, case.single_root)[which]
    tree = library.tree(heads)
    check_distribution(case, library, lambda d: d.log_prob(tree), lambda b, o: o.log_prob(heads[b, 1 : o.n + 1]))
