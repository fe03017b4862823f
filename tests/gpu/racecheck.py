"""Races in Triton kernels, found on the interpreter.

The interpreter runs programs one after another and each operation on a whole block, so a missing barrier changes no
result there. But it sees every address. On a GPU two accesses to one address, at least one of them a store, are ordered
only if they come from different launches, or from the same thread, or from the same program with a barrier between
them. All other pairs are hazards; they are recorded here.

A thread is taken to be a position in a block. That is right where a block has as many lanes as the program has threads.
Where it does not (exclusive=True), accesses at one position count as unordered too.
"""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from unittest import mock

from triton.runtime import interpreter

Access = tuple[tuple, int, int]  # program, epoch, thread


class Recorder:
    """`hazards` has their number by kernel and kind, such as ("inside_kernel", "load after store")."""

    def __init__(self, ignore_barrier: Callable[[str, int], bool], exclusive: bool):
        self.ignore_barrier = ignore_barrier
        self.exclusive = exclusive
        self.hazards: Counter[tuple[str, str]] = Counter()
        self.kernels: set[str] = set()

    def launch(self, kernel: str) -> None:
        """All accesses of earlier launches come before those of this one."""
        self.kernel = kernel
        self.kernels.add(kernel)
        self.epoch = self.barriers = 0
        self.stores: dict[int, set[Access]] = defaultdict(set)
        self.loads: dict[int, set[Access]] = defaultdict(set)

    def barrier(self) -> None:
        self.epoch += not self.ignore_barrier(self.kernel, self.barriers)
        self.barriers += 1

    def access(self, kind: str, addresses, mask) -> None:
        # A scalar is loaded, or stored, by all threads.
        threads = range(addresses.size) if addresses.size > 1 else [-1]
        program = interpreter.interpreter_builder.grid_idx
        for address, live, thread in zip(addresses.ravel().tolist(), mask.ravel().tolist(), threads, strict=True):
            if live:
                this = program, self.epoch, thread
                self.compare(f"{kind} after store", this, self.stores[address])
                if kind == "store":
                    self.compare("store after load", this, self.loads[address])
                (self.stores if kind == "store" else self.loads)[address].add(this)

    def compare(self, kind: str, this: Access, earlier: set[Access]) -> None:
        program, epoch, thread = this
        for other_program, other_epoch, other_thread in earlier:
            if program != other_program:
                self.hazards[self.kernel, f"{kind}, other program"] += 1
            elif epoch == other_epoch and (self.exclusive or thread != other_thread or thread == -1):
                self.hazards[self.kernel, kind] += 1


def never(kernel: str, k: int) -> bool:
    return False


@contextlib.contextmanager
def recording(ignore_barrier: Callable[[str, int], bool] = never, exclusive: bool = False) -> Iterator[Recorder]:
    """Records all kernels that run meanwhile. The k-th barrier of a launch is ignored if ignore_barrier(kernel, k)."""
    builder, executor = type(interpreter.interpreter_builder), interpreter.GridExecutor
    recorder = Recorder(ignore_barrier, exclusive)

    def before(method, action):
        def both(self, *args, **kwargs):
            action(self, *args)
            return method(self, *args, **kwargs)

        return both

    # Loads and stores without a mask get one and then come here too.
    actions = {
        (executor, "__call__"): lambda self, *_: recorder.launch(self.fn.__name__),
        (builder, "create_barrier"): lambda self: recorder.barrier(),
        (builder, "create_masked_load"): lambda self, ptrs, mask, *_: recorder.access("load", ptrs.data, mask.data),
        (builder, "create_masked_store"): lambda self, ptrs, value, mask, *_: recorder.access(
            "store", ptrs.data, mask.data
        ),
    }
    with contextlib.ExitStack() as stack:
        for (owner, name), action in actions.items():
            stack.enter_context(mock.patch.object(owner, name, before(getattr(owner, name), action)))
        yield recorder
