"""Allocates and retypes the buffers that frames are bound to."""

from __future__ import annotations

import os
from functools import lru_cache
from math import prod

import numpy as np

from circlet.runtime.errors import LimitError
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.passes.plan_memory import ALIGNMENT


@lru_cache(1)
def physical_memory() -> int:
    """The bytes of memory that this machine has; unbounded where it does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def expect_room(shape: Shape, dtype: np.dtype[np.generic]) -> int:
    """The bytes that an array takes.

    Raises:
        LimitError: the machine has less memory than that.
    """
    size = prod(shape) * dtype.itemsize
    if size > physical_memory():
        raise LimitError(f"a buffer of shape {shape} needs {size} bytes, more than this machine has")
    return size


def allocate(shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """An array that begins on a cache line; strings start empty.

    Raises:
        LimitError: the machine has less memory than that.
    """
    size = expect_room(shape, dtype)
    if dtype.hasobject:
        return np.full(shape, b"", dtype)
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return retype(raw[start:start + size], shape, dtype)


def retype(array: Array, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """The same memory seen with another shape and element type."""
    flat = array.reshape(-1)
    return (flat if flat.dtype == dtype else flat.view(dtype)).reshape(shape)
