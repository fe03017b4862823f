"""A relaxed tree has the same bits in any batch, padding and layout, and with any number of threads."""

import math

import pytest
import torch

from tests.cases import lay_out
from tests.relaxed.definition import long_batch, value_and_gradient
from tests.threads import threads
from tritree.cpu import backend as cpu


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_padding_and_strides_do_not_matter_bitwise(backend, dtype):
    scores, lengths = long_batch(dtype, B=7, n=13 if backend == "numba" else 7, backend=backend)
    weights = torch.randn_like(scores)
    N = scores.shape[-1]
    together = value_and_gradient(scores, lengths, weights, backend=backend)
    wide, wide_weights = torch.full((2, len(scores), N + 5, N + 5), torch.nan, dtype=dtype)
    wide[:, :N, :N], wide_weights[:, :N, :N] = scores, weights
    padded = value_and_gradient(wide, lengths, wide_weights, backend=backend)
    assert all(torch.equal(x, y[:, :N, :N]) for x, y in zip(together, padded, strict=True))
    for layout in ("transposed", "sliced"):
        strided = value_and_gradient(lay_out(scores, layout), lengths, lay_out(weights, layout), backend=backend)
        assert all(torch.equal(x, y) for x, y in zip(together, strided, strict=True)), layout
    for b, n in enumerate(lengths.tolist()):
        part = slice(b, b + 1), slice(n + 1), slice(n + 1)
        alone = value_and_gradient(scores[part], lengths[b : b + 1], weights[part], backend=backend)
        assert all(torch.equal(x[part], y) for x, y in zip(together, alone, strict=True)), b


def test_threads_and_old_workspaces_do_not_matter_bitwise(monkeypatch):
    scores, lengths = long_batch(torch.float32, B=30)
    expected = value_and_gradient(scores, lengths)
    workspace = cpu.threads.workspace

    def filled_with_nan(size, dtype):
        work = workspace(size, dtype)
        work.fill(math.nan)
        return work

    monkeypatch.setattr(cpu.threads, "workspace", filled_with_nan)
    monkeypatch.setattr(cpu, "WORTH_A_THREAD", 1)
    for number in (1, 3):
        with threads(number):
            result = value_and_gradient(scores, lengths)
        assert all(torch.equal(x, y) for x, y in zip(expected, result, strict=True))
