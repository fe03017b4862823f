"""The CPU backend: Numba kernels with sentences in SIMD lanes.

Read it in this order: vec.py and powers.py (the vector type), kinds.py and gradients.py (numbers), charts.py (layout),
inside.py and outside.py (the recurrences), tiles.py and blocks.py (the same, fast; passes.py chooses), bound.py (why
the fast numbers are accurate), pack.py (scores in, marginals out), walk.py (from a chart to a tree). posterior.py,
tangent.py, viterbi.py and sample.py put these together; this file hands out the work.
"""

import numpy as np
import torch
from torch import Tensor

from tritree.chart import result_dtype
from tritree.cpu import pool
from tritree.cpu.charts import workspace_size
from tritree.cpu.kinds import Dual, Linear, Max, Scaled, ScaledDual
from tritree.cpu.posterior import posterior
from tritree.cpu.sample import sample as sample_kernel
from tritree.cpu.tangent import tangent as tangent_kernel
from tritree.cpu.vec import VECTOR_BYTES
from tritree.cpu.viterbi import viterbi as viterbi_kernel

__all__ = ["inside", "inside_outside", "sample", "tangent", "viterbi"]

# Nanoseconds for a sentence of N nodes, divided by N³ (by N², for a sample): only to decide how many threads pay.
INSIDE, INSIDE_OUTSIDE, TANGENT, VITERBI, SAMPLE = 0.07, 0.25, 0.6, 0.05, 2.0
SCALED = 6  # times that, with exponents
WORTH_A_THREAD = 100_000  # nanoseconds
PARTS_PER_THREAD = 4  # so that no thread has much more to do than another


def inside(scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    s, n = _arrays(scores, lengths)
    log_z = _new(scores, n.shape, torch.float64)
    nothing = np.empty((0, 0, 0), s.dtype)
    _with_fallback(posterior, Linear, Scaled, INSIDE, s, n, single_root, log_z.numpy(), nothing)
    return log_z


def inside_outside(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    s, n = _arrays(scores, lengths)
    log_z, marginals = _new(scores, n.shape, torch.float64), _new(scores, s.shape)
    _with_fallback(posterior, Linear, Scaled, INSIDE_OUTSIDE, s, n, single_root, log_z.numpy(), marginals.numpy())
    return log_z, marginals


def tangent(scores: Tensor, lengths: Tensor, direction: Tensor, single_root: bool) -> Tensor:
    s, n = _arrays(scores, lengths)
    result = _new(scores, s.shape)
    d = direction.contiguous().numpy()
    _with_fallback(tangent_kernel, Dual, ScaledDual, TANGENT, s, n, single_root, d, result.numpy())
    return result


def viterbi(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    s, n = _arrays(scores, lengths)
    best, heads = _new(scores, n.shape), _new(scores, s.shape[:2], torch.int64)
    everyone = np.arange(n.size)
    _run(viterbi_kernel, Max, everyone, VITERBI, (), s, n, single_root, best.numpy(), heads.numpy())
    return best, heads


def sample(scores: Tensor, lengths: Tensor, seed: Tensor, num_samples: int, single_root: bool) -> Tensor:
    s, n = _arrays(scores, lengths)
    heads = _new(scores, (num_samples, *s.shape[:2]), torch.int64)
    if num_samples > 0:
        cost = INSIDE + SAMPLE * num_samples / s.shape[1]
        args = s, n, single_root, seed.item(), heads.numpy()
        _with_fallback(sample_kernel, Linear, Scaled, cost, *args, num_samples=num_samples)
    return heads


def _new(scores, shape, dtype=None):
    return torch.empty(shape, dtype=dtype or result_dtype(scores.dtype))


def _arrays(scores, lengths):
    """Dense, in a dtype that the kernels have. (There is no bfloat16 in numpy.)"""
    dtype = result_dtype(scores.dtype)
    if scores.dtype != dtype:
        scores = scores.to(dtype)
    return scores.contiguous().numpy(), lengths.contiguous().numpy()


def _with_fallback(kernel, fast, exact, cost, scores, lengths, *args, num_samples=None):
    """Runs the kernel in the linear domain, and again with exponents for the sentences that it refuses."""
    refused = np.zeros(lengths.size, np.bool_)
    options = (refused, False)
    _run(kernel, fast, np.arange(lengths.size), cost, options, scores, lengths, *args, num_samples=num_samples)
    (again,) = refused.nonzero()
    if again.size > 0:
        options = (refused, True)
        _run(kernel, exact, again, cost * SCALED, options, scores, lengths, *args, num_samples=num_samples)


def _run(kernel, kind, sentences, cost, options, scores, lengths, *args, num_samples=None):
    """Runs the kernel over the groups of these sentences, on as many threads as pay for themselves."""
    if sentences.size == 0:
        return
    dtype = scores.dtype if kind is Max else np.dtype(np.float64)
    cell = VECTOR_BYTES // dtype.itemsize
    words = lengths[sentences]
    nodes = int(words.max()) + 1
    if sentences.size > cell:
        # Groups of similar length. The longest come first, so that the threads end at about the same time.
        sentences = sentences[np.argsort(-words, kind="stable")]
    groups = -(-sentences.size // cell)
    size = workspace_size(kind, nodes, cell)

    def on_this_thread(*part):
        kernel(pool.workspace(size, dtype), sentences, *options, scores, lengths, *args, *part)

    threads = min(torch.get_num_threads(), 1 + int(cost * sentences.size * nodes**3 / WORTH_A_THREAD))
    wanted = 1 if threads == 1 else threads * PARTS_PER_THREAD
    parts = _ranges(groups, wanted)
    if num_samples is not None:
        # Every piece repeats the inside pass, which must not outweigh its samples.
        pieces = min(-(-wanted // len(parts)), max(1, num_samples // nodes))
        parts = [part + piece for part in parts for piece in _ranges(num_samples, pieces)]
    pool.run(on_this_thread, parts, threads)


def _ranges(count, parts):
    """0 … count, cut into at most `parts` ranges of about equal size."""
    parts = min(count, parts)
    return [(count * i // parts, count * (i + 1) // parts) for i in range(parts)]
