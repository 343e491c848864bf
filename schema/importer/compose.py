"""What rules build layers from: small pieces of graphs, computed now where they meet constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import TypeAlias

import numpy as np

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import MOST_DIMENSIONS, DType, Shape
from circlet.runtime.ops import comparison, elementwise, index, layout, quantize, reduce, shape, unary
from circlet.runtime.ops.operands import normalize_axis
from circlet.schema.constants import MOST_MADE
from circlet.schema.importer.graph import Graph, Value, constant

MOST_WIDENED = 1 << 12
"""Bytes that are made float32 when a model is read: a choice."""
Function: TypeAlias = Callable[[Value], Value]


def expect_few(elements: int) -> None:
    """Refuses to make a constant with so many elements that a small file could fill the memory.

    Raises:
        UnsupportedError: it has.
    """
    if elements > MOST_MADE:
        raise UnsupportedError(f"a table of {elements} elements (at most {MOST_MADE})")


def number(value: float, dtype: DType) -> Value:
    """A scalar constant."""
    return constant(np.array(value, dtype.numpy), dtype)


def like(value: float, x: Value, shape: Shape = ()) -> Value:
    """A constant of the element type of another value.

    Raises:
        UnsupportedError: it has so many elements that a small file could fill the memory.
    """
    expect_few(prod(shape))
    return constant(np.full(shape, value, x.dtype.numpy), x.dtype)


def integers(values: Sequence[int], dtype: DType = DType.INT64) -> Value:
    """A constant of rank 1."""
    return constant(np.array(values, dtype.numpy).reshape(-1))


def axes_of(axes: Sequence[int]) -> Value:
    """Axes as operators take them."""
    return integers(axes, DType.INT32)


def rank_of(x: Value) -> int:
    """The rank of a value.

    Raises:
        UnsupportedError: only a run can tell it.
    """
    if x.rank is None:
        raise UnsupportedError(f"a value whose rank only a run tells: {x.name!r}")
    return x.rank


def elements(x: Value) -> int | None:
    """The number of elements where it is known."""
    return prod(x.shape) if x.shape is not None and x.is_static else None


def axis_of(x: Value, axis: int) -> int:
    """An axis counted from the front.

    Raises:
        ShapeError: there is no such axis.
        UnsupportedError: it counts from the end, and only a run tells the rank.
    """
    if x.rank is None and 0 <= axis < MOST_DIMENSIONS:
        return axis
    return normalize_axis(axis, rank_of(x))


def cast(g: Graph, x: Value, dtype: DType) -> Value:
    """The value in another element type."""
    if x.dtype is dtype:
        return x
    if x.data is not None and dtype.numpy.kind in "biuf" and dtype is not DType.BFLOAT16:
        if x.dtype is DType.BFLOAT16:
            wide = (x.data.astype(np.uint32) << 16).view(np.float32)
            return cast(g, constant(wide, name=x.name), dtype)
        if x.data.dtype.kind in "bui" or (x.data.dtype.kind == "f" and dtype.numpy.kind == "f"):
            return constant(x.data.astype(dtype.numpy), dtype, x.name)
    return g.apply(quantize.Cast(in_data_type=x.dtype, out_data_type=dtype), x, type=dtype)


def widened(g: Graph, x: Value) -> Value:
    """Integers as float32; many constant ones stay what they are, so that products may read them."""
    if x.data is not None and x.data.size > MOST_WIDENED and x.dtype in (DType.INT8, DType.UINT8):
        return g.apply(quantize.Cast(in_data_type=x.dtype, out_data_type=DType.FLOAT32), x, type=DType.FLOAT32)
    return cast(g, x, DType.FLOAT32)


def in_float32(g: Graph, function: Callable[..., Value], *inputs: Value) -> Value:
    """A function that has rules for float32 only, of half-precision values too."""
    if inputs[0].dtype is not DType.FLOAT16:
        return function(*inputs)
    return cast(g, function(*(cast(g, each, DType.FLOAT32) for each in inputs)), DType.FLOAT16)


def transpose(g: Graph, x: Value, permutation: Sequence[int]) -> Value:
    """The value whose axis k is axis `permutation[k]` of the given one."""
    if list(permutation) == list(range(len(permutation))):
        return x
    if x.data is None:
        return g.apply(layout.Transpose(), x, axes_of(permutation))
    known, key = g.program.transposed, (x, tuple(permutation))
    if key not in known:
        known[key] = constant(np.ascontiguousarray(x.data.transpose(permutation)), x.dtype, x.name)
    return known[key]


def move_axis(g: Graph, x: Value, source: int, target: int) -> Value:
    """The value with one axis, counted from the front, at another place."""
    order = list(range(rank_of(x)))
    order.insert(target, order.pop(source))
    return transpose(g, x, order)


def axis_last(g: Graph, x: Value, axis: int, rank: int) -> tuple[Value, Sequence[int]]:
    """The value with an axis moved to the end, and the permutation that moves it back."""
    order = [*(each for each in range(rank) if each != axis), axis]
    return transpose(g, x, order), np.argsort(order).tolist()


def channels_last(g: Graph, x: Value, rank: int | None = None) -> Value:
    """(n, c, spatial...) as (n, spatial..., c); where the value's rank is not known it is given."""
    rank = rank or rank_of(x)
    return transpose(g, x, (0, *range(2, rank), 1))


def channels_first(g: Graph, x: Value, rank: int | None = None) -> Value:
    """(n, spatial..., c) as (n, c, spatial...); where the value's rank is not known it is given."""
    rank = rank or rank_of(x)
    return transpose(g, x, (0, rank - 1, *range(1, rank - 1)))


def reshape(g: Graph, x: Value, target: Sequence[int]) -> Value:
    """The elements in a shape, of which one size may be -1."""
    if x.shape == tuple(target) and target.count(-1) <= 1:
        return x
    if x.data is not None and x.data.size and not x.data.dtype.hasobject:
        # Where there are more elements or fewer, the operator says so if it is ever run.
        with suppress(ValueError):
            return constant(x.data.reshape(target), x.dtype, x.name)
    return g.apply(shape.Reshape(), x, integers(target))


def reshape_to(g: Graph, x: Value, target: Value) -> Value:
    """The elements in a shape that is a value."""
    return g.apply(shape.Reshape(), x, target) if target.data is None else reshape(g, x, target.data.tolist())


def unsqueeze(g: Graph, x: Value, axes: Sequence[int]) -> Value:
    """The value with axes of size 1 inserted, which the result counts so.

    Axes count from the end where negative; then they all do, or the rank of the value is known.

    Raises:
        ShapeError: the result has no such axis.
    """
    found = x.shape
    if found is not None:
        axes = sorted(normalize_axis(axis, len(found) + len(axes)) for axis in axes)
    if found is not None and -1 not in found:
        target = list(found)
        for axis in axes:
            target.insert(axis, 1)
        return reshape(g, x, target)
    for axis in sorted(axes, key=lambda axis: axis if axis >= 0 else -axis):
        x = g.apply(shape.ExpandDims(), x, number(axis, DType.INT32))
    return x


def trailing(g: Graph, x: Value, count: int) -> Value:
    """The value with so many axes of size 1 behind its own."""
    return unsqueeze(g, x, [-1 - k for k in range(count)])


def squeeze(g: Graph, x: Value, axes: Sequence[int]) -> Value:
    """The value without axes of size 1."""
    if not axes:
        return x
    if x.data is not None:
        return constant(x.data.squeeze(tuple(axes)), x.dtype, x.name)
    return g.apply(shape.Squeeze(squeeze_dims=tuple(axes)), x)


def shape_of(g: Graph, x: Value, dtype: DType = DType.INT64) -> Value:
    """The shape as a vector."""
    if x.shape is not None and x.is_static:
        return integers(x.shape, dtype)
    return g.once(shape.ShapeOf(out_type=dtype), x)


def dimension(g: Graph, x: Value, axis: int) -> Value:
    """The size of one axis as int64 of shape (1,)."""
    if x.shape is not None and x.shape[normalize_axis(axis, len(x.shape))] >= 0:
        return integers([x.shape[axis]])
    return part_of(g, shape_of(g, x), axis, axis + 1 if axis != -1 else None)


def dims(g: Graph, x: Value, first: int, last: int) -> Value:
    """Dimensions `first` up to but without `last` of the shape, as int64."""
    if x.shape is not None and -1 not in x.shape[first:last]:
        return integers(x.shape[first:last])
    return gather(g, shape_of(g, x), integers(range(first, last)), 0)


def part_of(g: Graph, vector: Value, start: int | None, stop: int | None) -> Value:
    """A part of a vector, by Python's rule."""
    if vector.data is not None:
        return constant(vector.data[start:stop])
    op = layout.StridedSlice(begin_mask=int(start is None), end_mask=int(stop is None))
    return g.apply(op, vector, *(integers([each]) for each in (start or 0, stop or 0, 1)))


def part(g: Graph, x: Value, rank: int, axis: int, first: int, last: int) -> Value:
    """The elements `first` up to but without `last` of an axis."""
    if x.data is not None:
        return constant(x.data[(slice(None),) * axis + (slice(first, last),)], x.dtype, x.name)
    begin, size = ([value if each == axis else other for each in range(rank)]
                   for value, other in ((first, 0), (last - first, -1)))
    return g.apply(layout.Slice(), x, axes_of(begin), axes_of(size))


def cut(g: Graph, x: Value, rank: int, axis: int, before: int, after: int) -> Value:
    """The value without the first and last elements of an axis."""
    only = 1 << axis
    full = (1 << rank) - 1
    bounds = (integers([bound if each == axis else 0 for each in range(rank)]) for bound in (before, -after))
    op = layout.StridedSlice(begin_mask=full & ~only, end_mask=full if not after else full & ~only)
    return g.apply(op, x, *bounds, integers([1] * rank))


def gather(g: Graph, x: Value, indices: Value, axis: int) -> Value:
    """The slices of a value along an axis."""
    if x.data is not None and indices.data is not None:
        return constant(np.take(x.data, indices.data, axis), x.dtype, x.name)
    return g.apply(index.Gather(axis=axis), x, indices)


def concatenate(g: Graph, values: Sequence[Value], axis: int = 0) -> Value:
    """Values joined along an axis.

    Raises:
        ModelError: there are none.
    """
    if not values:
        raise ModelError("input 0 is required and absent")
    if len(values) == 1:
        return values[0]
    known = [each.data for each in values if each.data is not None]
    if len(known) == len(values):
        # Where they do not fit each other, the operator says so if it is ever run.
        with suppress(ValueError):
            return constant(np.concatenate(known, axis), values[0].dtype)
    return g.apply(layout.Concatenation(axis=axis), *values)


def broadcast_shape(g: Graph, values: Sequence[Value]) -> Value:
    """The shape that values broadcast to, as int64."""
    shapes = [each.shape for each in values if each.shape is not None and each.is_static]
    if len(shapes) == len(values):
        # Where they do not broadcast, the operator says so if it is ever run.
        with suppress(ValueError):
            return integers(np.broadcast_shapes(*shapes))
    result = shape_of(g, values[0])
    for each in values[1:]:
        result = g.apply(shape.BroadcastArgs(), result, shape_of(g, each))
    return result


def broadcast_to(g: Graph, x: Value, target: Value) -> Value:
    """The value repeated until it has the shape that a vector gives."""
    if target.data is not None and x.shape == tuple(target.data.tolist()):
        return x
    if target.data is not None and x.data is not None and x.data.size == target.data.prod() == 1:
        return reshape(g, x, target.data.tolist())
    return g.apply(shape.BroadcastTo(), x, target)


def aligned(g: Graph, op: Op, *inputs: Value) -> Value:
    """Applies an operator that wants its inputs to have one shape to inputs that broadcast."""
    if len({each.shape for each in inputs}) > 1 or not all(each.is_static for each in inputs):
        target = broadcast_shape(g, inputs)
        return g.apply(op, *(broadcast_to(g, each, target) for each in inputs))
    return g.apply(op, *inputs)


def fill(g: Graph, target: Value, number: Value) -> Value:
    """A tensor of the shape that a vector gives, each element the given scalar."""
    return g.apply(shape.Fill(), target, number)


def counted(g: Graph, stop: Value) -> Value:
    """The numbers from 0 up to but without a scalar, in its type."""
    return g.apply(shape.Range(), number(0, stop.dtype), stop, number(1, stop.dtype))


def along(g: Graph, rows: Value, axis: int) -> Value:
    """For each row of indices, which it is along an axis, (..., 1)."""
    rank = rank_of(rows)
    target = concatenate(g, [dims(g, rows, 0, rank - 1), integers([1])])
    places = cast(g, counted(g, reshape(g, dimension(g, rows, axis), [])), rows.dtype)
    return broadcast_to(g, reshape(g, places, [-1, *[1] * (rank - 1 - axis)]), target)


def total(g: Graph, x: Value, axes: Sequence[int], keep: bool = True) -> Value:
    """The sum over axes."""
    return in_float32(g, lambda y: g.apply(reduce.Sum(keep_dims=keep), y, axes_of(axes)), x)


def mean(g: Graph, x: Value, axes: Sequence[int], keep: bool = True) -> Value:
    """The mean over axes."""
    return in_float32(g, lambda y: g.apply(reduce.Mean(keep_dims=keep), y, axes_of(axes)), x)


def binary(op: type[Op]) -> Callable[[Graph, Value, Value], Value]:
    """A function that applies an operator without options to two values."""
    return lambda g, a, b: g.apply(op(), a, b)


def function(op: type[Op]) -> Callable[[Graph, Value], Value]:
    """A function that applies an operator without options to a value."""
    return lambda g, x: g.apply(op(), x)


add, subtract = binary(elementwise.Add), binary(elementwise.Sub)
multiply, divide = binary(elementwise.Mul), binary(elementwise.Div)
maximum, minimum = binary(elementwise.Maximum), binary(elementwise.Minimum)
less, greater, equal = binary(comparison.Less), binary(comparison.Greater), binary(comparison.Equal)
exp, log, square, sqrt = (function(op) for op in (unary.Exp, unary.Log, unary.Square, unary.Sqrt))
absolute, floor, negative = (function(op) for op in (unary.Abs, unary.Floor, unary.Neg))
sign, tanh, sigmoid = (function(op) for op in (unary.Sign, unary.Tanh, unary.Logistic))


def scale(g: Graph, x: Value, factor: float) -> Value:
    """The value times a number."""
    return x if factor == 1 else multiply(g, x, like(factor, x))


def shift(g: Graph, x: Value, amount: float) -> Value:
    """The value plus a number."""
    return x if amount == 0 else add(g, x, like(amount, x))


def rounded(g: Graph, x: Value) -> Value:
    """The nearest whole numbers, away from zero where two are; half is not added, which would round before."""
    size = absolute(g, x)
    whole = floor(g, size)
    stays = less(g, subtract(g, size, whole), like(0.5, x))
    return multiply(g, sign(g, x), select(g, stays, whole, shift(g, whole, 1)))


def floor_divided(g: Graph, x: Value, by: int) -> Value:
    """The value by a number, rounded down."""
    return x if by == 1 else g.apply(elementwise.FloorDiv(), x, like(by, x))


def select(g: Graph, condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b."""
    return g.apply(comparison.SelectV2(), condition, a, b)


def clip(g: Graph, x: Value, low: float, high: float) -> Value:
    """The value clamped to finite bounds; NaN stays."""
    return minimum(g, like(high, x), maximum(g, like(low, x), x))


def limited(g: Graph, places: Value, length: Value) -> Value:
    """The nearest positions on an axis of a length."""
    return minimum(g, maximum(g, places, like(0, places)), shift(g, length, -1))


def log_plus_one(g: Graph, x: Value) -> Value:
    """log(1 + x) of values above -1, exact to the last bits where x is small."""
    above = shift(g, x, 1)
    gained = subtract(g, above, like(1, x))
    is_lost = equal(g, gained, like(0, x))
    quotient = divide(g, multiply(g, log(g, above), x), select(g, is_lost, like(1, x), gained))
    return select(g, is_lost, x, quotient)
