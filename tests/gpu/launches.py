"""The launch shapes, for sizes that are small enough for the interpreter."""

import contextlib
from collections.abc import Iterator
from unittest import mock

import torch

from tritree.gpu import backend, chart

SHAPES = ["one program per sentence", "one launch per diagonal"]


@contextlib.contextmanager
def launched_as(shape: str, block: int | None = 4) -> Iterator[None]:
    """With blocks of 4, a sentence of 5 words has two tiles on its longest diagonals. None is the usual size."""
    one_program = mock.patch.object(chart, "one_program_per_sentence", lambda B, N: shape == SHAPES[0])
    size = mock.patch.object(chart, "block_size", chart.block_size if block is None else lambda pitch: block)
    with one_program, size:
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
