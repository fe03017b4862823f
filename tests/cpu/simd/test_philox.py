"""The random numbers: Philox against published numbers, and uniforms from its bits."""

import numpy as np
import pytest
from numba import njit

from tritree.cpu.simd.philox import philox, uniform

# From the known-answer tests of Random123, Philox-4x32-10: counter, key, output.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@njit
def call_philox(key, counter):
    return philox((key[0], key[1]), (counter[0], counter[1], counter[2], counter[3]))


@njit
def call_uniform(high, low):
    return uniform(high, low)


@pytest.mark.parametrize("counter, key, output", KNOWN)
def test_philox_gives_the_published_numbers(counter, key, output):
    assert list(call_philox(np.array(key, np.uint32), np.array(counter, np.uint32))) == output


def test_uniforms_are_below_one_and_take_53_bits():
    top = np.uint32(0xFFFFFFFF)
    assert call_uniform(top, top) == 1 - 2.0**-53
    assert call_uniform(np.uint32(0), np.uint32(0x7FF)) == 0
    assert call_uniform(np.uint32(0), np.uint32(0x800)) == 2.0**-53
    assert call_uniform(np.uint32(1 << 31), np.uint32(0)) == 0.5
