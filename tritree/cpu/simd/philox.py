"""Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

A random number is a function of a key and a counter and of nothing else. Every choice in every sample has its own
counter, so there is no state and no order of drawing: all backends and any number of threads draw the same trees.
"""

from numpy import uint32, uint64

from tritree.cpu.simd.jit import inline

MULTIPLIERS = uint64(0xD2511F53), uint64(0xCD9E8D57)
KEY_STEPS = uint32(0x9E3779B9), uint32(0xBB67AE85)
LOW_HALF, HALF = uint64(0xFFFFFFFF), uint64(32)


@inline
def philox(key, counter):
    """Four uint32 from a key of two uint32 and a counter of four."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        a = MULTIPLIERS[0] * uint64(c0)
        b = MULTIPLIERS[1] * uint64(c2)
        c0 = uint32(b >> HALF) ^ c1 ^ k0
        c2 = uint32(a >> HALF) ^ c3 ^ k1
        c1, c3 = uint32(b & LOW_HALF), uint32(a & LOW_HALF)
        k0 = uint32(k0 + KEY_STEPS[0])
        k1 = uint32(k1 + KEY_STEPS[1])
    return c0, c1, c2, c3


@inline
def uniform(high, low):
    """A float64 in [0, 1) from the first 53 of 64 bits."""
    return float((uint64(high) << HALF | uint64(low)) >> uint64(11)) * 2.0**-53
