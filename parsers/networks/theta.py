"""GAP's decoder Θ: the probability θ(m | h) that head h generates modifier m, from sparse counts.

A full matrix of 50,000 × 50,000 words would take 20 GB. So only pairs that were counted are stored, sorted, and found
by bisection. Counts are smoothed towards the modifier's share of all arcs (a Dirichlet prior of weight κ). This keeps
log θ finite and, unlike adding the same small number to every pair, does not favour rare heads.
"""

import torch
from torch import Tensor, nn

from parsers.networks.device import Processes

MAX_CELLS = 2**22  # pairs that are kept, those with the largest counts: 64 MiB
PENDING = 2**20  # pairs that are collected before they are added up


class Counts:
    """The buffer B: sums of expectations for pairs (h, m), on the CPU. Exact, unless there are too many pairs: then
    those with the smallest sums are dropped, mostly arcs that are hardly ever in a tree."""

    def __init__(self, num_modifiers: int, max_cells: int = MAX_CELLS):
        self.num_modifiers, self.max_cells = num_modifiers, max_cells
        self.keys = torch.zeros(0, dtype=torch.int64)  # h · num_modifiers + m, ascending
        self.sums = torch.zeros(0, dtype=torch.float64)
        self._pending: list[tuple[Tensor, Tensor]] = []
        self._num_pending = 0

    def add(self, h: Tensor, m: Tensor, expectations: Tensor) -> None:
        """Adds expectations (0: no such arc) to the sums of the pairs (h, m); all of one shape."""
        arcs = expectations != 0
        keys = (h * self.num_modifiers + m)[arcs].cpu()
        self._pending.append((keys, expectations[arcs].double().cpu()))
        self._num_pending += len(keys)
        if self._num_pending > max(PENDING, len(self.keys) // 2):
            self.merge()

    def merge(self) -> None:
        """Adds up the pairs collected so far."""
        keys, sums = (torch.cat(parts) for parts in zip((self.keys, self.sums), *self._pending, strict=True))
        self._pending, self._num_pending = [], 0
        self.keys, place = keys.unique(return_inverse=True)
        self.sums = torch.zeros(len(self.keys), dtype=torch.float64).index_add_(0, place, sums)
        if len(self.keys) > self.max_cells:
            kept = self.sums.topk(self.max_cells, sorted=False).indices.sort().values
            self.keys, self.sums = self.keys[kept], self.sums[kept]

    def sum_over(self, group: Processes) -> None:
        """Adds up the sums of all processes: each writes its pairs into its own part of one long vector."""
        self.merge()
        if group.world == 1:
            return
        sizes = torch.zeros(group.world, dtype=torch.int64)
        sizes[group.rank] = len(self.keys)
        ends = group.sum_(sizes).cumsum(0).tolist()
        mine = slice(ends[group.rank] - len(self.keys), ends[group.rank])
        keys, sums = (values.new_zeros(ends[-1]) for values in (self.keys, self.sums))
        keys[mine], sums[mine] = self.keys, self.sums
        self._pending = [(group.sum_(keys), group.sum_(sums))]
        self.keys, self.sums = self.keys[:0], self.sums[:0]
        self.merge()


class Theta(nn.Module):
    """θ(m | h) = (B[h, m] + κ p(m)) / (B[h] + κ), where p(m) = (B[·, m] + 1) / (B + number of modifiers).

    Σ_m θ(m | h) = 1 for every h. For a head without counts, θ(m | h) = p(m).
    """

    resizable = ("keys", "counts")

    def __init__(self, num_heads: int, num_modifiers: int, smoothing: float):
        super().__init__()
        self.num_heads, self.num_modifiers, self.smoothing = num_heads, num_modifiers, smoothing
        self.register_buffer("keys", torch.zeros(0, dtype=torch.int64))  # h · num_modifiers + m, ascending
        self.register_buffer("counts", torch.zeros(0, dtype=torch.float64))  # B[h, m]
        self.register_buffer("totals", torch.zeros(num_heads, dtype=torch.float64))  # B[h]
        self.register_buffer("prior", torch.full((num_modifiers,), 1 / num_modifiers, dtype=torch.float64))  # p(m)

    def renew(self, buffer: Counts) -> None:
        """Θ in closed form: the optimum for these counts and the prior."""
        h, m = buffer.keys // self.num_modifiers, buffer.keys % self.num_modifiers
        by_head, by_modifier = torch.zeros(self.num_heads).double(), torch.zeros(self.num_modifiers).double()
        by_head.index_add_(0, h, buffer.sums)
        by_modifier.index_add_(0, m, buffer.sums)
        device = self.totals.device
        self.keys, self.counts = buffer.keys.to(device), buffer.sums.to(device)
        self.totals.copy_(by_head)
        self.prior.copy_((by_modifier + 1) / (by_modifier.sum() + self.num_modifiers))

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors) -> None:
        """Checks keys and counts, too: torch compares shapes only, and theirs are taken from the file."""
        keys, counts = state_dict[f"{prefix}keys"], state_dict[f"{prefix}counts"]
        if keys.dim() != 1 or keys.shape != counts.shape or keys.dtype != torch.int64:
            errors.append("keys and counts do not belong together")
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)

    def log_prob(self, h: Tensor, m: Tensor) -> Tensor:
        """log θ(m | h) for numbers of heads and modifiers, of one shape; float64."""
        if len(self.keys):
            key = h * self.num_modifiers + m
            place = torch.searchsorted(self.keys, key).clamp_max(len(self.keys) - 1)
            count = torch.where(self.keys[place] == key, self.counts[place], 0)
        else:
            count = 0
        return ((count + self.smoothing * self.prior[m]) / (self.totals[h] + self.smoothing)).log()
