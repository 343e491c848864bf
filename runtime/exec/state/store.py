"""Memory that outlives runs: arrays, and what says where the values of variables lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from circlet.runtime.exec.memory import allocate, retype
from circlet.runtime.ir.types import ALIGNMENT, Array, Shape

NOW, BEFORE, CHANGED = range(3)
"""The words of a variable: the address of what holds its value, in one of its cells, 0 if none does; what that was
before the run; and the number of the last run that wrote over a part of it there and keeps what that was."""
_ROW = ALIGNMENT // np.dtype(np.int64).itemsize
"""The words of a cache line, which each variable has for itself."""
_ROWS = 32
"""How many variables share a block, so that one copy keeps their words: a choice."""
_BLOCK = 1 << 14
"""Bytes of which small arrays are parts, so that few copies keep them all."""


class _Block:
    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.filled = memory[:0]
        """The part that is in use."""


class Store:
    """Hands out arrays that stay where they are, to one thread at a time; what all of them hold can be kept and brought
    back meanwhile."""

    def __init__(self) -> None:
        self._arrays: list[tuple[Array, int]] = []
        """With what each is full of at first."""
        self._blocks: list[_Block] = []
        self._copies: list[Callable[[], Array]] = []
        """What copies the part of each block that is in use."""

    def allocate(self, shape: Shape, dtype: np.dtype[np.generic], value: int = 0) -> Array:
        """An array that begins on a cache line of its own and is full of a value."""
        size = -(-max(prod(shape) * dtype.itemsize, 1) // ALIGNMENT) * ALIGNMENT
        if not self._blocks or len(self._blocks[-1].filled) + size > len(self._blocks[-1].memory):
            memory = allocate((max(size, _BLOCK),), np.dtype(np.uint8))
            self._blocks.append(_Block(memory))
            self._copies.append(memory[:0].copy)
        block = self._blocks[-1]
        begin = len(block.filled)
        # Sliced twice: numpy lets an empty slice begin where the block does, and addresses tell arrays apart.
        array = retype(block.memory[begin:][:prod(shape) * dtype.itemsize], shape, dtype)
        array.fill(value)
        block.filled = block.memory[:begin + size]
        self._copies[-1] = block.filled.copy
        self._arrays.append((array, value))
        return array

    def content(self) -> Sequence[Array]:
        """A copy of what all arrays hold."""
        return [copy() for copy in self._copies]

    def restore(self, content: Sequence[Array]) -> None:
        """Goes back to an earlier content; arrays handed out since become what they were at first."""
        for array, value in self._arrays:
            array.fill(value)
        for block, kept in zip(self._blocks, content, strict=False):
            block.memory[:len(kept)] = kept


class Words:
    """Hands out the words of variables, to one thread at a time; they stay where they are, and are zero at first."""

    def __init__(self) -> None:
        self._blocks: list[Array] = []
        self._columns: list[tuple[Array, Array]] = []
        """Of each block, all words `NOW` and all words `BEFORE`."""
        self._free = 0
        """How many rows of the last block are not in use."""

    def take(self) -> Array:
        """Words for one more variable."""
        if not self._free:
            block = allocate((_ROWS, _ROW), np.dtype(np.int64))
            block.fill(0)
            self._blocks.append(block)
            self._columns.append((block[:, NOW], block[:, BEFORE]))
            self._free = _ROWS
        self._free -= 1
        found: Array = self._blocks[-1][_ROWS - 1 - self._free, :CHANGED + 1]
        return found

    def begin(self) -> None:
        """From here on what is, is what was before the run."""
        for now, before in self._columns:
            before[...] = now

    def roll_back(self) -> None:
        """What was before the run, is; words handed out since are zero."""
        for now, before in self._columns:
            now[...] = before

    def content(self) -> Sequence[Array]:
        """A copy of all words."""
        return [block.copy() for block in self._blocks]

    def restore(self, content: Sequence[Array]) -> None:
        """Goes back to an earlier content; words handed out since become zero."""
        for block in self._blocks[len(content):]:
            block.fill(0)
        for block, kept in zip(self._blocks, content, strict=False):
            block[...] = kept

    def reset(self) -> None:
        """Says of all variables that nothing holds their values."""
        for now, _ in self._columns:
            now.fill(0)
