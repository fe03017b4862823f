"""What a thread may touch, and when.

Memory is a row of regions, one for each tensor, with gaps between them. An address is that of the first byte. A cell is
an element of the region's tensor. For each cell there is whether it may be touched at all, who stored it last, and who
loaded it last. "Who" is a stamp: launch, program, interval between two barriers, thread. Two accesses to a cell, one of
them a store, are ordered only if they come from

    different launches, or one thread, or one program and different intervals.

All else is a race. Memory that torch does not initialise is filled with a pattern; a load of the pattern is a load of
what nobody wrote.
"""

import numba
import numpy as np

from perf.gpu.emulator.program import Fault, Instruction

BASE = 0x7F5B00000000  # addresses need 47 bits
GAP = 4096
ALIGNMENT = 512  # as torch's allocator makes them
UNWRITTEN = {2: 0x7FF5, 4: 0x7FF57FF5, 8: 0x7FF57FF57FF57FF5}
"""By size: NaN or large integers, and nothing that a computation gives. A single byte may be anything."""
REQUESTS, SECTORS, LINES, BYTES = range(4)
"""What is counted of an instruction: warps that execute it, 32-byte sectors, 128-byte lines, bytes asked for."""

THREAD, INTERVAL, PROGRAM = 11, 17, 20  # bits
SEVERAL_THREADS, SEVERAL_PROGRAMS = 2**THREAD - 1, 2**PROGRAM - 1
LAUNCH = THREAD + INTERVAL + PROGRAM
FINE, MISALIGNED, OUTSIDE, RACE, PROGRAMS_RACE = range(5)
COMPLAINTS = {
    MISALIGNED: "a misaligned address",
    OUTSIDE: "out of bounds",
    RACE: "a race: another thread was there, and no barrier since",
    PROGRAMS_RACE: "a race: another program of the launch was there",
}


class Memory:
    def __init__(self, sizes: list[int], cell_sizes: list[int], base: int, programs: int, threads: int):
        """Regions of so many bytes, and a launch of programs of so many threads."""
        starts = np.cumsum([GAP] + [-(-size // ALIGNMENT) * ALIGNMENT + GAP for size in sizes])
        self.base, self.starts, end = base, starts[:-1].astype(np.int64), int(starts[-1])
        self.sizes = np.array(sizes, np.int64)
        self.bytes = np.zeros(end, np.uint8)
        self.views = {size: self.bytes.view(f"u{size}") for size in (1, 2, 4, 8)}
        self.cell_sizes = np.array(cell_sizes, np.int64)
        cells = np.cumsum([0] + [size // cell for size, cell in zip(sizes, cell_sizes, strict=True)])
        self.first_cells = cells[:-1].astype(np.int64)
        self.allowed = np.zeros(cells[-1], bool)  # to be touched
        self.stored, self.loaded = (np.full(cells[-1], -1, np.int64) for _ in range(2))
        self.launches = 0
        self.start_launch(programs, threads)

    def start_launch(self, programs: int, threads: int) -> None:
        """Whatever earlier launches did is over."""
        self.launches += 1
        program, thread = np.divmod(np.arange(programs * threads, dtype=np.int64), threads)
        self.stamps = (self.launches << LAUNCH) | (program << (INTERVAL + THREAD)) | thread
        self.everywhere = np.ones(programs * threads, bool)

    def fill_unwritten(self) -> None:
        """Every byte may be touched, and nobody has written it."""
        self.views[2][:] = UNWRITTEN[2]
        self.allowed[:] = True

    def region(self, k: int) -> np.ndarray:
        return self.bytes[self.starts[k] : self.starts[k] + self.sizes[k]]

    def cells(self, k: int) -> np.ndarray:
        """Which cells of a region may be touched."""
        return self.allowed[self.first_cells[k] :][: self.sizes[k] // self.cell_sizes[k]]

    def address(self, k: int) -> int:
        return self.base + int(self.starts[k])

    def barrier(self, threads) -> None:
        np.add(self.stamps, 1 << THREAD, out=self.stamps, where=threads)

    def reach(self, instruction: Instruction, addresses, where, size: int, number: int, store: bool, counts):
        """Which threads access which bytes; the access is checked and counted."""
        active = self.everywhere if where is True else where
        offsets = addresses.view(np.int64) - self.base
        fault = check(
            offsets, active, size * number, store, self.starts, self.sizes, self.cell_sizes, self.first_cells,
            self.allowed, self.stored, self.loaded, self.stamps, self.launches << LAUNCH, counts,
        )  # fmt: skip
        if fault:
            raise Fault(f"{'store' if store else 'load'}, {COMPLAINTS[fault]}, at {instruction}")
        return active, offsets

    def load(self, instruction: Instruction, addresses, where, size: int, number: int, counts) -> list[np.ndarray]:
        active, offsets = self.reach(instruction, addresses, where, size, number, False, counts)
        places = (offsets if where is True else np.where(active, offsets, 0)) // size
        values = [self.views[size][places + k] for k in range(number)]
        for value in values:
            if size > 1 and (active & (value == UNWRITTEN[size])).any():
                raise Fault(f"load of what nobody wrote, at {instruction}")
        return values

    def store(self, instruction: Instruction, addresses, where, size: int, values: list, counts) -> None:
        active, offsets = self.reach(instruction, addresses, where, size, len(values), True, counts)
        for k, value in enumerate(values):
            places = (offsets[active] + k * size) // size
            value = np.broadcast_to(value, active.shape)[active]
            self.views[size][places] = value
            if (self.views[size][places] != value).any():
                raise Fault(f"a race: threads store different values to one address at {instruction}")


@numba.njit(cache=True)
def check(
    offsets, active, size, store, starts, sizes, cell_sizes, first_cells, allowed, stored, loaded, stamps, launch,
    counts,
):  # fmt: skip
    """A complaint, or FINE. Then the stamps of the access are left in its cells."""
    region = 0
    for step in range(2):  # first all threads look, then all leave their stamps
        for t in range(offsets.size):
            if not active[t]:
                continue
            at = offsets[t]
            if step == 0 and at % size:
                return MISALIGNED
            for k in range(starts.size):
                if 0 <= at - starts[region] < sizes[region]:
                    break
                region = k
            at -= starts[region]
            if at < 0 or at + size > sizes[region]:
                return OUTSIDE
            first = first_cells[region] + at // cell_sizes[region]
            last = first_cells[region] + (at + size - 1) // cell_sizes[region]
            for cell in range(first, last + 1):
                if step == 0:
                    if not allowed[cell]:
                        return OUTSIDE
                    fault = unordered(stored[cell], stamps[t], launch)
                    if not fault and store:
                        fault = unordered(loaded[cell], stamps[t], launch)
                    if fault:
                        return fault
                elif store:
                    # Threads of one program may store the same value at once: Memory.store sees whether it is.
                    if unordered(stored[cell], stamps[t], launch) == PROGRAMS_RACE:
                        return PROGRAMS_RACE
                    stored[cell] = stamps[t]
                else:
                    loaded[cell] = both(loaded[cell], stamps[t], launch)
    count(offsets, active, size, counts)
    return FINE


@numba.njit(cache=True)
def unordered(earlier, now, launch):
    if earlier < launch:
        return FINE
    if earlier >> (INTERVAL + THREAD) != now >> (INTERVAL + THREAD):
        return PROGRAMS_RACE
    same_interval = earlier >> THREAD == now >> THREAD
    return RACE if same_interval and earlier != now else FINE


@numba.njit(cache=True)
def both(earlier, now, launch):
    """One stamp for two loads: a store that is unordered with either is unordered with it."""
    fault = unordered(earlier, now, launch)
    if fault == PROGRAMS_RACE:
        return now | (SEVERAL_PROGRAMS << (INTERVAL + THREAD))
    if fault == RACE:
        return now | SEVERAL_THREADS
    return now


@numba.njit(cache=True)
def count(offsets, active, size, counts):
    seen = np.empty((2, 64), np.int64)
    for warp in range(0, offsets.size, 32):
        sectors, lines, asked = 0, 0, 0
        for t in range(warp, warp + 32):
            if active[t]:
                asked += size
                for at in range(offsets[t], offsets[t] + size, 32):
                    sectors = add_to_set(seen[0], sectors, at >> 5)
                    lines = add_to_set(seen[1], lines, at >> 7)
        if asked:
            counts[REQUESTS] += 1
            counts[SECTORS] += sectors
            counts[LINES] += lines
            counts[BYTES] += asked


@numba.njit(cache=True)
def add_to_set(members, number, x):
    for k in range(number - 1, -1, -1):
        if members[k] == x:
            return number
    members[number] = x
    return number + 1
