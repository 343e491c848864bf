"""Memory that outlives runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlet.runtime.exec.memory import allocate, retype
from circlet.runtime.ir.types import ALIGNMENT, Array, Shape
from circlet.runtime.records import dataclass

_BLOCK = 1 << 14
"""Bytes of which small arrays are parts, so that few copies keep them all."""


@dataclass(eq=False)
class _Block:
    memory: Array
    filled: Array
    """The part that is in use."""


class Store:
    """Hands out arrays that stay where they are, to one thread at a time; what all of them hold can be kept and brought
    back meanwhile."""

    def __init__(self) -> None:
        self._arrays: list[tuple[Array, int]] = []
        """With what each is full of at first."""
        self._blocks: list[_Block] = []

    def allocate(self, shape: Shape, dtype: np.dtype[np.generic], value: int = 0) -> Array:
        """An array that begins on a cache line of its own and is full of a value."""
        size = -(-max(prod(shape) * dtype.itemsize, 1) // ALIGNMENT) * ALIGNMENT
        if not self._blocks or len(self._blocks[-1].filled) + size > len(self._blocks[-1].memory):
            memory = allocate((max(size, _BLOCK),), np.dtype(np.uint8))
            self._blocks.append(_Block(memory, memory[:0]))
        block = self._blocks[-1]
        begin = len(block.filled)
        # Sliced twice: numpy lets an empty slice begin where the block does, and addresses tell arrays apart.
        array = retype(block.memory[begin:][:prod(shape) * dtype.itemsize], shape, dtype)
        array.fill(value)
        block.filled = block.memory[:begin + size]
        self._arrays.append((array, value))
        return array

    def content(self) -> Sequence[Array]:
        """A copy of what all arrays hold."""
        return [each.filled.copy() for each in self._blocks]

    def restore(self, content: Sequence[Array]) -> None:
        """Goes back to an earlier content; arrays handed out since become what they were at first."""
        for array, value in self._arrays:
            array.fill(value)
        for block, kept in zip(self._blocks, content, strict=False):
            block.memory[:len(kept)] = kept
