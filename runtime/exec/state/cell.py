"""The memory of a variable: one half holds the value, the other is written next, or keeps what was written over."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.runtime.exec.memory import allocate, retype
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.records import dataclass

BLOCK = 512
"""Bytes that are kept at a time where a part of a value is written over. With 128, 512, 2048 and 4096 a run takes 12,
9, 8 and 8 us that writes one of 25000 rows of 4000 bytes, and 12, 14, 24 and 29 us that writes 384 bytes in each of
32 places, on AVX-512."""


@dataclass(frozen=True, eq=False)
class Cell:
    """The memory for the values of a variable that have one type and shape.

    What is assigned goes to the half that did not hold the value before the run. Where a part of the value before the
    run is written over, the blocks of that part are first copied to their places in the other half.
    """

    halves: tuple[Array, Array]
    marks: Array
    """An int64 for each block: the number of the last run that wrote over it and keeps it in the other half."""
    _blocks: tuple[Array, Array]
    """The halves as (blocks, BLOCK) bytes."""

    @classmethod
    def make(cls, shape: Shape, dtype: np.dtype[np.generic]) -> Cell:
        """Memory for values of a shape and type, with anything in it.

        Raises:
            LimitError: there is not memory enough.
        """
        size = prod(shape) * dtype.itemsize
        blocks = tuple([allocate((max(-(-size // BLOCK), 1), BLOCK), np.dtype(np.uint8)) for _ in range(2)])
        first, second = (retype(each.reshape(-1)[:size], shape, dtype) for each in blocks)
        return cls((first, second), np.zeros(len(blocks[0]), np.int64), (blocks[0], blocks[1]))

    def half(self, address: int) -> int | None:
        """Which half begins at an address, if one does."""
        return next((k for k, each in enumerate(self.halves) if each.ctypes.data == address), None)

    def keep(self, half: int, begins: Array, size: int, run: int) -> None:
        """Before parts of a half are written over: keeps what is there, unless the run has done so before.

        Args:
            half: which.
            begins: the byte at which each part begins.
            size: the bytes of each.
            run: its number.
        """
        first, last = begins.reshape(-1, 1) // BLOCK, (begins.reshape(-1, 1) + (size - 1)) // BLOCK
        touched = np.unique(np.minimum(first + np.arange(size // BLOCK + 2), last))
        fresh = touched[self.marks[touched] != run]
        self._blocks[1 - half][fresh] = self._blocks[half][fresh]
        self.marks[fresh] = run

    def take_back(self, half: int, run: int) -> None:
        """Puts what a run kept of a half back."""
        kept = self.marks == run
        self._blocks[half][kept] = self._blocks[1 - half][kept]
