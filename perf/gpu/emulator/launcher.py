"""In the place of Triton's launcher: what `kernel[grid](…)` would compile for a GPU is compiled, with the launcher's
own specialisation of the arguments, and runs on the memory of CPU tensors."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest import mock

import torch
import triton
from torch import Tensor
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

from perf.gpu.emulator.machine import Machine
from perf.gpu.emulator.memory import BASE, UNWRITTEN, Memory
from perf.gpu.emulator.ptx import Ptx


class Launch(NamedTuple):
    kernel: str
    machine: Machine
    binary: object
    constants: dict


class Device:
    """A GPU of compute capability arch / 10. `launches` are those of the last `with emulated(device)`."""

    def __init__(
        self,
        arch: int,
        change: Callable[[str, str], str] = lambda kernel, ptx: ptx,
        code: Callable = lambda binary, ptx: Ptx(ptx),
        limit: int = 10**7,
    ):
        """change(kernel, ptx) is the PTX that is run, code(binary, ptx) what is run of it; a launch that takes more
        than `limit` blocks of instructions is taken to be endless."""
        self.limit = limit
        self.target = GPUTarget("cuda", arch, 32)
        self.backend = make_backend(self.target)
        self.change, self.code = change, code
        self.compiled: dict[str, tuple] = {}
        self.machines: dict[tuple, Machine] = {}
        self.layout: tuple = ()
        self.launches: list[Launch] = []
        self.traces: list[list[int]] | None = None

    def run(self, function: JITFunction, *args, grid: tuple, warmup: bool, **options) -> None:
        """JITFunction.run, but for the launch itself."""
        options["debug"] = False
        options["instrumentation_mode"] = knobs.compilation.instrumentation_mode
        options["fpsan_homomorphic_casts"] = knobs.compilation.fpsan_homomorphic_casts
        binder = create_function_from_signature(function.signature, function.params, self.backend)
        bound, specialization, rest = binder(*args, **options)
        key = f"{function.__name__} {specialization} {rest}"
        if key not in self.compiled:
            settings, signature, constants, attributes = function._pack_args(
                self.backend, options, bound, specialization, rest
            )
            source = ASTSource(function, signature, constants, attributes)
            binary = triton.compile(source, target=self.target, options=settings.__dict__)
            # The launcher gives scratch memory where a kernel asks for it; none does.
            assert not binary.metadata.global_scratch_size and not binary.metadata.profile_scratch_size
            code = self.code(binary, self.change(function.__name__, binary.asm["ptx"]))
            named = {function.arg_names[path[0]]: value for path, value in constants.items()}
            self.compiled[key] = code, binary, named
        code, binary, constants = self.compiled[key]
        grid = (*grid, 1, 1)[:3]
        if (key, grid) not in self.machines:
            self.machines[key, grid] = code.machine(grid, binary.metadata.shared)
        machine = self.machines[key, grid]
        self.launches.append(Launch(function.__name__, machine, binary, constants))
        # What the specialisation made a constant is no parameter in PTX.
        kinds = [kind for kind, _ in specialization]
        self.launch(
            machine, [bound[p.name] for p, kind in zip(function.params, kinds, strict=True) if kind != "constexpr"]
        )

    def launch(self, machine: Machine, arguments: list) -> None:
        tensors = [x for x in arguments if isinstance(x, Tensor)]
        storages = {x.untyped_storage().data_ptr(): x.untyped_storage() for x in tensors}
        layout = machine.size, *((x.data_ptr(), x.shape, x.stride(), x.dtype, x.storage_offset()) for x in tensors)
        if layout != self.layout:
            self.layout, self.memory = layout, new_memory(tensors, storages, machine)
        raw = [torch.empty(0, dtype=torch.uint8).set_(storage).numpy() for storage in storages.values()]
        for k, data in enumerate(raw):
            self.memory.region(k)[:] = data
        regions = {pointer: k for k, pointer in enumerate(storages)}

        def parameter(x) -> int:
            if not isinstance(x, Tensor):
                return int(x)
            return self.memory.address(regions[x.untyped_storage().data_ptr()]) + x.element_size() * x.storage_offset()

        trace: list[int] | None = None if self.traces is None else []
        # The last two are pointers to scratch memory.
        machine.launch([*map(parameter, arguments), 0, 0], self.memory, self.limit, trace)
        if trace is not None:
            self.traces.append(trace)
        for k, data in enumerate(raw):
            data[:] = self.memory.region(k)


def new_memory(tensors: list[Tensor], storages: dict, machine: Machine) -> Memory:
    """The elements of the tensors may be touched, not all of their storages."""
    sizes = [storage.nbytes() for storage in storages.values()]
    elements = {pointer: 8 for pointer in storages}
    for x in tensors:
        pointer = x.untyped_storage().data_ptr()
        elements[pointer] = min(elements[pointer], x.element_size())
    memory = Memory(sizes, list(elements.values()), BASE, machine.programs, machine.threads)
    for k, pointer in enumerate(storages):
        for x in tensors:
            if x.untyped_storage().data_ptr() == pointer:
                several = x.element_size() // elements[pointer]
                cells = memory.cells(k)[: sizes[k] // x.element_size() * several].reshape(-1, several)
                every = torch.arange(len(cells)).as_strided(x.shape, x.stride(), x.storage_offset())
                cells[every.numpy().ravel()] = True
    return memory


def unwritten(new: Tensor) -> Tensor:
    """New memory, filled with what stands for never written."""
    if new.numel():
        new.view(torch.uint8).numpy().view("u2").fill(UNWRITTEN[2])
    return new


@contextlib.contextmanager
def emulated(device: Device) -> Iterator[Device]:
    """Kernels that are launched meanwhile run here."""

    def run(self, *args, **options):
        return device.run(self, *args, **options)

    def filled(function):
        return lambda *args, **options: unwritten(function(*args, **options))

    device.launches.clear()
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch.version, "cuda", "12.8"))
        stack.enter_context(mock.patch.object(JITFunction, "run", run))
        for owner, name in ((torch.Tensor, "new_empty"), (torch, "empty_like")):
            stack.enter_context(mock.patch.object(owner, name, filled(getattr(owner, name))))
        yield device
