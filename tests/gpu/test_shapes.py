"""Launch shape, tile and padding change no bit, and the results are right."""

import pytest
import torch

from tests.gpu.launches import SHAPES, launched_as, run
from tritree import reference
from tritree.conventions import live_arcs
from tritree.gpu.chart import one_program_per_sentence, tile
from tritree.gpu.inside import near

NAMES = ["inside", "inside_outside", "tangent", "viterbi", "topk", "max_marginals", "sample"]
NAMES += ["relaxed", "relaxed_gradient"]


def batch(dtype: torch.dtype):
    """Lengths that end before, at and after the end of a tile of 4; forbidden arcs; NaN where there is no arc."""
    lengths = torch.tensor([7, 4, 0, 3, 1])
    scores = 3 * torch.randn(5, 8, 8, dtype=dtype)
    scores[torch.rand_like(scores) < 0.1] = -torch.inf
    return torch.where(live_arcs(lengths, 8), scores, torch.nan), lengths


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_all_launch_shapes_and_tiles_agree_bitwise(name, dtype):
    scores, lengths = batch(dtype)
    whole = run(name, scores, lengths)
    others = [(SHAPES[1], (4, 1)), (SHAPES[0], (4, 4))]
    for shape, tile_and_lanes in others if dtype == torch.float32 else others[:1]:
        with launched_as(shape, tile_and_lanes):
            parts = run(name, scores, lengths)
        for a, b in zip(whole, parts, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("name", ["inside", "inside_outside", "viterbi", "topk", "max_marginals", "relaxed"])
def test_the_pitch_does_not_matter_bitwise(name):
    scores, lengths = batch(torch.float32)
    padded = torch.full((5, 40, 40), torch.nan)
    padded[:, :8, :8] = scores
    narrow, wide = run(name, scores, lengths), run(name, padded, lengths)
    for a, b in zip(narrow, wide, strict=True):
        assert torch.equal(a, b[(slice(None), *(slice(size) for size in a.shape[1:]))])


@pytest.mark.parametrize("name", NAMES)
def test_uninitialised_memory_does_not_matter(name):
    scores, lengths = batch(torch.float32)
    torch.use_deterministic_algorithms(True)  # which also fills new memory with NaN, or the largest integer
    try:
        assert scores.new_empty(1).isnan()
        filled = run(name, scores, lengths)
    finally:
        torch.use_deterministic_algorithms(False)
    for a, b in zip(filled, run(name, scores, lengths), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_against_the_rules(shape, single_root):
    scores, lengths = batch(torch.float64)
    with launched_as(shape):
        log_z, marginals = run("inside_outside", scores, lengths, single_root)
        best, heads = run("viterbi", scores, lengths, single_root)
        (with_arc,) = run("max_marginals", scores, lengths, single_root)
    expected_log_z, expected_marginals = reference.inside_outside(scores, lengths, single_root)
    torch.testing.assert_close(log_z, expected_log_z, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(marginals, expected_marginals, rtol=1e-13, atol=1e-14)
    expected_best, expected_heads = reference.viterbi(scores, lengths, single_root)
    assert torch.equal(best, expected_best) and torch.equal(heads, expected_heads)
    torch.testing.assert_close(with_arc, reference.max_marginals(scores, lengths, single_root), rtol=1e-13, atol=1e-13)


def test_more_lanes_than_a_block():
    """A sentence that needs two full tiles, on a diagonal launch as it would be on a GPU."""
    lengths = torch.tensor([34])
    scores = torch.randn(1, 35, 35)
    with launched_as(SHAPES[1], (32, 4)):
        log_z, marginals = run("inside_outside", scores, lengths)
    torch.testing.assert_close(log_z, reference.inside(scores, lengths, False), rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(marginals[:, :, 1:].sum(1), torch.ones(1, 34), rtol=0, atol=1e-5)


def test_which_launch_shape():
    """One program per sentence, except for few long sentences."""
    assert one_program_per_sentence(1, 40) and one_program_per_sentence(1000, 500)
    assert not one_program_per_sentence(1, 500)


def test_which_tile():
    """One warp for each of many sentences, four for each of few; and four lanes for each span of short ones."""
    assert tile(264, 41, 4) == (32, 1) and tile(264, 500, 1) == (32, 1)
    assert tile(32, 41, 4) == (32, 4) and tile(32, 8, 4) == (32, 4)
    assert tile(32, 41, 1) == (64, 1) and tile(32, 100, 4) == (128, 1)


def test_scores_far_apart_are_copied():
    apart = torch.empty_strided((2, 8, 8), (8, 2**28, 1), device="meta")
    assert near(apart).is_contiguous()
    scores = torch.zeros(2, 8, 9)[:, :, :8]
    assert near(scores) is scores
