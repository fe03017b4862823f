"""Machine code as a graph of instructions: its loops, and which instruction can be executed after which.

Two assembly languages are read, as far as that requires: NVIDIA's, as `cuobjdump -sass` prints it, and AMD's, as the
compiler writes it.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

# /*0a10*/              @!P0 LDG.E R2, desc[UR4][R2.64] ;
NVIDIA = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);")
# .LBB0_8:    or    s_cbranch_scc1 .LBB0_8
AMD = re.compile(r"^(?:(\.LBB\w+):|[ \t]+([a-z]\w+)[ \t]*([^;\n]*))", re.M)


class Instruction(NamedTuple):
    op: str
    operands: str = ""
    predicate: str = ""


class Loop(NamedTuple):
    header: int
    body: set[int]
    innermost: bool


def from_nvidia(listing: str) -> "Code":
    found = NVIDIA.findall(listing)
    number = {int(address, 16): k for k, (address, *_) in enumerate(found)}
    instructions, after = [], []
    for k, (_, predicate, op, operands) in enumerate(found):
        instructions.append(Instruction(op, operands, predicate.strip()))
        target = [number[int(t, 16)] for t in re.findall(r"0x[0-9a-f]+", operands) if int(t, 16) in number]
        following = [k + 1] if k + 1 < len(found) else []
        if op.startswith(("BRA", "CALL", "JMP")):
            # A condition is a predicate before the instruction or, if it is uniform, an operand. A call returns.
            conditional = predicate or re.match(r"\s*!?U?P\d", operands) or not op.startswith("BRA")
            after.append(target[-1:] + (following if conditional else []))
        elif op.startswith(("EXIT", "RET")):
            after.append(following if predicate else [])
        else:
            after.append(following)
    return Code(instructions, after)


def from_amd(text: str) -> "Code":
    labels, instructions = {}, []
    for label, op, operands in AMD.findall(text):
        if label:
            labels[label] = len(instructions)
        else:
            instructions.append(Instruction(op, operands.strip()))
    after = []
    for k, (op, operands, _) in enumerate(instructions):
        following = [k + 1] if k + 1 < len(instructions) and op not in ("s_branch", "s_endpgm") else []
        target = [labels[operands]] if op.startswith(("s_branch", "s_cbranch")) else []
        after.append(target + following)
    return Code(instructions, after)


class Code:
    """Instructions are numbered in the order of the listing; after[k] are those that can follow number k."""

    def __init__(self, instructions: list[Instruction], after: list[list[int]]):
        self.instructions = instructions
        self.after = after

    def find(self, prefix: str) -> set[int]:
        return {k for k, instruction in enumerate(self.instructions) if instruction.op.startswith(prefix)}

    def reach(self, starts: Iterable[int], without: set[int] = frozenset()) -> set[int]:
        """What can be executed after one of the starts, on paths that avoid some instructions."""
        seen: set[int] = set()
        stack = [k for start in starts for k in self.after[start]]
        while stack:
            k = stack.pop()
            if k not in seen and k not in without:
                seen.add(k)
                stack += self.after[k]
        return seen

    @cached_property
    def loops(self) -> list[Loop]:
        """All loops, outer ones before those in them."""
        return self._loops(set(range(len(self.after))))

    def _loops(self, nodes: set[int]) -> list[Loop]:
        found = []
        for body in self._components(nodes):
            entries = {s for k in range(len(self.after)) if k not in body for s in self.after[k] if s in body}
            header = min(entries or body)
            inner = self._loops(body - {header})
            found += [Loop(header, body, not inner), *inner]
        return found

    def _components(self, nodes: set[int]) -> list[set[int]]:
        """The cycles: sets of several nodes, each of which can reach all the others (Kosaraju's algorithm)."""
        before: dict[int, list[int]] = {k: [] for k in nodes}
        for k in nodes:
            for successor in self.after[k]:
                if successor in nodes:
                    before[successor].append(k)
        finished: list[int] = []
        seen: set[int] = set()
        for start in nodes:
            stack = [(start, False)]
            while stack:
                k, done = stack.pop()
                if done:
                    finished.append(k)
                elif k not in seen:
                    seen.add(k)
                    stack.append((k, True))
                    stack += [(successor, False) for successor in self.after[k] if successor in nodes]
        components, seen = [], set()
        for start in reversed(finished):
            component, stack = set(), [start]
            while stack:
                k = stack.pop()
                if k not in seen:
                    seen.add(k)
                    component.add(k)
                    stack += before[k]
            if len(component) > 1:
                components.append(component)
        return components

    def outermost_loop(self) -> Loop:
        """The loop over diagonals, or over the rounds of a walk."""
        return max(self.loops, key=lambda loop: len(loop.body))

    def innermost_loops(self) -> list[Loop]:
        return [loop for loop in self.loops if loop.innermost]
