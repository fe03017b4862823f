"""How a thread takes groups: all of them once, pieces of a group, and a group that is not full."""

import numpy as np
import pytest
from numba import njit

from tritree.cpu.chart.lanes import is_repeated, nodes_of
from tritree.cpu.groups import all_finished, new_members, new_progress, next_group

LENGTHS = np.array([3, 9, 5, 5, 1, 2, 0, 8, 7])
ORDER = np.array([1, 7, 8, 2, 3, 0, 5, 4, 6])  # the longest first


@njit
def take_all(work, pieces, progress):
    """For each part that is taken: its number, the nodes, the members, and how many of them are not repeated."""
    members = new_members(work)
    parts = []
    while next_group(members, ORDER, LENGTHS, progress, pieces):
        own = 0
        for lane in range(members.sentences.size):
            own += not is_repeated(members, lane)
        parts.append((members.part[0], nodes_of(members), members.sentences.copy(), members.words.copy(), own))
    return parts


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(("dtype", "cell"), [(np.float64, 4), (np.float32, 8)])
def test_every_part_once(dtype, cell, pieces):
    progress = new_progress()
    parts = take_all(np.empty(1, dtype), pieces, progress)
    groups = -(-len(ORDER) // cell)
    assert [part for part, *_ in parts] == list(range(groups * pieces))
    assert all_finished(progress, groups * pieces, False) and not all_finished(progress, groups * pieces + 1, False)
    for part, nodes, sentences, words, own in parts:
        expected = ORDER[part // pieces * cell :][:cell]
        assert own == len(expected) and sentences[:own].tolist() == expected.tolist()
        assert (sentences[own:] == expected[0]).all()
        assert words.tolist() == LENGTHS[sentences].tolist()
        assert nodes % 2 == 0 and nodes - words.max() in (1, 2)


def test_two_threads_take_different_parts():
    """The second call finds what the first left."""
    progress = new_progress()
    progress[0] = 2  # two parts are taken elsewhere, and not finished
    parts = take_all(np.empty(1), 1, progress)
    assert [part for part, *_ in parts] == [2]
    assert all_finished(progress, 1, False) and not all_finished(progress, 3, True)
