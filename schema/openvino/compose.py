"""What rules build layers from: single operators on values, folded where they meet constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import comparison, elementwise, index, layout, quantize, reduce, shape, unary
from circlet.schema.openvino.graph import Graph, Value, constant

Function: TypeAlias = Callable[[Value], Value]


def number(value: float, dtype: DType) -> Value:
    """A scalar constant."""
    return constant(np.array(value, dtype.numpy))


def like(value: float, x: Value) -> Value:
    """A scalar constant of the type of another value."""
    return number(value, x.dtype)


def integers(values: Sequence[int], dtype: DType = DType.INT64) -> Value:
    """A constant of rank 1."""
    return constant(np.array(values, dtype.numpy).reshape(-1))


def cast(g: Graph, x: Value, dtype: DType) -> Value:
    """The value in another element type."""
    if x.dtype is dtype:
        return x
    if x.dtype is DType.BFLOAT16 and x.data is not None:
        wide = (x.data.astype(np.uint32) << 16).view(np.float32)
        return cast(g, constant(wide, x.name), dtype)
    if x.data is not None and (x.data.dtype.kind != "f" or dtype.numpy.kind == "f"):
        return constant(x.data.astype(dtype.numpy), x.name)
    return g.apply(quantize.Cast(in_data_type=x.dtype, out_data_type=dtype), x, dtype=dtype)


def in_float32(g: Graph, function: Callable[..., Value], *inputs: Value) -> Value:
    """A function that has rules for float32 only, of half-precision values too."""
    if inputs[0].dtype is not DType.FLOAT16:
        return function(*inputs)
    return cast(g, function(*(cast(g, each, DType.FLOAT32) for each in inputs)), DType.FLOAT16)


def transpose(g: Graph, x: Value, permutation: Sequence[int]) -> Value:
    """The value with its axes permuted."""
    if list(permutation) == sorted(permutation):
        return x
    if x.data is not None:
        return constant(np.ascontiguousarray(x.data.transpose(permutation)), x.name)
    return g.apply(layout.Transpose(), x, integers(permutation, DType.INT32))


def axis_last(g: Graph, x: Value, axis: int, rank: int) -> tuple[Value, Sequence[int]]:
    """The value with an axis moved to the end, and the permutation that moves it back."""
    order = [*(each for each in range(rank) if each != axis), axis]
    return transpose(g, x, order), np.argsort(order).tolist()


def reshape(g: Graph, x: Value, target: Sequence[int]) -> Value:
    """The elements in a shape, of which one size may be -1."""
    if x.shape is not None and x.shape == tuple(target):
        return x
    if x.data is not None:
        return constant(x.data.reshape(tuple(target)), x.name)
    return g.apply(shape.Reshape(new_shape=tuple(target)), x, integers(target, DType.INT32))


def reshape_like(g: Graph, x: Value, target: Value) -> Value:
    """The elements in a shape that is a value."""
    if target.data is not None:
        return reshape(g, x, target.data.tolist())
    return g.apply(shape.Reshape(), x, target)


def unsqueeze(g: Graph, x: Value, *axes: int) -> Value:
    """The value with axes of size 1 inserted, one after the other."""
    for axis in axes:
        if x.data is not None:
            x = constant(np.expand_dims(x.data, axis), x.name)
        else:
            x = g.apply(shape.ExpandDims(), x, number(axis, DType.INT32))
    return x


def squeeze(g: Graph, x: Value, axes: Sequence[int]) -> Value:
    """The value without axes of size 1."""
    if not axes:
        return x
    if x.data is not None:
        return constant(x.data.squeeze(tuple(axes)), x.name)
    return g.apply(shape.Squeeze(squeeze_dims=tuple(axes)), x)


def broadcast_to(g: Graph, x: Value, target: Value) -> Value:
    """The value repeated to a shape."""
    return g.apply(shape.BroadcastTo(), x, target)


def shape_of(g: Graph, x: Value, dtype: DType = DType.INT64) -> Value:
    """The shape as a value."""
    if x.is_static and x.shape is not None:
        return integers(x.shape, dtype)
    return g.apply(shape.ShapeOf(out_type=dtype), x)


def gather(g: Graph, x: Value, indices: Value, axis: int) -> Value:
    """The slices of a value along an axis."""
    if x.data is not None and indices.data is not None:
        return constant(np.take(x.data, indices.data, axis), x.name)
    return g.apply(index.Gather(axis=axis), x, indices)


def dims(g: Graph, x: Value, first: int, last: int) -> Value:
    """Dimensions `first` up to but without `last` of a value's shape."""
    if x.shape is not None and all(dim >= 0 for dim in x.shape[first:last]):
        return integers(x.shape[first:last])
    return gather(g, shape_of(g, x), integers(range(first, last)), 0)


def concatenate(g: Graph, values: Sequence[Value], axis: int = 0) -> Value:
    """Values joined along an axis."""
    if len(values) == 1:
        return values[0]
    data: list[Array] = [each.data for each in values if each.data is not None]
    if len(data) == len(values):
        return constant(np.concatenate(data, axis))
    return g.apply(layout.Concatenation(axis=axis), *values)


def cut(g: Graph, x: Value, rank: int, axis: int, before: int, after: int) -> Value:
    """The value without the first and last elements of an axis."""
    only = 1 << axis
    full = (1 << rank) - 1
    bounds = (integers([bound if each == axis else 0 for each in range(rank)]) for bound in (before, -after))
    op = layout.StridedSlice(begin_mask=full & ~only, end_mask=full if not after else full & ~only)
    return g.apply(op, x, *bounds, integers([1] * rank))


def part(g: Graph, x: Value, rank: int, axis: int, first: int, last: int) -> Value:
    """The elements `first` up to but without `last` of an axis."""
    if x.data is not None:
        return constant(x.data[(slice(None),) * axis + (slice(first, last),)], x.name)
    begin, size = ([value if each == axis else other for each in range(rank)]
                   for value, other in ((first, 0), (last - first, -1)))
    return g.apply(layout.Slice(), x, axes_of(begin), axes_of(size))


def axes_of(axes: Sequence[int]) -> Value:
    """Axes as the reductions take them."""
    return integers(axes, DType.INT32)


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


def select(g: Graph, condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b."""
    return g.apply(comparison.SelectV2(), condition, a, b)


def clip(g: Graph, x: Value, low: float, high: float) -> Value:
    """The value clamped to finite bounds; NaN stays."""
    return minimum(g, like(high, x), maximum(g, like(low, x), x))


def log_plus_one(g: Graph, x: Value) -> Value:
    """log(1 + x) of values above -1, exact to the last bits where x is small."""
    above = shift(g, x, 1)
    gained = subtract(g, above, like(1, x))
    is_lost = equal(g, gained, like(0, x))
    quotient = divide(g, multiply(g, log(g, above), x), select(g, is_lost, like(1, x), gained))
    return select(g, is_lost, x, quotient)


def elements(x: Value) -> int | None:
    """The number of elements where it is known."""
    return prod(x.shape) if x.is_static and x.shape is not None else None
