"""A kernel's code: instructions in basic blocks, and where threads that part meet again."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

EXIT = -1


class Fault(Exception):
    """What a kernel may not do, or what is not known here."""


@dataclass(frozen=True)
class Instruction:
    op: str
    """With all modifiers, such as add.s32."""
    operands: tuple[str, ...] = ()
    guard: str = ""
    """The predicate without which a thread skips it; !p negates p."""
    place: str = "?"
    """File and line of the source."""
    target: str = ""
    """Where a branch goes."""
    ends: bool = False
    """The thread ends here."""

    @cached_property
    def parts(self) -> list[str]:
        return self.op.split(".")

    def __str__(self) -> str:
        return f"{self.place}: {self.op} {', '.join(self.operands)}"


class Program:
    """Blocks of instructions. A thread goes from block k to taken[k] if its last instruction is a branch whose guard
    holds, and else to after[k]. All threads that leave block k come to join[k], its immediate postdominator."""

    def __init__(self, items: Iterable[Instruction | str]):
        """Instructions, with labels between them."""
        self.blocks: list[list[Instruction]] = [[]]
        labels = {}
        for item in items:
            if isinstance(item, str):
                if self.blocks[-1]:
                    self.blocks.append([])
                labels[item] = len(self.blocks) - 1
            else:
                self.blocks[-1].append(item)
                if item.target or item.ends:
                    self.blocks.append([])
        if not self.blocks[-1] and len(self.blocks) - 1 not in labels.values():
            self.blocks.pop()
        self.taken, self.after = [], []
        for k, block in enumerate(self.blocks):
            last = block[-1] if block else Instruction("")
            following = k + 1 if k + 1 < len(self.blocks) else EXIT
            taken = EXIT if last.ends else labels[last.target] if last.target else following
            always = (last.ends or last.target) and not last.guard
            self.taken.append(taken)
            self.after.append(taken if always else following)
        self.join = self._postdominators()

    def _postdominators(self) -> list[int]:
        count = len(self.blocks)
        everything = {*range(count), EXIT}
        sets = [set(everything) for _ in range(count)] + [{EXIT}]  # the last one, at −1, is EXIT's
        changed = True
        while changed:
            changed = False
            for k in reversed(range(count)):
                new = (sets[self.taken[k]] & sets[self.after[k]]) | {k}
                changed |= new != sets[k]
                sets[k] = new
        return [max(sets[k] - {k}, key=lambda other: len(sets[other]), default=EXIT) for k in range(count)]
