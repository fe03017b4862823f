"""The Triton backend: seven functions over flat batches, scores [B, N, N] and lengths [B] (tritree/operators.py)."""

from tritree.gpu.inside import inside
from tritree.gpu.outside import inside_outside, max_marginals
from tritree.gpu.sample import sample
from tritree.gpu.tangent import tangent
from tritree.gpu.topk import topk
from tritree.gpu.viterbi import viterbi

__all__ = ["inside", "inside_outside", "max_marginals", "sample", "tangent", "topk", "viterbi"]
