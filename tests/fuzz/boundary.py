"""Values at which code goes wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

SMALL = (0, 1, -1, 2, 3, 4, 5, 7, 8, -2, -3, 16, 17, 100, 127, 128, 255, 256)
LARGE = (1000, 1 << 15, (1 << 16) - 1, 1 << 20, 1 << 28, (1 << 31) - 1, -(1 << 31), 1 << 31, (1 << 32) - 1, 1 << 40,
         (1 << 63) - 1, -(1 << 63), 1 << 62)
FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, 1e30, -1e30, 1e-30, 1e-45, 3.4e38, math.inf, -math.inf, math.nan, -0.0, 0.125,
          1 / 256, 2.0**31, 2.0**63, -(2.0**31), 1e300)
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e30, -1e30, 1e-40, 0.5, -0.5, 2.0**31, -(2.0**63))
LENGTHS = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
TEXTS = ("", "x", "é", "0", "main", "a" * 300, "x\0y", "-1", "%s", "\n")


def integer(r: Random, value: int, least: int, most: int) -> int:
    """Another integer than `value`, mostly a near or a small one, within a range."""
    how = r.random()
    if how < 0.35:
        found = value + r.choice((1, -1, 1, -1, 2, -2))
    elif how < 0.8:
        found = r.choice(SMALL)
    elif how < 0.85:
        found = -value
    else:
        found = r.choice(LARGE)
    return found if least <= found <= most else r.choice((least, most, max(least, 0), max(least, min(most, 1))))


def number(r: Random, value: float) -> float:
    """Another float."""
    return r.choice((*FLOATS, value * 2, -value, value / 2, value + 1))


def values(r: Random, dtype: npt.DTypeLike, shape: Sequence[int], special: float = 0.3) -> Array:
    """An array of small numbers, and of boundary values in a share of the cases."""
    kind, random = np.dtype(dtype), np.random.default_rng(r.getrandbits(32))
    if kind.hasobject:
        found = np.empty(shape, object)
        found.reshape(-1)[:] = [r.choice((b"", b"a", b"b", b"abc", b"\xff")) for _ in range(found.size)]
        return found
    if kind.kind == "b":
        return np.asarray(random.integers(0, 2, shape), np.bool_)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        if kind.itemsize == 1 and r.random() < 0.5:
            return np.asarray(random.integers(limits.min, limits.max, shape, endpoint=True), kind)
        found = np.asarray(random.integers(max(limits.min, -4), 5, shape), kind)
        return sprinkled(r, found, special)
    if kind.kind == "c":
        real = random.standard_normal((2, *shape))
        return np.asarray(real[0] + 1j * real[1], kind)
    whole = r.random() < 0.4
    found = np.asarray(random.integers(-3, 4, shape) if whole else random.standard_normal(shape), kind)
    return sprinkled(r, found, special)


def sprinkled(r: Random, array: Array, share: float) -> Array:
    """The array with some elements at the edges of their type, in a share of the cases."""
    if r.random() >= share or not array.size or array.dtype.kind not in "iuf":
        return array
    found: Array = array.copy()
    flat = found.reshape(-1)
    for _ in range(r.choice((1, 1, 2, 4))):
        flat[r.randrange(flat.size)] = edge(r, array.dtype)
    return found


def edge(r: Random, dtype: np.dtype[Any]) -> Any:
    """A value at an edge of a type of numbers."""
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return np.float64(r.choice(SPECIAL)).astype(dtype)
        limits = np.iinfo(dtype)
        return dtype.type(r.choice((limits.min, limits.max, 0, 1, limits.max - 1, max(limits.min, -1))))
