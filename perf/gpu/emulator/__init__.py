"""Compiled GPU kernels, executed without a GPU: what `kernel[grid](…)` would run there runs here, on CPU tensors.

    with emulated(Device(90)) as device:
        backend.inside(scores, lengths, single_root)

All threads of a launch go in lockstep, each instruction as one NumPy operation over all of them: lanes, warps and
programs. Where threads part, those of each side go on alone until both sides meet again. So an instruction counts once
for each warp that has a thread there.

A Fault, with the line of the source, stops what a GPU might let pass: an access outside of the elements of an argument
or a misaligned one, a load of what nobody wrote, two threads at one address with no barrier between them or two
programs of a launch (unless both only load), a barrier, shuffle or reduction that not all threads reach, an instruction
that is not known here.

Not as on a GPU: 2^x, log2 and division are rounded correctly where PTX calls them approximate, a fused float32
multiplication and addition is rounded twice, and the program that ptxas makes of PTX may fuse more.

The files in reading order:

    program                    instructions, blocks, and where threads that part meet again
    memory                     what a thread may touch, and when
    machine                    registers, masks, barriers: runs any program
    arithmetic, ptx            PTX as a program; what its instructions do
    sass, sass_instructions    the same for the machine code of sm_90
    launcher                   in the place of Triton's
"""

from importlib.metadata import PackageNotFoundError, version

TRITON = "3.9"
"""The only version that it works with: the launcher uses what Triton has for itself alone."""


def is_supported() -> bool:
    try:
        return version("triton").startswith(f"{TRITON}.")
    except PackageNotFoundError:
        return False
