"""Which heads are projective trees: yes or no, fast. tritree/trees.py says what is wrong with those that are not."""

import numpy as np

from tritree.cpu.simd.jit import inline, kernel


@kernel
def are_trees_kernel(heads, lengths, single_root, answers):
    """answers[b] = whether heads[b] is a projective tree or, where words are free (−1), can become one.

    Returns whether all lengths are in range. If not, there are no answers.
    """
    N = heads.shape[1]
    scratch = np.empty(N, np.int64)
    for b in range(heads.shape[0]):
        n = lengths[b]
        if n < 0 or n >= N:
            return False
        tree = heads[b]
        answers[b] = (
            _in_range(tree, n, single_root) and not _has_cycle(tree, n, scratch) and not _has_crossing(tree, n, scratch)
        )
    return True


@inline
def _in_range(heads, n, single_root):
    roots = 0
    for m in range(1, n + 1):
        h = heads[m]
        if h < -1 or h > n or h == m:
            return False
        roots += h == 0
    return not (single_root and roots > 1)


@inline
def _has_cycle(heads, n, first):
    """Goes up from each word until it reaches ROOT, a free word, or a word that was visited before."""
    first[: n + 1] = 0  # the word from whose walk this one was visited first
    for m in range(1, n + 1):
        word = m
        while word > 0 and first[word] == 0:
            first[word] = m
            word = heads[word]
        if word > 0 and first[word] == m:
            return True
    return False


@inline
def _has_crossing(heads, n, reach):
    """Whether an arc begins inside another one and ends outside it."""
    reach[: n + 1] = 0  # the farthest right end of the arcs whose left end is here
    for m in range(1, n + 1):
        if heads[m] >= 0:
            left = min(heads[m], m)
            reach[left] = max(reach[left], heads[m], m)
    for m in range(1, n + 1):
        if heads[m] >= 0:
            right = max(heads[m], m)
            for inner in range(min(heads[m], m) + 1, right):
                if reach[inner] > right:
                    return True
    return False
