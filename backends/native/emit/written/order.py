"""In which order blocks of a function are reached."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir


def successors(block: ir.Block) -> list[ir.Block]:
    """Where a block goes on."""
    end = block.terminator
    if isinstance(end, ir.SwitchInstr):
        return [end.default, *(target for _, target in end.cases)]
    return [each for each in end.operands if isinstance(each, ir.Block)]


def last(blocks: Sequence[ir.Block]) -> ir.Block | None:
    """Of blocks that are all passed on each way to some place, the one that is passed last; None where that cannot be
    told, as those that lead there are not complete. Blocks that are still to be written change nothing of it: more ways
    to a block never make that one be passed which was not."""
    found = blocks[0]
    for each in blocks[1:]:
        if each.function is not found.function:
            return None
        if _is_reached(found, each):
            found = each
        elif not _is_reached(each, found):
            return None
    return found


def _is_reached(block: ir.Block, without: ir.Block) -> bool:
    """Whether there is a way to a block that does not pass another one."""
    left = [block.function.entry_basic_block]
    passed = {without, *left}
    while left:
        each = left.pop()
        if each is block:
            return True
        found = [] if each.terminator is None else [one for one in successors(each) if one not in passed]
        passed.update(found)
        left += found
    return False
