"""Exact inference over projective dependency trees.

>>> import torch, tritree
>>> scores = torch.randn(2, 6, 6, requires_grad=True)      # [batch, head, modifier]; index 0 is ROOT
>>> lengths = torch.tensor([5, 3])                         # words, ROOT not counted
>>> tritree.log_partition(scores, lengths).sum().backward()
>>> best, heads = tritree.viterbi(scores, lengths)         # heads[b, m] is the head of word m
>>> dist = tritree.TreeCRF(scores, lengths)
>>> loss = -dist.log_prob(heads).mean()

Functions: log_partition, marginals, viterbi, topk, max_marginals, sample, relaxed_tree, constrain, projectivize.
Distribution: TreeCRF, with log_prob, marginals, mode, mbr, topk, max_marginals, entropy, cross_entropy, sample, and
torch.distributions.kl_divergence.

They take scores of any batch shape on a CPU (Numba kernels) or a CUDA GPU (Triton kernels). The conventions are in
tritree.conventions, the algorithm is in tritree.rules, the operators of torch are in tritree.operators.
"""

from tritree.api import log_partition, marginals, max_marginals, relaxed_tree, sample, topk, viterbi
from tritree.crf import TreeCRF
from tritree.trees import constrain, projectivize

__version__ = "0.1.0"  # pyproject.toml reads it here

__all__ = [
    "TreeCRF",
    "constrain",
    "log_partition",
    "marginals",
    "max_marginals",
    "projectivize",
    "relaxed_tree",
    "sample",
    "topk",
    "viterbi",
]
