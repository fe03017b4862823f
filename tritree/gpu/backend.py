"""The functions that operators call, over flat batches: scores [B, N, N] and lengths [B]."""

from tritree.gpu.max_marginals import max_marginals
from tritree.gpu.posterior import inside, inside_outside
from tritree.gpu.relaxed import relaxed, relaxed_gradient
from tritree.gpu.sample import sample
from tritree.gpu.tangent import tangent
from tritree.gpu.topk import topk
from tritree.gpu.viterbi import viterbi

__all__ = [
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
