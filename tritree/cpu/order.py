"""The order in which the sentences of a batch are taken."""

import numpy as np

from tritree.cpu.simd.jit import kernel


@kernel
def longest_first(lengths, N, order):
    """Fills `order` with the sentences, the longest first, equally long ones as they come. Returns (longest, work).

    Neighbours in this order have similar lengths and form groups. Threads end at about the same time, because the short
    sentences come last. `longest` is the number of words of the longest sentence, or −1 if a length is not in
    0 … N − 1. `work` is Σ (n + 1)³.
    """
    begin = np.zeros(N + 1, np.int64)
    longest, work = 0, 0.0
    for b in range(lengths.size):
        n = lengths[b]
        if n < 0 or n >= N:
            return -1, 0.0
        longest = max(longest, n)
        work += (n + 1.0) ** 3
        begin[n] += 1
    position = 0
    for n in range(longest, -1, -1):
        count = begin[n]
        begin[n] = position
        position += count
    for b in range(lengths.size):
        n = lengths[b]
        order[begin[n]] = b
        begin[n] += 1
    return longest, work
