"""Control flow of NVIDIA machine code, as far as is needed to see where the barriers are."""

import re
from collections.abc import Iterable
from functools import cached_property

# /*0a10*/              @!P0 LDG.E R2, desc[UR4][R2.64] ;
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);")


class Code:
    """Instructions are numbered in the order of the listing that cuobjdump -sass prints."""

    def __init__(self, listing: str):
        found = INSTRUCTION.findall(listing)
        self.op = [op for _, _, op, _ in found]
        number = {int(address, 16): k for k, (address, *_) in enumerate(found)}
        self.after: list[list[int]] = []
        for k, (_, predicate, op, operands) in enumerate(found):
            target = [number[int(t, 16)] for t in re.findall(r"0x[0-9a-f]+", operands) if int(t, 16) in number]
            following = [k + 1] if k + 1 < len(found) else []
            if op.startswith(("BRA", "CALL", "JMP")):
                # A condition is a predicate before the instruction or, if it is uniform, an operand. Calls come back.
                conditional = predicate or re.match(r"\s*!?U?P\d", operands) or not op.startswith("BRA")
                self.after.append(target[-1:] + (following if conditional else []))
            elif op.startswith(("EXIT", "RET")):
                self.after.append(following if predicate else [])
            else:
                self.after.append(following)

    def find(self, prefix: str) -> set[int]:
        return {k for k, op in enumerate(self.op) if op.startswith(prefix)}

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
    def loops(self) -> dict[int, set[int]]:
        """Header to body, for each target of a jump back. (Compilers lay loops out in one piece, header first.)"""
        before: list[list[int]] = [[] for _ in self.op]
        for k, successors in enumerate(self.after):
            for successor in successors:
                before[successor].append(k)
        loops: dict[int, set[int]] = {}
        for latch, successors in enumerate(self.after):
            for header in successors:
                # The last instruction of a kernel is an endless jump to itself, which nothing reaches.
                if header < latch:
                    body, stack = loops.setdefault(header, {header}), [latch]
                    while stack:
                        k = stack.pop()
                        if k not in body:
                            body.add(k)
                            stack += before[k]
        return loops

    def outermost_loop(self) -> tuple[int, set[int]]:
        """Header and body of the loop around all others: over diagonals, or over rounds of a walk."""
        return max(self.loops.items(), key=lambda loop: len(loop[1]))

    def innermost_loops(self) -> list[set[int]]:
        return [
            body
            for header, body in self.loops.items()
            if not any(other != header and other in body for other in self.loops)
        ]
