"""TreeCRF: a torch.distributions.Distribution over projective trees."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl

from tritree import api, operators
from tritree.backends import resolve_backend
from tritree.conventions import (
    check_lengths,
    check_scores,
    check_single_root,
    flatten,
    live_arcs,
    live_words,
    result_dtype,
)
from tritree.trees import ProjectiveTree, check_heads, constrain, sentence_name


class TreeCRF(Distribution):
    """Projective dependency trees, with probability proportional to exp of the sum of the arcs' scores.

    Args:
        scores: ``[*batch, N, N]``, ``scores[..., h, m]`` is the score of the arc from head h to modifier m; index 0 is
            ROOT. −inf forbids an arc.
        lengths: ``[*batch]``: the number of words, ROOT not counted. Default: N − 1.
        single_root: exactly one word hangs from ROOT.
        backend: as in :func:`tritree.log_partition`.
        validate_args: check values too, not only shapes: NaN or +inf in a live arc, heads that are no projective tree,
            KL between unequal lengths are a ValueError then. None: torch.distributions' default on the CPU, off under
            torch.vmap and on CUDA, where reading values would synchronise.

    The event is a vector of heads, shape ``[N]``. The first use of ``log_partition`` or ``marginals`` computes both.
    """

    has_rsample = False
    arg_constraints = {  # noqa: RUF012 (torch.distributions wants a plain dict)
        "scores": constraints.dependent(is_discrete=False, event_dim=2),
        "lengths": constraints.dependent(is_discrete=True, event_dim=0),
    }

    def __init__(
        self,
        scores: Tensor,
        lengths: Tensor | None = None,
        *,
        single_root: bool = False,
        backend: str | None = None,
        validate_args: bool | None = None,
    ):
        self.lengths = check_scores(scores, lengths)
        self.scores = scores
        self.single_root = check_single_root(single_root)
        self.backend = resolve_backend(backend, scores)
        self._both: tuple[Tensor, Tensor] | None = None
        self._best_with: Tensor | None = None
        if validate_args is None and not operators.can_read_values(scores):
            validate_args = False
        super().__init__(scores.shape[:-2], scores.shape[-1:], validate_args=validate_args)
        if self._validate_args:
            check_lengths(self.lengths, scores.shape[-1])
            self._validate_scores()

    def expand(self, batch_shape: Sequence[int], _instance: "TreeCRF | None" = None) -> "TreeCRF":
        new = self._get_checked_instance(TreeCRF, _instance)
        batch_shape = torch.Size(batch_shape)
        N = self.event_shape[0]
        new.scores = self.scores.expand(*batch_shape, N, N)
        new.lengths = self.lengths.expand(batch_shape)
        new.single_root, new.backend = self.single_root, self.backend
        new._both = new._best_with = None
        if self._both is not None:
            log_z, mu = self._both
            new._both = log_z.expand(batch_shape), mu.expand(*batch_shape, N, N)
        if self._best_with is not None:
            new._best_with = self._best_with.expand(*batch_shape, N, N)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> ProjectiveTree:
        return ProjectiveTree(self.lengths, self.single_root)

    @property
    def log_partition(self) -> Tensor:
        """Log of the summed weights of all trees, ``[*batch]``."""
        return self.log_partition_float64.to(result_dtype(self.scores.dtype))

    @property
    def log_partition_float64(self) -> Tensor:
        """``log_partition`` before it is rounded to the dtype of the results, so that differences lose nothing."""
        return self._inside_outside()[0]

    @property
    def marginals(self) -> Tensor:
        """The probability of each arc, ``[*batch, N, N]``."""
        return self._inside_outside()[1]

    @property
    def mode(self) -> Tensor:
        """The heads of the most probable tree, ``[*batch, N]``."""
        return api.viterbi(self.scores, self.lengths, **self._options)[1]

    @property
    def mbr(self) -> Tensor:
        """The heads of the tree with the largest sum of arc marginals, among the possible ones, ``[*batch, N]``."""
        mu = torch.where(self.scores == -torch.inf, -torch.inf, self.marginals.detach())
        return api.viterbi(mu, self.lengths, **self._options)[1]

    @property
    def max_marginals(self) -> Tensor:
        """For each arc the score of the best tree that has it, ``[*batch, N, N]``; −inf where there is none."""
        if self._best_with is None or self._is_stale(self._best_with):
            self._best_with = api.max_marginals(self.scores, self.lengths, **self._options)
        return self._best_with

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable trees, the best first: their scores ``[*batch, k]`` and heads ``[*batch, k, N]``.

        A log probability is a score less ``log_partition``. Where there are fewer trees, the rest is −inf and −1.
        """
        return api.topk(self.scores, self.lengths, k, **self._options)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of trees, ``[*sample, *batch]``.

        Args:
            value: heads, ``[*sample, *batch, N]``. −1 at a word leaves its head free: the result is then the
                probability of all trees that agree with the known heads.
        """
        value = check_heads(value, self.scores)
        if self._validate_args:
            self._validate_sample(value)
        log_z = self.log_partition_float64  # first: it checks the lengths
        score = self._log_weight(value)
        impossible = (score == -torch.inf) | (log_z == -torch.inf)
        log_prob = torch.where(impossible, -torch.inf, score - log_z)
        return log_prob.to(result_dtype(self.scores.dtype))

    def entropy(self) -> Tensor:
        """Entropy in nats, ``[*batch]``."""
        return self.cross_entropy(self)

    def cross_entropy(self, other: "TreeCRF") -> Tensor:
        """−Σ p(tree) · log q(tree) with p this distribution and q the other, ``[*batch]``."""
        return cross_entropy_float64(self, other).to(common_dtype(self, other))

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Exact samples: heads, ``[*sample_shape, *batch, N]``."""
        sample_shape = torch.Size(sample_shape)
        with torch.no_grad():
            heads = api.sample(self.scores, self.lengths, sample_shape.numel(), generator=generator, **self._options)
        return heads.reshape(*sample_shape, *heads.shape[1:])

    @property
    def _options(self) -> dict:
        return {"single_root": self.single_root, "backend": self.backend}

    def _inside_outside(self) -> tuple[Tensor, Tensor]:
        """log Z in float64 and the marginals; computed once, and again if they are now needed with a gradient."""
        if self._both is None or self._is_stale(self._both[0]):
            flat, lengths = flatten(self.scores, self.lengths)
            log_z, mu = operators.call("inside_outside", self.backend, flat, lengths, self.single_root)
            if flat is not self.scores:
                log_z, mu = log_z.reshape(self.batch_shape), mu.reshape(self.scores.shape)
            self._both = log_z, mu
        return self._both

    def _is_stale(self, cached: Tensor) -> bool:
        """Whether a cached tensor lacks a gradient that is needed now, or is one of inference mode outside of it."""
        if self.scores.requires_grad and torch.is_grad_enabled() and not cached.requires_grad:
            return True
        compiling = torch.compiler.is_compiling()  # which can't trace the rest, and has no inference mode
        return not compiling and cached.is_inference() and not torch.is_inference_mode_enabled()

    def _log_weight(self, heads: Tensor) -> Tensor:
        """Log of the summed weights of the trees with these heads, float64; −1 is free."""
        N = self.event_shape[0]
        scores = self.scores.expand(*heads.shape[:-1], N, N)
        words = live_words(self.lengths, N)
        arcs = scores.gather(-2, heads.clamp(0, N - 1).unsqueeze(-2)).squeeze(-2).double()
        total = torch.where(words, arcs, 0).sum(-1)
        total = torch.where(total == -torch.inf, -torch.inf, total)  # a constant: a forbidden arc has gradient 0
        partial = ((heads < 0) & words).any(-1)
        if operators.can_read_values(partial) and not partial.any():
            return total
        # Sentences with whole trees get length 0 here: they cost nothing.
        lengths = torch.where(partial, self.lengths, 0)
        free = operators.log_partition(self.backend, *flatten(constrain(scores, heads), lengths), self.single_root)
        return torch.where(partial, free.reshape(partial.shape), total)

    def _validate_scores(self) -> None:
        s = self.scores.detach()
        if operators.can_read_values(s) and s.numel() and s.amax() < torch.inf:  # false with NaN in any cell
            return
        bad = live_arcs(self.lengths, self.event_shape[0]) & ((s != s) | (s == torch.inf))
        if bad.any():
            *b, h, m = bad.nonzero()[0].tolist()
            raise ValueError(f"{sentence_name(b)}the score of arc {h} → {m} is {s[(*b, h, m)].item()}")

    def _validate_sample(self, value: Tensor) -> None:
        if self.support.check(value).all():
            return
        for fault, words in self.support.faults(value).items():
            if words.any():
                *b, m = words.nonzero()[0].tolist()
                head = value[(*b, m)].item()
                raise ValueError(f"{sentence_name(b)}heads are no projective tree: word {m} with head {head} {fault}")


def common_dtype(p: TreeCRF, q: TreeCRF) -> torch.dtype:
    """The dtype of what is computed from both."""
    return torch.promote_types(result_dtype(p.scores.dtype), result_dtype(q.scores.dtype))


def cross_entropy_float64(p: TreeCRF, q: TreeCRF) -> Tensor:
    """−Σ p(tree) · log q(tree) before it is rounded, ``[*batch]``: log Z_q − Σ μ_p · s_q.

    Both terms grow with the scores while their difference may be tiny. Since each column of μ_p sums to one, a
    constant per column can be taken out of both: with the column's maximum, arcs that carry mass are near 0.
    """
    if not isinstance(q, TreeCRF):
        raise ValueError(f"the other distribution must be a TreeCRF, got {type(q).__name__}")
    if p.event_shape != q.event_shape:
        raise ValueError(f"the distributions differ in N: {p.event_shape[0]} and {q.event_shape[0]}")
    if p._validate_args or q._validate_args:
        unequal = p.lengths != q.lengths
        if unequal.any():
            b = unequal.nonzero()[0].tolist()
            raise ValueError(f"{sentence_name(b)}the distributions differ in length")
    (log_z_p, mu), log_z_q = p._inside_outside(), q.log_partition_float64

    live = live_arcs(q.lengths, q.event_shape[0])
    allowed = live & (q.scores != -torch.inf)
    s = torch.where(allowed, q.scores, 0).double()
    top = torch.where(allowed, s.detach(), -torch.inf).amax(-2, keepdim=True)
    top = torch.where(top == -torch.inf, 0, top)
    expected = torch.where(allowed, mu * (s - top), 0).sum((-1, -2))
    value = log_z_q - top.sum((-1, -2)) - expected

    value = torch.where(allows_more(p, q) | (log_z_q == -torch.inf), torch.inf, value)
    return torch.where(log_z_p == -torch.inf, 0, value)


def allows_more(p: TreeCRF, q: TreeCRF) -> Tensor:
    """Whether p allows a tree that q forbids, ``[*batch]``: one with an arc of score −inf, or with a second root.

    Marginals do not show it, since a small one may round to zero. Instead, an arc that q forbids scores two points, and
    a root scores one where q wants a single one: the best tree that p allows then has more than one point.
    """
    N = p.event_shape[0]
    possible = live_arcs(p.lengths, N) & (p.scores != -torch.inf)
    forbidden = possible & (q.scores == -torch.inf)
    roots_count = q.single_root and not p.single_root
    if p is q or (not roots_count and operators.can_read_values(forbidden) and not forbidden.any()):
        return torch.zeros(forbidden.shape[:-2], dtype=torch.bool, device=forbidden.device)
    points = torch.where(possible, 2.0 * forbidden, -torch.inf)
    if roots_count:
        points[..., 0, :] += 1
    lengths = p.lengths.expand(points.shape[:-2])
    best, _ = api.viterbi(points, lengths, single_root=p.single_root, backend=p.backend)
    return best > 1


@register_kl(TreeCRF, TreeCRF)
def _kl_divergence(p: TreeCRF, q: TreeCRF) -> Tensor:
    return (cross_entropy_float64(p, q) - cross_entropy_float64(p, p)).to(common_dtype(p, q))
