"""Resizing along any axes, as ONNX defines it; no flatbuffer format has the operator."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import floor, inf
from typing import ClassVar

from circlet.runtime.ir.length import is_open
from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, Unknown, between
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.operands import integer
from circlet.runtime.records import dataclass


class Coordinates(Enum):
    """Where an element of the result lies in the input; the values are ONNX's names."""

    HALF_PIXEL = "half_pixel"
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    ASYMMETRIC = "asymmetric"
    TF_HALF_PIXEL_FOR_NN = "tf_half_pixel_for_nn"
    TF_CROP_AND_RESIZE = "tf_crop_and_resize"


class Interpolation(Enum):
    """How an element between others is computed from them."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


class Nearest(Enum):
    """Which element is the nearest one."""

    ROUND_PREFER_FLOOR = "round_prefer_floor"
    ROUND_PREFER_CEIL = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


class Aspect(Enum):
    """What sizes mean to the ratio between the axes."""

    STRETCH = "stretch"
    NOT_LARGER = "not_larger"
    """One factor for all axes, so that none is larger than asked for."""
    NOT_SMALLER = "not_smaller"


@dataclass(frozen=True)
class Resample(Op):
    """Input 0 resized along `axes` by the factors (floats) or to the sizes (integers) in input 1.

    Input 2, for TF_CROP_AND_RESIZE, holds where the part of each axis that is resized begins, then where it ends, as
    parts of the axis.
    """

    name: ClassVar[str] = "RESAMPLE"
    inputs: ClassVar[Count] = between(2, 3)
    sizes: ClassVar[frozenset[int]] = frozenset({1})
    least_size: ClassVar[int] = 1
    axes: tuple[int, ...] = ()
    interpolation: Interpolation = Interpolation.NEAREST
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    nearest: Nearest = Nearest.ROUND_PREFER_FLOOR
    aspect: Aspect = Aspect.STRETCH
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    """Elements outside of the input have no weight; otherwise the outermost ones stand for them."""
    antialias: bool = False
    extrapolation: float = 0.0
    """The value outside of the input, for TF_CROP_AND_RESIZE."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = list(args[0].shape)
        if args[1].shape != (len(self.axes),):
            raise ShapeError(f"input 1: expected one number for each of the axes {self.axes}, found shape "
                             f"{args[1].shape}")
        if any(not 0 <= axis < len(shape) for axis in self.axes):
            raise ShapeError(f"axes: expected axes of {args[0].shape}, found {self.axes}")
        for axis, size in zip(self.axes, self._sizes(args[0].shape, args[1].value.tolist()), strict=True):
            shape[axis] = size
        return (tuple(shape),)

    def _sizes(self, shape: Shape, given: Sequence[float]) -> list[int]:
        """The size of the result for each of the axes, where lengths may be open."""
        lengths = [shape[axis] for axis in self.axes]
        if not is_open((*lengths, *given)):
            return [size for size, _ in self.extents(shape, given)]
        if any(isinstance(each, float) for each in given):
            if not all(0 < each < inf for each in given):
                raise ShapeError(f"cannot resize axes of sizes {lengths} by {list(given)}")
            ratios = [each.as_integer_ratio() for each in given]
            return [length * factor // divisor for length, (factor, divisor) in zip(lengths, ratios, strict=True)]
        if self.aspect is not Aspect.STRETCH:
            raise Unknown
        if any(each < 1 for each in (*lengths, *given)):
            raise ShapeError(f"cannot resize axes of sizes {lengths} to {list(given)}")
        return [integer(each) for each in given]

    def extents(self, shape: Shape, given: Sequence[float]) -> list[tuple[int, float]]:
        """For each of the axes the size of the result and the factor."""
        lengths = [shape[axis] for axis in self.axes]
        if not all(0 < length * each < inf for length, each in zip(lengths, given, strict=True)):
            raise ShapeError(f"cannot resize axes of sizes {lengths} by or to {list(given)}")
        if any(isinstance(each, float) for each in given):
            return [(floor(length * factor), factor) for length, factor in zip(lengths, given, strict=True)]
        factors = [size / length for length, size in zip(lengths, given, strict=True)]
        if self.aspect is Aspect.STRETCH:
            return list(zip(map(int, given), factors, strict=True))
        factor = (min if self.aspect is Aspect.NOT_LARGER else max)(factors)
        return [(floor(length * factor + 0.5), factor) for length in lengths]
