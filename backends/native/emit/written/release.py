"""Drops instructions that nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir


def release(blocks: Iterable[ir.Block]) -> None:
    """Drops the instructions of blocks, which refer to each other in circles, which to find takes Python long."""
    for block in blocks:
        for each in block.instructions:
            if isinstance(each, ir.PhiInstr):
                each.incomings.clear()
        block.instructions.clear()
        block.terminator = None
