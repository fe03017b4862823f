"""The launch shapes, for sizes that are small enough for the interpreter."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch

from tritree.gpu import backend, chart

SHAPES = ["one program per sentence", "one launch per diagonal"]


@contextlib.contextmanager
def launched_as(shape: str, tile: tuple[int, int] | None = (4, 4), sentences: int | None = None) -> Iterator[None]:
    """With tiles of 4 spans, a sentence of 5 words has two on its longest diagonals. None: as for so many sentences."""
    usual = chart.tile

    def chosen(B, N, most_lanes):
        return (tile[0], min(tile[1], most_lanes)) if tile else usual(sentences or B, N, most_lanes)

    one_program = mock.patch.object(chart, "one_program_per_sentence", lambda B, N: shape == SHAPES[0])
    with one_program, mock.patch.object(chart, "tile", chosen):
        yield


def run(name: str, scores: torch.Tensor, lengths: torch.Tensor, single_root: bool = False) -> list[torch.Tensor]:
    """One of the backend's functions, with a fixed direction, seed and k."""
    extra = {
        "tangent": [torch.linspace(-1, 1, scores.numel()).view_as(scores).to(chart.result_dtype(scores.dtype)).sin()],
        "sample": [torch.tensor([0x123456789ABCDEF]), 2],
        "topk": [3],
        "relaxed": [0.5],
        "relaxed_gradient": [torch.linspace(-2, 1, scores.numel()).view_as(scores).to(scores.dtype), 0.5],
    }
    options = [] if "relaxed" in name else [single_root]
    out = getattr(backend, name)(scores, lengths, *extra.get(name, []), *options)
    return [out] if isinstance(out, torch.Tensor) else list(out)
