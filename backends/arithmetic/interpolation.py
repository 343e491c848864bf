"""Which elements of an axis each element of a resized one is made of, and with which weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.types import Array
from circlet.runtime.ops.resize import Resize
from circlet.runtime.records import dataclass

FRACTION_BITS = 10
"""Of the positions and weights with which signed integers are interpolated, as in TFLite's `ResizeBilinearInteger`."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Along one axis, the two source elements of each output element and their weights."""

    lower: npt.NDArray[np.intp]
    upper: npt.NDArray[np.intp]
    lower_weights: Array
    upper_weights: Array


def _scale(op: Resize, length: int, count: int) -> np.float32:
    """The distance in the source between neighbours in the output."""
    corners = op.align_corners and count > 1
    scale: np.float32 = np.float32(length - corners) / np.float32(count - corners)
    return scale


def nearest(op: Resize, length: int, count: int) -> npt.NDArray[np.intp]:
    """The element of an axis of `length` that each of `count` resized ones takes, intp (count,): TFLite's
    `GetNearestNeighbor`, whose products and sums are of float32."""
    half = np.float32(0.5 if op.half_pixel_centers else 0)
    position = (np.arange(count, dtype=np.float32) + half) * _scale(op, length, count)
    nearest: Array = np.floor(position.astype(np.float64) + 0.5) if op.align_corners else np.floor(position)
    return nearest.clip(0, length - 1).astype(np.intp)


def neighbours(op: Resize, length: int, count: int) -> Neighbours:
    """The two elements of an axis of `length` that each of `count` resized ones is made of, with float32 weights:
    TFLite's `ComputeInterpolationValues`."""
    half = np.float32(0.5 if op.half_pixel_centers else 0)
    position = (np.arange(count, dtype=np.float32) + half) * _scale(op, length, count) - half
    lower = np.maximum(np.floor(position), 0).astype(np.intp)
    upper = np.minimum(np.ceil(position), length - 1).astype(np.intp)
    weight = position - lower.astype(np.float32)
    return Neighbours(_inside(lower, length), upper, 1 - weight, weight)


def fixed_point_neighbours(op: Resize, length: int, count: int) -> Neighbours:
    """`neighbours` with weights of `FRACTION_BITS` fraction bits, int64: TFLite's
    `ComputeInterpolationValuesInteger`."""
    one = 1 << FRACTION_BITS
    corners = int(op.align_corners and count > 1)
    scale = (one * (length - corners) + (count - corners) // 2) // (count - corners)
    position = np.arange(count, dtype=np.int64) * scale
    if op.half_pixel_centers:
        position += scale // 2 - one // 2
    lower = np.maximum(position // one, 0).astype(np.intp)
    upper = np.minimum(-(-position // one), length - 1).astype(np.intp)
    weight = position - one * lower
    return Neighbours(_inside(lower, length), upper, one - weight, weight)


def _inside(lower: npt.NDArray[np.intp], length: int) -> npt.NDArray[np.intp]:
    """Where a scale that is rounded up leads beyond the last element, that one, where TFLite reads what follows."""
    return np.minimum(lower, length - 1)
