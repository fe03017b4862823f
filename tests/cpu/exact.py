"""Exact arithmetic for sentences too long to enumerate, and calls of the CPU kernels with one kind of number only.

With scores that are multiples of ln 2, every arc is a power of two, and Python's integers hold Z and all inside and
outside values without any rounding: a difference between this and a kernel is the kernel's own error.
"""

import math

import numpy as np
import torch
from torch import Tensor

from tritree.cpu import threads
from tritree.cpu.chart.layout import workspace_size
from tritree.cpu.chart.numbers import Dual, Linear, Scaled, ScaledDual
from tritree.cpu.groups import new_progress
from tritree.cpu.kernels.posterior import posterior_kernel
from tritree.cpu.kernels.tangent import tangent_kernel

LN2 = math.log(2)


def run_posterior(scores: Tensor, exact: bool, single_root: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """log Z, marginals and which sentences were refused, for full-length sentences, with one kind of number only."""
    B, N, _ = scores.shape
    log_z, marginals, refused = np.full(B, np.nan), np.full((B, N, N), np.nan), np.zeros(B, np.bool_)
    work = _workspace(Scaled if exact else Linear, N)
    lengths = np.full(B, N - 1)
    args = scores.double().numpy(), lengths, single_root, log_z, marginals, new_progress()
    posterior_kernel(work, np.arange(B), refused, exact, *args)
    return torch.from_numpy(log_z), torch.from_numpy(marginals), torch.from_numpy(refused)


def run_tangent(scores: Tensor, direction: Tensor, exact: bool, single_root: bool = False) -> tuple[Tensor, Tensor]:
    """The derivative of the marginals and which sentences were refused, as above."""
    B, N, _ = scores.shape
    result, refused = np.full((B, N, N), np.nan), np.zeros(B, np.bool_)
    work = _workspace(ScaledDual if exact else Dual, N)
    lengths = np.full(B, N - 1)
    args = scores.double().numpy(), lengths, single_root, direction.double().numpy(), result, new_progress()
    tangent_kernel(work, np.arange(B), refused, exact, *args)
    return torch.from_numpy(result), torch.from_numpy(refused)


def _workspace(kind, N):
    """Filled with NaN: a kernel that reads before it writes gives NaN."""
    work = threads.workspace(workspace_size(kind, N + 1, 4), np.float64)
    work[:] = np.nan
    return work


class PowersOfTwo:
    """A sentence whose arc h → m has the weight 2^bits[h, m]. All values below are integers times 2^(shift · arcs)."""

    def __init__(self, bits: Tensor, single_root: bool = False):
        self.N, self.shift = bits.shape[0], -int(bits.min())
        self.scores = bits.double() * LN2
        N = self.N
        p = [[1 << int(bits[h, m]) + self.shift if h != m and m > 0 else 0 for m in range(N)] for h in range(N)]
        C = [[int(h == m) for m in range(N)] for h in range(N)]
        I = [[0] * N for _ in range(N)]
        X = [[0] * N for _ in range(N)]
        spans = [(i, i + w) for w in range(1, N) for i in range(N - w)]
        for i, j in spans:
            X[i][j] = sum(C[i][k] * C[j][k + 1] for k in _splits(i, j, single_root))
            I[i][j], I[j][i] = X[i][j] * p[i][j], X[i][j] * p[j][i]
            C[i][j] = sum(I[i][k] * C[k][j] for k in range(i + 1, j + 1))
            C[j][i] = sum(I[j][k] * C[k][i] for k in range(i, j))
        gC = [[0] * N for _ in range(N)]
        gI = [[0] * N for _ in range(N)]
        gC[0][N - 1] = 1
        for i, j in reversed(spans):  # scattered, term by term; the kernels gather the same gradients
            for k in range(i + 1, j + 1):
                gI[i][k] += gC[i][j] * C[k][j]
                gC[k][j] += gC[i][j] * I[i][k]
            for k in range(i, j):
                gI[j][k] += gC[j][i] * C[k][i]
                gC[k][i] += gC[j][i] * I[j][k]
            gX = gI[i][j] * p[i][j] + gI[j][i] * p[j][i]
            for k in _splits(i, j, single_root):
                gC[i][k] += gX * C[j][k + 1]
                gC[j][k + 1] += gX * C[i][k]
        Z = C[0][N - 1]
        self.log_z = _log(Z) - self.shift * (N - 1) * LN2
        marginals = [[((gI[h][m] * I[h][m] << 80) // Z) / 2**80 for m in range(N)] for h in range(N)]
        self.marginals = torch.tensor(marginals, dtype=torch.float64)
        # The bound is for log Z relative to the largest arc of each column.
        arcs = self.scores + torch.full((N, N), 0.0).fill_diagonal_(-math.inf)
        self.scaled_log_z = self.log_z - arcs.amax(0)[1:].sum().item()


def _splits(i, j, single_root):
    return range(1) if single_root and i == 0 else range(i, j)


def _log(integer):
    """math.log rounds an integer to a float first: the exponent is taken out before."""
    exponent = max(integer.bit_length() - 64, 0)
    return math.log(integer >> exponent) + exponent * LN2
