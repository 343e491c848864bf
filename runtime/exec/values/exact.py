"""Whether values are the same in another element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.runtime.ir.types import Array

_WIDE = {("float", "bfloat"): np.float32, ("int",): np.int8, ("uint",): np.uint8}
"""What holds all numbers of the types of `ml_dtypes` whose names start so."""


def plain(array: Array) -> Array | None:
    """The numbers of an array in a type of numpy's own that holds them all; None if it has no numbers.

    Integers and floats of `ml_dtypes` become int8, uint8 and float32.
    """
    name = array.dtype.name
    if array.dtype.type.__module__ != "ml_dtypes":
        return array if array.dtype.kind in "biufc" else None
    return next((array.astype(wide) for starts, wide in _WIDE.items() if name.startswith(starts)), None)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether a type, of numpy or of `ml_dtypes`, holds whole numbers alone."""
    found = plain(np.empty(0, dtype))
    return found is not None and found.dtype.kind in "iu"


def convert(source: Array, wanted: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Numbers in another element type.

    Args:
        source: as `plain` gives it.
        wanted: any type of numbers, of numpy or of `ml_dtypes`; booleans are none.

    Returns:
        The numbers of type `wanted`; for each whether it is the same number, NaN being equal to NaN; and for each
        whether it is finite in both types.
    """
    if source.dtype.kind == "c" and wanted.kind != "c":
        made, same, finite = convert(source.real, wanted)
        return made, same & (source.imag == 0), finite & (source.imag == 0)
    if source.dtype.kind != "c" and wanted.kind == "c":
        made, same, finite = convert(source, np.dtype(f"f{wanted.itemsize // 2}"))
        return made.astype(wanted), same, finite
    made = source.astype(wanted)
    back = plain(made)
    assert back is not None
    return made, _same(source, back), np.isfinite(source) & np.isfinite(back)


def _same(one: Array, other: Array) -> Array:
    """Whether numbers of two types, both complex or both real, are the same."""
    same: Array
    if one.dtype.kind in "iu" and other.dtype.kind not in "iu":
        one, other = other, one
    if one.dtype.kind not in "iu" and other.dtype.kind in "iu":
        is_whole = _within(one, other.dtype) & (np.trunc(one) == one)
        same = is_whole & (np.where(is_whole, one, 0).astype(other.dtype) == other)
    else:
        same = (one == other) | ((one != one) & (other != other))  # NaN alone differs from itself
    return same


def _within(floats: Array, integers: np.dtype[Any]) -> Array:
    """Which floats lie between the least and the greatest integer of a type; both its ends are powers of two."""
    limits, wide = np.iinfo(integers), floats.astype(np.float64)
    within: Array = (wide >= float(limits.min)) & (wide < float(limits.max + 1))
    return within
