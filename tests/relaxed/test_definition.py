"""The relaxed tree is what its definition says, and the definition that of a tree CRF but for one formula."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tritree
from tests.cases import ALL_DTYPES, cases
from tests.relaxed.definition import check_definition, definitions, log_sum


def test_definition(backend):
    @settings(max_examples=60 if backend == "numba" else 25)
    @given(cases(dtypes=ALL_DTYPES), st.sampled_from([0.3, 1.0, 4.0]))
    def check(case, temperature):
        check_definition(case, backend, temperature)

    check()


def test_with_log_sums_the_definition_is_the_tree_crf():
    """So a relaxed tree differs from the marginals only by what an item is worth to the items above it."""
    scores = 2 * torch.randn(2, 6, 6, dtype=torch.float64)
    lengths = torch.tensor([5, 3])
    for temperature in (0.5, 1.0):
        A = definitions(scores, lengths, temperature, combine=log_sum)
        torch.testing.assert_close(A, tritree.marginals(scores / temperature, lengths))
    assert (definitions(scores, lengths) - tritree.marginals(scores, lengths)).abs().max() > 1e-2
