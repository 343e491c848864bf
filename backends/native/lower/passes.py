"""Tells which of LLVM's passes a function is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from llvmlite import ir

from circlet.backends.native.emit.loops import is_of_vectors
from circlet.backends.native.emit.written.order import successors
from circlet.backends.native.gemm.functions import Microkernel, VectorLoop

_WHOLE = ("llvm.memmove.", "llvm.memset.")
"""What of LLVM's writes much memory at once."""


class Passes(Enum):
    """Passes over LLVM's language, before machine code is made of it, which has passes of its own."""

    NONE = "none"
    """The code is as it is to run: it has vectors already, is unrolled, and computes nothing twice."""
    FOLDING = "folding"
    """Constants are folded: for loops that are made of vectors already, or copy memory."""
    HASTY = "hasty"
    """The same, and machine code is made soon: for loops whose time goes to what they call. With values put in
    registers and constants folded before, they took half as long again to compile, and models no less time to run."""
    ALL = "all"
    """Loops are made vectors of, and what they compute in each turn moves out of them."""


def has_loop(function: ir.Function) -> bool:
    """Whether a function of the module takes some time."""
    return isinstance(function, Microkernel) or (
        "cold" not in function.attributes and any(True for _ in _back_edges(function.blocks)))


def passes_for(function: ir.Function, takes_time: Callable[[ir.Function], bool] = has_loop) -> Passes:
    """What a function with a body is worth. A loop around others, or without any call, may take most of the time.

    Args:
        function: is complete.
        takes_time: tells of functions that it calls whether they have loops.
    """
    if isinstance(function, Microkernel):
        return Passes.NONE
    if isinstance(function, VectorLoop):
        return Passes.FOLDING
    left = [loop for loop in _innermost(function.blocks)
            if not any(map(takes_time, _called(loop))) and not _only_fills(loop)]
    if not left:
        return Passes.HASTY
    return Passes.FOLDING if all(map(_is_settled, left)) else Passes.ALL


def _is_settled(loop: set[ir.Block]) -> bool:
    """Whether there is nothing in a loop to make vectors of: it was written so, or writes memory by whole vectors, or
    by copies alone, beside a slot, such as for what it may still spend. Vectors that it only combines in registers may
    be short rows', of which each is a turn of a loop around it: without all passes sums and extremes of 2000 rows of 4
    to 13 floats took 7 to 50 % longer. Not so where a turn is a row, which reads whole vectors and hands on none."""
    if any(map(is_of_vectors, loop)):
        return True
    instructions = [each for block in loop for each in block.instructions]
    stores = [each for each in instructions if isinstance(each, ir.StoreInstr)]
    outside = [each for each in stores if not isinstance(each.operands[1], ir.AllocaInstr)]
    if any(isinstance(each.operands[0].type, ir.VectorType) for each in outside) or any(
            _calls(each, "llvm.masked.store.") for each in instructions):
        return True
    in_vectors = any(isinstance(each.operands[0].type, ir.VectorType) for each in stores)
    if not in_vectors and _takes_vectors(instructions):
        return True
    return not outside and (in_vectors or any(_calls(each, *_WHOLE) for each in instructions))


def _takes_vectors(instructions: Sequence[ir.Instruction]) -> bool:
    """Whether a turn reads whole vectors, and has none of the turn before."""
    vectors = [each for each in instructions if isinstance(each.type, ir.VectorType)]
    return any(isinstance(each, ir.LoadInstr) for each in vectors) and not any(
        isinstance(each, ir.PhiInstr) for each in vectors)


def _only_fills(loop: set[ir.Block]) -> bool:
    """Whether a loop's time goes to the C library, which fills memory: that of margins, in their rows."""
    names = [str(getattr(each.callee, "name", "")) for block in loop for each in block.instructions
             if isinstance(each, ir.CallInstr)]
    stores = any(isinstance(each, ir.StoreInstr) for block in loop for each in block.instructions)
    return bool(names) and not stores and all(each.startswith("llvm.memset.") for each in names)


def _calls(each: ir.Instruction, *names: str) -> bool:
    """Whether an instruction calls a function whose name begins so."""
    return isinstance(each, ir.CallInstr) and str(getattr(each.callee, "name", "")).startswith(names)


def _called(loop: set[ir.Block]) -> Iterator[ir.Function]:
    """The functions that a loop calls."""
    for block in loop:
        for each in block.instructions:
            if isinstance(each, ir.CallInstr) and isinstance(each.callee, ir.Function):
                yield each.callee


def _innermost(blocks: Sequence[ir.Block]) -> list[set[ir.Block]]:
    """The blocks of each loop that has no loop in it."""
    before: dict[ir.Block, list[ir.Block]] = {each: [] for each in blocks}
    for each in blocks:
        for target in successors(each):
            before[target].append(each)
    loops: dict[ir.Block, set[ir.Block]] = {}
    for latch, head in _back_edges(blocks):
        loop = loops.setdefault(head, {head})
        left = [latch]
        while left:
            each = left.pop()
            if each not in loop:
                loop.add(each)
                left += before[each]
    return [loop for head, loop in loops.items() if not any(each in loop for each in loops if each is not head)]


def _back_edges(blocks: Sequence[ir.Block]) -> Iterator[tuple[ir.Block, ir.Block]]:
    """The latch and the head of each loop: in a search by depth, what leads back to a block it has not left."""
    if not blocks:
        return
    entered, path = {blocks[0]}, {blocks[0]}
    stack = [(blocks[0], iter(successors(blocks[0])))]
    while stack:
        block, rest = stack[-1]
        target = next(rest, None)
        if target is None:
            stack.pop()
            path.discard(block)
        elif target in path:
            yield block, target
        elif target not in entered:
            entered.add(target)
            path.add(target)
            stack.append((target, iter(successors(target))))
