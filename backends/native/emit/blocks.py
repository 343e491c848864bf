"""Memory for arrays that are needed together, such as packed weights."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.runtime.exec.memory import allocate, retype
from circlet.runtime.ir.types import ALIGNMENT, Array, Shape

_SMALLEST = 1 << 16
"""Bytes of the first block: a choice, so that a small model does not reserve more than it packs; any from a page to a
megabyte does."""
_LARGEST = 1 << 24
"""Bytes of a block at the most, unless one array is larger: several times the 4 MB from which on numpy asks for large
pages, and the most that the last block wastes."""


class Blocks:
    """Hands out parts of blocks, each as large as all before it: numpy asks for large pages for large arrays, and code
    that reads many weights then need not wait for addresses to be translated."""

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0
        self._total = _SMALLEST

    def allocate(self, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
        """An array that begins on a cache line."""
        size = -(-prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
        if self._used + size > len(self._block):
            self._block = allocate((max(size, min(self._total, _LARGEST)),), np.dtype(np.uint8))
            self._total += len(self._block)
            self._used = 0
        part = self._block[self._used:self._used + prod(shape) * dtype.itemsize]
        self._used += size
        return retype(part, shape, dtype)
