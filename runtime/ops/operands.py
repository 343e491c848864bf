"""What shape rules ask of operands. Each function raises ShapeError where it finds something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import SupportsInt, cast

import numpy as np

from circlet.runtime.errors import LimitError
from circlet.runtime.ir.length import is_late, is_length, is_open, may_differ
from circlet.runtime.ir.op import Operand, ShapeError, Unknown
from circlet.runtime.ir.position import is_taken_equal, is_taken_to_reach
from circlet.runtime.ir.types import INTEGERS, MOST_DIMENSIONS, Array, DType, Shape

_MOST_ELEMENTS = 1 << 58


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """The shape that several broadcast to by numpy's rule.

    Raises:
        ShapeError: two of them differ in a dimension where neither has 1.
    """
    result: list[int] = []
    for shape in shapes:
        result[:0] = shape[:max(len(shape) - len(result), 0)]
        for axis in range(-len(shape), 0):
            size = broadcast_size(shape[axis], result[axis])
            if size is None:
                raise ShapeError(f"shapes {' and '.join(map(str, shapes))} do not broadcast")
            result[axis] = size
    return tuple(result)


def broadcast_size(one: int, other: int) -> int | None:
    """How long the axis is that two broadcast to; None where they do not. Whether an open length is 1 is asked last. Of
    two that are taken to be equal, as only a run tells, it is the one that is known before."""
    if not may_differ(one, other) or not may_differ(one, 1):
        return other
    if not may_differ(other, 1) or one == other:
        return one
    if one == 1 or other == 1:
        return other if one == 1 else one
    return agreed(one, other)


def agreed(one: int, other: int) -> int | None:
    """What two sizes are that must be equal; None where they are not."""
    if one == other:
        return one
    return (other if is_late(one) else one) if is_taken_equal(one, other) else None


def reaches(size: int, least: int) -> bool:
    """Whether a size is at least so large, as it must be."""
    return is_taken_to_reach(size, least) or size >= least


def parts(whole: int, given: Sequence[int]) -> Shape | None:
    """The sizes of the parts that an axis is cut into, of which one may be given as -1: what is left. None where they
    are not as long together. What a run subtracts from what it tells is taken not to be negative."""
    fixed = [size for size in given if may_differ(size, -1)]
    together, has_rest = sum(fixed), len(fixed) < len(given)
    if len(given) - len(fixed) > 1 or not all(reaches(size, 0) for size in fixed):
        return None
    if not (reaches(whole - together, 0) if has_rest else agreed(whole, together) is not None):
        return None
    return tuple(size if may_differ(size, -1) else whole - together for size in given)


def agreed_shape(one: Shape, other: Shape) -> Shape | None:
    """The same of two shapes."""
    found = [agreed(*pair) for pair in zip(one, other, strict=False)]
    sizes = tuple(each for each in found if each is not None)
    return sizes if len(sizes) == len(one) == len(other) else None


def replaced(shape: Shape, axis: int, size: int) -> Shape:
    """`shape` with another size of one axis."""
    return (*shape[:axis], size, *shape[axis + 1:])


def shape_value(numbers: Sequence[int] | int, dtype: np.dtype[np.generic]) -> Array:
    """Integers that follow from shapes, (n,), or one, (), as a value; of Python objects where one is a `Length`."""
    given = numbers if isinstance(numbers, Sequence) else (numbers,)
    return np.array(numbers, np.object_ if is_open(given) else dtype)


def integer(value: SupportsInt) -> int:
    """A number of numpy's as Python's; a length that is open stays one."""
    return cast(int, value) if is_length(value) else int(value)


def has_gaps(values: Array) -> bool:
    """Whether elements are None: those that only a run tells."""
    return values.dtype.hasobject and any(each is None for each in values.flat)


def typed(values: Array, dtype: DType) -> Array:
    """Numbers that shapes are computed with as values of an element type. Which of them are not 0, where that is BOOL,
    is assumed for the lengths at hand. None stays as it is.

    Raises:
        Unknown: only a run can tell.
    """
    if dtype is not DType.BOOL or has_gaps(values):
        return values
    if any(map(is_late, values.flat)):
        raise Unknown
    return np.array([bool(each) for each in values.flat], np.bool_).reshape(values.shape)


def normalize_axis(axis: int, rank: int, name: str = "axis") -> int:
    """`axis` counted from the front.

    Raises:
        ShapeError: a tensor of this rank has no such axis.
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"{name}: expected {-rank} to {rank - 1} for rank {rank}, found {axis}")
    return axis % rank


def expect_integers(operand: Operand, name: str) -> None:
    """Checks the element type of a parameter."""
    if operand.dtype not in INTEGERS:
        raise ShapeError(f"{name}: expected integers, found {operand.dtype.value}")


def expect_one(operand: Operand, name: str) -> None:
    """Checks that a parameter has exactly one element."""
    if prod(operand.shape) != 1:
        raise ShapeError(f"{name}: expected exactly one element, found shape {operand.shape}")


def scalar(operand: Operand, name: str) -> int:
    """The value of a parameter that is exactly one integer.

    Raises:
        Unknown: only a run can tell.
        ShapeError: it has several elements, or none, or elements of another type.
    """
    expect_integers(operand, name)
    expect_one(operand, name)
    return integer(operand.value.item())


def vector(operand: Operand, name: str, length: int | None = None) -> tuple[int, ...]:
    """The value of a parameter of rank 1 that holds integers.

    Raises:
        Unknown: only a run can tell.
        ShapeError: it has another rank, another length or elements of another type.
    """
    expect_integers(operand, name)
    if operand.rank != 1 or (length is not None and operand.shape[0] != length):
        expected = "rank 1" if length is None else f"shape {(length,)}"
        raise ShapeError(f"{name}: expected {expected}, found shape {operand.shape}")
    return tuple(operand.value.tolist())


def sizes(operand: Operand, name: str) -> Shape:
    """The value of a parameter of rank 1 that is a shape. What a run subtracts from what it tells is taken not to be
    negative.

    Raises:
        Unknown: only a run can tell.
        ShapeError: it has another rank, or a dimension is negative.
    """
    found = vector(operand, name)
    if not all(reaches(size, 0) for size in found):
        raise ShapeError(f"{name}: expected sizes that are not negative, found {found}")
    return found


MOST_LATE = 2
"""Axes of a tensor of which only a run tells the lengths, without a bound: there is room for `CAPACITY` elements along
each at first. A choice: three of them would take megabytes."""


def late(rank: int, computed: Callable[[int | None], int]) -> Shape:
    """A shape of which a run computes all lengths.

    Raises:
        Unknown: these are too many.
    """
    if rank > MOST_LATE:
        raise Unknown
    return tuple(computed(None) for _ in range(rank))


def sized(operand: Operand, computed: Callable[[int | None], int]) -> Shape:
    """The shape that the value of a parameter is, where only a run tells it.

    Raises:
        Unknown: the rank, too, or that value is known, and something else is not.
    """
    rank = operand.shape[0] if operand.rank == 1 else None
    if not isinstance(rank, int) or operand.known is not None:
        raise Unknown
    return late(rank, computed)


def count(operand: Operand, name: str) -> int:
    """The value of a parameter that is exactly one integer, not a negative one.

    Raises:
        Unknown: only a run can tell.
        ShapeError: it is something else.
    """
    found = scalar(operand, name)
    if found < 0:
        raise ShapeError(f"{name}: expected no negative number, found {found}")
    return found


def expect_rank(operand: Operand, rank: int, name: str) -> None:
    """Checks how many axes an operand has."""
    if operand.rank != rank:
        raise ShapeError(f"{name}: expected rank {rank}, found shape {operand.shape}")


def expect_axes(operand: Operand, what: str, axes: str) -> None:
    """Checks that an operand has the axes named, e.g. `n, h, w, c`."""
    if operand.rank != axes.count(",") + 1:
        raise ShapeError(f"{what} must have shape ({axes}), found {operand.shape}")


def expect_storable(shapes: Sequence[Shape]) -> None:
    """Raises LimitError where no array holds one of the results, ShapeError where nothing could."""
    for shape in shapes:
        if is_open(shape):
            continue
        if shape and min(shape) < 0:
            raise ShapeError(f"the result has a negative size: {shape}")
        if len(shape) > MOST_DIMENSIONS:
            raise LimitError(f"the result has {len(shape)} dimensions; arrays have at most {MOST_DIMENSIONS}")
        if prod(dim or 1 for dim in shape) > _MOST_ELEMENTS:
            raise LimitError("the result has more elements than any memory holds")
