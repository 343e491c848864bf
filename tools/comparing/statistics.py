"""How two values of one tensor differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.runtime.exec.values.exact import plain
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array

HALF = frozenset({"float16", "bfloat16"})
_BITS = {2: np.int16, 4: np.int32, 8: np.int64}


@dataclass(frozen=True)
class Tolerance:
    """What is overlooked: of floats `|found - expected| <= atol + rtol * |expected|`, of quantised integers some steps.
    All else is to be equal."""

    rtol: float | None = None
    """1e-4 by default, and 1e-2 for floats of 16 bits: a choice, beyond what other orders of summation come to."""
    atol: float | None = None
    """1e-5 by default, and 1e-3 for floats of 16 bits."""
    steps: int = 0

    def bound(self, expected: Array, element: str) -> Array:
        """The largest difference that is overlooked, for each element."""
        is_half = element in HALF
        rtol = self.rtol if self.rtol is not None else 1e-2 if is_half else 1e-4
        atol = self.atol if self.atol is not None else 1e-3 if is_half else 1e-5
        bound: Array = atol + rtol * np.abs(expected)
        return bound


@dataclass(frozen=True)
class Statistics:
    """How often and how far values of a tensor differ, over all that were compared."""

    compared: int = 0
    """Elements."""
    different: int = 0
    """Elements that are not equal; NaN is equal to NaN."""
    beyond: int = 0
    """Elements that differ by more than is overlooked."""
    non_finite: int = 0
    """Elements of which one is NaN or infinite, and the other is something else."""
    max_abs: float = 0.0
    """Of finite elements, as all that follow."""
    max_rel: float = 0.0
    """As a part of what was expected, where that is not 0."""
    sum_abs: float = 0.0
    max_ulps: int | None = None
    """Of floats: how many numbers of the type lie between the two, and one more."""
    max_steps: int | None = None
    """Of quantised integers."""
    worst: tuple[int, ...] | None = None
    """Where the two differ most; a position of NaN or infinity in the other's place before all others."""
    fault: str | None = None
    """Why they could not be compared, which counts as different."""

    @property
    def mean_abs(self) -> float:
        return self.sum_abs / self.compared if self.compared else 0.0

    @property
    def differs(self) -> bool:
        return self.fault is not None or self.beyond > 0

    def __add__(self, other: Statistics) -> Statistics:
        """Over both."""
        is_worse = (other.non_finite > 0, other.max_abs) > (self.non_finite > 0, self.max_abs)
        first = other if self.worst is None or (is_worse and other.worst is not None) else self
        return Statistics(
            self.compared + other.compared, self.different + other.different, self.beyond + other.beyond,
            self.non_finite + other.non_finite, max(self.max_abs, other.max_abs), max(self.max_rel, other.max_rel),
            self.sum_abs + other.sum_abs, _greater(self.max_ulps, other.max_ulps),
            _greater(self.max_steps, other.max_steps), first.worst, self.fault or other.fault)


def _greater(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def statistics(tensor: Tensor, found: Array, expected: Array, tolerance: Tolerance) -> Statistics:
    """Compares two values of a tensor, both as they are stored or both as callers get them."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return Statistics(fault=f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}")
    element = tensor.dtype.element
    if element is not None and element != found.dtype and element.itemsize == found.dtype.itemsize:
        found, expected = found.view(element), expected.view(element)
    one, other = plain(found), plain(expected)
    if one is None or other is None:
        different = np.array([a != b for a, b in zip(found.flat, expected.flat, strict=True)], np.bool_)
        return _exact(different.reshape(found.shape))
    if one.dtype.kind == "c":
        return _floats(_parts(one), _parts(other), tensor.dtype.value, tolerance)
    if one.dtype.kind == "f":
        ulps = None if found.dtype.itemsize not in _BITS else _ulps(found, expected)
        return replace(_floats(one, other, tensor.dtype.value, tolerance), max_ulps=ulps)
    is_quantized = tensor.quantization is not None and bool(tensor.quantization.scales)
    return _integers(one, other, tolerance.steps if is_quantized else 0, is_quantized)


def _parts(array: Array) -> Array:
    """Complex numbers as pairs."""
    return np.stack([array.real, array.imag], axis=-1)


def _exact(different: Array) -> Statistics:
    count = int(np.count_nonzero(different))
    return Statistics(different.size, count, count, worst=_first(different) if count else None)


def _integers(found: Array, expected: Array, steps: int, is_quantized: bool) -> Statistics:
    different = found != expected
    if not different.any():
        return Statistics(found.size, max_steps=0 if is_quantized else None)
    distance = _apart(*(each if each.dtype == np.uint64 else each.astype(np.int64) for each in (found, expected)))
    largest = int(distance.max())
    sizes = distance.astype(np.float64)
    relative = sizes[different] / np.maximum(np.abs(expected[different].astype(np.float64)), 1)
    return Statistics(found.size, int(np.count_nonzero(different)), int(np.count_nonzero(distance > steps)), 0,
                      float(largest), float(relative.max()), float(sizes.sum()), None,
                      largest if is_quantized else None, _first(distance == largest))


def _floats(found: Array, expected: Array, element: str, tolerance: Tolerance) -> Statistics:
    with np.errstate(all="ignore"):
        one, other = found.astype(np.float64), expected.astype(np.float64)
        equal = (one == other) | (np.isnan(one) & np.isnan(other))
        finite = np.isfinite(one) & np.isfinite(other)
        odd = ~finite & ~equal
        distance = np.where(finite, np.abs(one - other), 0.0)
        beyond = odd | (distance > tolerance.bound(np.where(finite, other, 0.0), element))
        is_scaled = finite & (other != 0)
        relative = distance[is_scaled] / np.abs(other[is_scaled])
    is_odd, worst = bool(odd.any()), None
    if not equal.all():
        worst = _first(odd if is_odd else distance == distance.max())
    return Statistics(one.size, int(np.count_nonzero(~equal)), int(np.count_nonzero(beyond)),
                      int(np.count_nonzero(odd)), float(distance.max(initial=0.0)), float(relative.max(initial=0.0)),
                      float(distance.sum()), worst=worst)


def _first(mask: Array) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(int(np.argmax(mask)), mask.shape)))


def _apart(one: Array, other: Array) -> Array:
    """The distances of integers of 64 bits, which need not fit their type."""
    greater, less = np.maximum(one, other), np.minimum(one, other)
    distance: Array = greater.view(np.uint64) - less.view(np.uint64)
    return distance


def _ulps(found: Array, expected: Array) -> int:
    """The largest distance of finite floats among all of their type, which are ordered as their bits are."""
    bits = _BITS[found.dtype.itemsize]
    one, other = (_ordered(np.ascontiguousarray(each).view(bits)) for each in (found, expected))
    finite = np.isfinite(found) & np.isfinite(expected)
    return int(_apart(one, other)[finite].max(initial=0))


def _ordered(bits: Array) -> Array:
    """Integers in the order of the floats whose bits they are; both zeros are 0."""
    wide, least = bits.astype(np.int64), int(np.iinfo(bits.dtype).min)
    ordered: Array = np.where(wide < 0, least - wide, wide)
    return ordered
