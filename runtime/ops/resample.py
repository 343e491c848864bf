"""Resizing along any axes, as ONNX defines it; no flatbuffer format has the operator."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import floor, inf
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from circlet.runtime.ir.length import is_length, is_open
from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, Unknown, between
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.operands import integer, reaches
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from fractions import Fraction


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


_LARGEST_DIVISOR = 1000
"""Of factors that are taken for fractions; a choice."""
_EXACT = 1 << 23
"""Up to which product of a length and a numerator rounding reaches no integer that the fraction does not."""


def fraction_of(factor: float) -> Fraction | None:
    """The fraction of which any length has the product, rounded down, that float32 gives for a factor; None where there
    is none of a small divisor. A factor a little less than the fraction is one if the product still is rounded up, as
    0.7 is: 10 * 0.7 is 7."""
    from fractions import Fraction  # takes a while to import

    found = Fraction(factor).limit_denominator(_LARGEST_DIVISOR)
    is_near = found > 0 and np.float32(float(found)) == factor and (found - Fraction(factor)) * (1 << 25) <= found
    return found if is_near else None


def _fits(length: int, given: float) -> bool:
    """Whether an axis can get a size, or the one that a factor gives: nothing becomes nothing, as of no images."""
    is_size = not isinstance(given, float)
    if length >= 1:
        return given >= 1 if is_size else 0 < given < inf
    return length == 0 and (given == 0 if is_size else 0 < given < inf)


def scaled(length: int, factor: float) -> int:
    """A length times a factor, rounded down, as float32 computes it; it may be open.

    Raises:
        Unknown: of an open length, which does not follow from it.
    """
    if not is_length(length):
        return floor(float(np.float32(length) * np.float32(factor)))
    found = fraction_of(factor)
    if found is None or not reaches(_EXACT - length * found.numerator, 0):
        raise Unknown
    return length * found.numerator // found.denominator


@dataclass(frozen=True)
class Resample(Op):
    """Input 0 resized along `axes` by the factors (floats) or to the sizes (integers) in input 1.

    Input 2, for TF_CROP_AND_RESIZE, holds where the part of each axis that is resized begins, then where it ends, as
    parts of the axis. Input 3 holds factors, float32, that sizes were computed by: they say where elements lie, instead
    of the quotients of sizes.
    """

    name: ClassVar[str] = "RESAMPLE"
    inputs: ClassVar[Count] = between(2, 4)
    optional: ClassVar[frozenset[int]] = frozenset({2, 3})
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
    keeps: bool = False
    """An axis that gets no other size stays as it is, wherever the coordinates say that its elements lie."""

    @property
    def is_single(self) -> bool:
        """Whether places are those that float32 tells where a factor is given: those of nearest elements are, as 1 by
        float32(1 / 3) is 3 there, and less otherwise."""
        return self.interpolation is Interpolation.NEAREST and self.coordinates is not Coordinates.TF_CROP_AND_RESIZE

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        shape = list(args[0].shape)
        if args[1].shape != (len(self.axes),):
            raise ShapeError(f"input 1: expected one number for each of the axes {self.axes}, found shape "
                             f"{args[1].shape}")
        region, factors = args.get(2), args.get(3)
        if region is not None and region.shape != (2 * len(self.axes),):
            raise ShapeError(f"input 2: expected two numbers for each of the axes {self.axes}, found shape "
                             f"{region.shape}")
        if factors is not None and factors.shape != args[1].shape:
            raise ShapeError(f"input 3: expected one number for each of the axes {self.axes}, found shape "
                             f"{factors.shape}")
        if any(not 0 <= axis < len(shape) for axis in self.axes) or len({*self.axes}) < len(self.axes):
            raise ShapeError(f"axes: expected axes of {args[0].shape}, each once, found {self.axes}")
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
            return [scaled(length, each) for length, each in zip(lengths, given, strict=True)]
        if self.aspect is not Aspect.STRETCH:
            raise Unknown
        if not all(map(_fits, lengths, given)):
            raise ShapeError(f"cannot resize axes of sizes {lengths} to {list(given)}")
        return [integer(each) for each in given]

    def extents(self, shape: Shape, given: Sequence[float], factors: Sequence[float] | None = None
                ) -> list[tuple[int, float]]:
        """For each of the axes the size of the result and the factor."""
        lengths = [shape[axis] for axis in self.axes]
        if not all(map(_fits, lengths, given)):
            raise ShapeError(f"cannot resize axes of sizes {lengths} by or to {list(given)}")
        if any(isinstance(each, float) for each in given):
            return [(scaled(length, factor), factor) for length, factor in zip(lengths, given, strict=True)]
        quotients = [size / length if length else 1.0 for length, size in zip(lengths, given, strict=True)]
        if self.aspect is Aspect.STRETCH:
            return list(zip(map(int, given), factors or quotients, strict=True))
        factor = (min if self.aspect is Aspect.NOT_LARGER else max)(quotients)
        return [(floor(length * factor + 0.5), factor) for length in lengths]
