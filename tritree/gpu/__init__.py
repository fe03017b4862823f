"""The Triton backend: five functions over flat batches, scores [B, N, N] and lengths [B] (tritree/ops.py)."""

from tritree.gpu.inside import inside
from tritree.gpu.outside import inside_outside
from tritree.gpu.sample import sample
from tritree.gpu.tangent import tangent
from tritree.gpu.viterbi import viterbi

__all__ = ["inside", "inside_outside", "sample", "tangent", "viterbi"]
