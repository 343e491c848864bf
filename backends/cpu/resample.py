"""Numpy rule of resizing along any axes, one after the other: each element is the sum of a few, times their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.quantized import NUMBERS
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import promised
from circlet.backends.refusal import names
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.resample import Coordinates, Interpolation, Nearest, Resample
from circlet.runtime.records import dataclass, replace

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Axis:
    """An axis to be resized."""

    length: int | np.floating
    size: int | np.floating
    """Of the result."""
    factor: float | np.floating
    start: float
    end: float


_COORDINATES: dict[Coordinates, Callable[[_Axis, Numbers], Numbers]] = {
    Coordinates.HALF_PIXEL: lambda axis, x: (x + 0.5) / axis.factor - 0.5,
    Coordinates.HALF_PIXEL_SYMMETRIC: lambda axis, x: (
        axis.length / 2 * (1 - axis.size / (axis.factor * axis.length)) + (x + 0.5) / axis.factor - 0.5),
    Coordinates.PYTORCH_HALF_PIXEL: lambda axis, x: (x + 0.5) / axis.factor - 0.5 if axis.size > 1 else x * 0,
    Coordinates.ALIGN_CORNERS: lambda axis, x: (
        x * (axis.length - 1) / (axis.factor * axis.length - 1) if axis.size > 1 else x * 0),
    Coordinates.ASYMMETRIC: lambda axis, x: x / axis.factor,
    Coordinates.TF_HALF_PIXEL_FOR_NN: lambda axis, x: (x + 0.5) / axis.factor,
    Coordinates.TF_CROP_AND_RESIZE: lambda axis, x: (
        axis.start * (axis.length - 1) + x * (axis.end - axis.start) * (axis.length - 1) / (axis.size - 1)
        if axis.size > 1 else x * 0 + 0.5 * (axis.start + axis.end) * (axis.length - 1)),
}
_NEAREST: dict[Nearest, Callable[[Numbers], Numbers]] = {
    Nearest.ROUND_PREFER_FLOOR: lambda x: np.ceil(x - 0.5),
    Nearest.ROUND_PREFER_CEIL: lambda x: np.floor(x + 0.5),
    Nearest.FLOOR: np.floor,
    Nearest.CEIL: np.ceil,
}


_KEEPS = frozenset({*_COORDINATES}) - {Coordinates.TF_HALF_PIXEL_FOR_NN, Coordinates.TF_CROP_AND_RESIZE}
"""Where an axis stays as it is that is not made longer or shorter."""


def _places(op: Resample, axis: _Axis, is_scaled: bool) -> Numbers:
    """Where in the input elements lie."""
    kind = np.float32 if is_scaled and op.is_single else np.float64
    measure = replace(axis, length=kind(axis.length), size=kind(axis.size), factor=kind(axis.factor))
    found: Numbers = _COORDINATES[op.coordinates](measure, np.arange(axis.size, dtype=kind))
    return found


def _cubic(x: Numbers, a: float) -> Numbers:
    x = np.abs(x)
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _resized(op: Resample, x: Array, number: int, axis: _Axis, places: Numbers) -> Array:
    """An array with one axis, by its number, at some places. What is not near one does not count for it, an infinity
    neither."""
    if op.interpolation is Interpolation.NEAREST:
        nearest = np.clip(np.nan_to_num(_NEAREST[op.nearest](places)), 0, axis.length).astype(np.int64)
        return x.take(nearest, number, mode="clip")
    found, shares = _weights(op, axis, places)
    along = [-1 if k == number else 1 for k in range(x.ndim)]
    parts: Iterator[Array] = (x.take(np.clip(index, 0, axis.length - 1), number) * share.astype(x.dtype).reshape(along)
             for index, share in zip(found.T, shares.T, strict=True))
    return reduce(np.add, parts)


_FAR = 4
"""How far from all elements none of them counts for what is between others."""


def _weights(op: Resample, axis: _Axis, places: Numbers) -> tuple[npt.NDArray[np.int64], Numbers]:
    """The elements that each one of the result is made of, before they are moved inside, and what these count:
    (size, taps) each."""
    reach, scale = (1, 1.0) if op.interpolation is Interpolation.LINEAR else (2, 1.0)
    scale = float(min(axis.factor, scale)) if op.antialias else scale
    first = int(np.floor(-reach / scale)) + 1
    steps = np.arange(first, 2 - first)
    places = places if op.antialias else np.clip(places, -_FAR, axis.length + _FAR)
    base = np.ceil(places)[:, None] - 1
    distance = (steps - (places[:, None] - base)) * scale
    cubic = op.interpolation is Interpolation.CUBIC
    shares = _cubic(distance, op.cubic_coefficient) if cubic else np.clip(1 - np.abs(distance), 0, 1)
    found = (base + steps).astype(np.int64)
    if op.exclude_outside:
        shares = np.where((found >= 0) & (found < axis.length), shares, 0)
    if op.antialias or op.exclude_outside:
        shares = shares / shares.sum(axis=1, keepdims=True)
    return found, shares


def _refuses(call: Call) -> str | None:
    found = {each.dtype for each in call.inputs if each is not None} - NUMBERS
    return f"element type {names(found)} (supported: {names(NUMBERS)})" if found else None


@rule(Resample, accepts=_refuses)
def resample(node: Node[Resample]) -> Step:
    op, x, given, out = node.op, node.input(0), node.input(1), node.out
    region, factors, check = node.optional(2), node.optional(3), promised(node)

    def step() -> None:
        check()
        count = len(op.axes)
        bounds = [(0.0, 1.0)] * count if region is None else list(zip(region[:count], region[count:], strict=True))
        is_moved = op.interpolation is Interpolation.NEAREST
        found: Array = x if is_moved else x.astype(np.result_type(x, np.float32))
        outside = np.zeros((1,) * x.ndim, np.bool_)
        extents = op.extents(x.shape, given.tolist(), None if factors is None else factors.tolist())
        for axis, (size, factor), (start, end) in zip(op.axes, extents, bounds, strict=True):
            measure = _Axis(x.shape[axis], size, factor, float(start), float(end))
            places = _places(op, measure, given.dtype.kind == "f" or factors is not None)
            stays = size == x.shape[axis] and (op.keeps or (factor == 1.0 and op.coordinates in _KEEPS))
            if not stays:
                found = _resized(op, found, axis, measure, places)
            along = [-1 if k == axis else 1 for k in range(x.ndim)]
            outside = outside | ~((places >= 0) & (places <= measure.length - 1)).reshape(along)
        if op.coordinates is Coordinates.TF_CROP_AND_RESIZE:
            found = np.where(outside, op.extrapolation, found)
        is_rounded = out.dtype.kind != "f" and found.dtype != out.dtype
        np.copyto(out, np.rint(found) if is_rounded else found, casting="unsafe")

    return step
