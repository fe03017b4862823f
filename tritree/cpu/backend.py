"""The functions that operators call: they allocate results, choose numbers and threads, and run a kernel."""

import numpy as np
import torch
from torch import Tensor

from tritree.conventions import bad_length, result_dtype
from tritree.cpu import threads
from tritree.cpu.chart.layout import Soft, SoftGradient, workspace_size
from tritree.cpu.chart.numbers import Dual, Linear, Max, Scaled, ScaledDual
from tritree.cpu.chart.trust import LONGEST_TRUSTED
from tritree.cpu.kernels.is_tree import are_trees_kernel
from tritree.cpu.kernels.max_marginals import max_marginals_kernel
from tritree.cpu.kernels.posterior import posterior_kernel
from tritree.cpu.kernels.relaxed import relaxed_gradient_kernel, relaxed_kernel
from tritree.cpu.kernels.sample import sample_kernel
from tritree.cpu.kernels.tangent import tangent_kernel
from tritree.cpu.kernels.topk import topk_kernel
from tritree.cpu.kernels.viterbi import viterbi_kernel
from tritree.cpu.order import longest_first
from tritree.cpu.simd.vector import VECTOR_BYTES

__all__ = [
    "are_trees",
    "inside",
    "inside_outside",
    "max_marginals",
    "relaxed",
    "relaxed_gradient",
    "sample",
    "tangent",
    "topk",
    "viterbi",
]

# Nanoseconds for a sentence of N nodes, divided by N³ (by N² for a sample or one of k trees). They only decide how many
# threads are used.
INSIDE, INSIDE_OUTSIDE, TANGENT, VITERBI, MAX_MARGINALS = 0.06, 0.12, 0.6, 0.04, 0.1
RELAXED, RELAXED_GRADIENT = 0.8, 2.0
SAMPLE, ONE_OF_K = 2.0, 2.0
SCALED = 10  # times as much with Scaled numbers
WORTH_A_THREAD = 100_000  # nanoseconds
PARTS_PER_THREAD = 4  # where the samples of a few sentences are cut into pieces, so that threads end together
_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)
_TORCH = {np.dtype(np.float32): torch.float32, _FLOAT64: torch.float64, _INT64: torch.int64}


def inside(scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    batch = _Batch(scores, lengths)
    array, log_z = batch.new(_FLOAT64)
    nothing = np.empty((0, 0, 0), batch.dtype)
    batch.run_with_fallback(posterior_kernel, Linear, Scaled, INSIDE, single_root, array, nothing)
    return log_z


def inside_outside(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    batch = _Batch(scores, lengths)
    (z, log_z), (mu, marginals) = batch.new(_FLOAT64), batch.new(batch.dtype, batch.N, batch.N)
    batch.run_with_fallback(posterior_kernel, Linear, Scaled, INSIDE_OUTSIDE, single_root, z, mu)
    return log_z, marginals


def tangent(scores: Tensor, lengths: Tensor, direction: Tensor, single_root: bool) -> Tensor:
    batch = _Batch(scores, lengths)
    array, result = batch.new(batch.dtype, batch.N, batch.N)
    d = direction.contiguous().numpy()
    batch.run_with_fallback(tangent_kernel, Dual, ScaledDual, TANGENT, single_root, d, array)
    return result


def viterbi(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    batch = _Batch(scores, lengths)
    (value, best), (tree, heads) = batch.new(batch.dtype), batch.new(_INT64, batch.N)
    batch.run(viterbi_kernel, Max, batch.order, VITERBI, (), single_root, value, tree)
    return best, heads


def topk(scores: Tensor, lengths: Tensor, k: int, single_root: bool) -> tuple[Tensor, Tensor]:
    batch = _Batch(scores, lengths)
    (values, best), (trees, heads) = batch.new(batch.dtype, k), batch.new(_INT64, k, batch.N)
    batch.run(topk_kernel, Max, batch.order, VITERBI + ONE_OF_K * k / batch.N, (), single_root, values, trees)
    return best, heads


def max_marginals(scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    batch = _Batch(scores, lengths)
    array, result = batch.new(batch.dtype, batch.N, batch.N)
    batch.run(max_marginals_kernel, Max, batch.order, MAX_MARGINALS, (), single_root, array)
    return result


def sample(scores: Tensor, lengths: Tensor, seed: Tensor, num_samples: int, single_root: bool) -> Tensor:
    batch = _Batch(scores, lengths)
    heads = torch.empty((num_samples, batch.order.size, batch.N), dtype=torch.int64)
    if num_samples > 0:
        cost = INSIDE + SAMPLE * num_samples / batch.N
        args = single_root, seed.item(), heads.numpy()
        batch.run_with_fallback(sample_kernel, Linear, Scaled, cost, *args, num_samples=num_samples)
    return heads


def are_trees(heads: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """[*] bool for heads [*, N]; the shape of lengths is the last dimensions of *."""
    result = torch.empty(heads.shape[:-1], dtype=torch.bool)
    flat = heads.to(torch.int64).reshape(result.numel(), heads.shape[-1]).contiguous().numpy()
    n = lengths.expand(result.shape).reshape(-1).contiguous().numpy()
    if not are_trees_kernel(flat, n, single_root, result.view(-1).numpy()):
        raise bad_length(lengths.reshape(-1).numpy(), heads.shape[-1])
    return result


def relaxed(scores: Tensor, lengths: Tensor, temperature: float) -> Tensor:
    batch = _Batch(scores, lengths)
    array, A = batch.new(batch.dtype, batch.N, batch.N)
    batch.run(relaxed_kernel, Soft, batch.order, RELAXED, (), temperature, array)
    return A


def relaxed_gradient(scores: Tensor, lengths: Tensor, grad: Tensor, temperature: float) -> Tensor:
    batch = _Batch(scores, lengths)
    array, result = batch.new(batch.dtype, batch.N, batch.N)
    g = grad.contiguous().numpy()
    batch.run(relaxed_gradient_kernel, SoftGradient, batch.order, RELAXED_GRADIENT, (), temperature, g, array)
    return result


class _Batch:
    """Scores and lengths as contiguous arrays. Scores are float32 or float64: numpy has no bfloat16."""

    def __init__(self, scores, lengths):
        dtype = result_dtype(scores.dtype)
        if scores.dtype != dtype:
            scores = scores.to(dtype)
        self.scores, self.lengths = scores.contiguous().numpy(), lengths.contiguous().numpy()
        self.N, self.dtype = self.scores.shape[1], self.scores.dtype
        self.order = np.empty(self.lengths.size, np.int64)
        longest, self.work = longest_first(self.lengths, self.N, self.order)
        if longest < 0:
            raise bad_length(self.lengths, self.N)
        self.nodes = longest + 1

    def new(self, dtype, *shape):
        """An array for results, and the tensor that holds it.

        Torch allocates it, at a multiple of 64 bytes: matrix products of the result may round differently otherwise.
        """
        tensor = torch.empty((self.order.size, *shape), dtype=_TORCH[dtype])
        return tensor.numpy(), tensor

    def run_with_fallback(self, kernel, fast, exact, cost, *args, num_samples=None):
        """Runs the kernel with fast numbers, and again with exact ones for the sentences that it refuses."""
        refused, trusted = np.zeros(self.order.size, np.bool_), self.order
        if self.nodes > LONGEST_TRUSTED + 1:
            refused = self.lengths > LONGEST_TRUSTED
            trusted = self.order[np.count_nonzero(refused) :]
        self.run(kernel, fast, trusted, cost, (refused, False), *args, num_samples=num_samples)
        if np.count_nonzero(refused):
            again = self.order[refused[self.order]]
            self.run(kernel, exact, again, cost * SCALED, (refused, True), *args, num_samples=num_samples)

    def run(self, kernel, kind, sentences, cost, options, *args, num_samples=None):
        """Runs the kernel over the groups of these sentences, with one more thread for each WORTH_A_THREAD of work."""
        if sentences.size == 0:
            return
        dtype = self.dtype if kind is Max else _FLOAT64
        cell = VECTOR_BYTES // dtype.itemsize
        groups = -(-sentences.size // cell)
        size = workspace_size(kind, self.nodes, cell)

        num_threads = min(torch.get_num_threads(), 1 + int(cost * self.work / WORTH_A_THREAD))
        parts = groups
        if num_samples is not None:
            # Every piece repeats the inside pass: its samples must be enough to outweigh that.
            pieces = max(1, min(num_threads * PARTS_PER_THREAD // groups, num_samples // self.nodes))
            args, parts = (*args, pieces), groups * pieces

        def on_this_thread(progress):
            workspace = threads.workspace(size, dtype)
            kernel(workspace, sentences, *options, self.scores, self.lengths, *args, progress)

        threads.run(on_this_thread, parts, num_threads)
