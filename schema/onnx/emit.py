"""Small pieces of graphs that many rules are made of. Constants among the operands are computed with here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.builder import Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import MOST_DIMENSIONS, DType, Shape
from circlet.runtime.ops import comparison, elementwise, layout, quantize, shape
from circlet.runtime.ops.operands import normalize_axis
from circlet.schema.onnx.graph import Graph


def static(found: Shape | None) -> bool:
    """Whether all dimensions are known."""
    return found is not None and -1 not in found


def cast(graph: Graph, x: Value, dtype: DType) -> Value:
    """The values in another element type."""
    if graph[x].dtype is dtype:
        return x
    data = graph.known(x)
    if data is not None and data.dtype.kind in "bui" and dtype.numpy.kind in "biuf" and dtype is not DType.BFLOAT16:
        return graph.constant(data.astype(dtype.numpy), dtype)
    return graph.apply(quantize.Cast(), x, type=dtype)


def shape_vector(graph: Graph, x: Value) -> Value:
    """The shape of a tensor as int64 of shape (rank,)."""
    found = graph.shape(x)
    if found is not None and -1 not in found:
        return graph.constant(np.array(found, np.int64))
    return graph.apply(shape.ShapeOf(DType.INT64), x)


def dimension(graph: Graph, x: Value, axis: int) -> Value:
    """The size of one axis as int64 of shape (1,)."""
    found = graph.shape(x)
    if found is not None and found[normalize_axis(axis, len(found))] >= 0:
        return graph.constant(np.array([found[axis]], np.int64))
    return elements(graph, shape_vector(graph, x), axis, axis + 1 if axis != -1 else None)


def elements(graph: Graph, vector: Value, start: int | None, stop: int | None) -> Value:
    """A part of a vector, by Python's rule."""
    data = graph.known(vector)
    if data is not None:
        return graph.constant(data[start:stop])
    op = layout.StridedSlice(begin_mask=int(start is None), end_mask=int(stop is None))
    begin, end, step = (graph.constant(np.array([each], np.int64)) for each in (start or 0, stop or 0, 1))
    return graph.apply(op, vector, begin, end, step)


def joined(graph: Graph, parts: Sequence[Value], axis: int = 0) -> Value:
    """Tensors joined along an axis."""
    if not parts:
        raise ModelError("input 0 is required and absent")
    if len(parts) == 1:
        return parts[0]
    known = [each for each in map(graph.known, parts) if each is not None]
    if len(known) == len(parts):
        # Where they do not fit each other, the operator says so if it is ever run.
        with suppress(ValueError):
            return graph.constant(np.concatenate(known, axis))
    return graph.apply(layout.Concatenation(axis), *parts)


def reshaped(graph: Graph, x: Value, target: Sequence[int]) -> Value:
    """A tensor under another shape, one size of which may be -1."""
    found, data = graph.shape(x), graph.known(x)
    if found == tuple(target) and static(found):
        return x
    if data is not None and data.size and not data.dtype.hasobject:
        # Where there are more elements or fewer, the operator says so if it is ever run.
        with suppress(ValueError):
            return graph.constant(data.reshape(target), graph[x].dtype)
    return graph.apply(shape.Reshape(), x, graph.constant(np.array(target, np.int64)))


def reshaped_to(graph: Graph, x: Value, target: Value) -> Value:
    """A tensor under the shape that a vector of int64 gives."""
    known = graph.known(target)
    return graph.apply(shape.Reshape(), x, target) if known is None else reshaped(graph, x, known.tolist())


def expanded(graph: Graph, x: Value, axes: Sequence[int]) -> Value:
    """A tensor with axes of size 1 inserted, which the result counts so.

    Axes count from the end where negative; then they all do, or the rank of the tensor is known.
    """
    found = graph.shape(x)
    if found is not None:
        axes = sorted(axis % (len(found) + len(axes)) for axis in axes)
    if found is not None and -1 not in found:
        target = list(found)
        for axis in axes:
            target.insert(axis, 1)
        return reshaped(graph, x, target)
    for axis in sorted(axes, key=lambda axis: axis if axis >= 0 else -axis):
        x = graph.apply(shape.ExpandDims(), x, graph.constant(np.array(axis, np.int32)))
    return x


def transposed(graph: Graph, x: Value, permutation: Sequence[int]) -> Value:
    """A tensor whose axis k is axis `permutation[k]` of the given one."""
    if list(permutation) == list(range(len(permutation))):
        return x
    data = graph.known(x)
    if data is not None:
        return graph.constant(np.ascontiguousarray(data.transpose(permutation)), graph[x].dtype)
    return graph.apply(layout.Transpose(), x, graph.constant(np.array(permutation, np.int32)))


def moved(graph: Graph, x: Value, source: int, target: int) -> Value:
    """A tensor with one axis, counted from the front, at another place."""
    order = list(range(graph.rank(x)))
    order.insert(target, order.pop(source))
    return transposed(graph, x, order)


def broadcast_shape(graph: Graph, values: Sequence[Value]) -> Value:
    """The shape that tensors broadcast to, as int64."""
    shapes = [graph.shape(each) for each in values]
    if all(map(static, shapes)):
        # Where they do not broadcast, the operator says so if it is ever run.
        with suppress(ValueError):
            found = np.broadcast_shapes(*(each for each in shapes if each is not None))
            return graph.constant(np.array(found, np.int64))
    result = shape_vector(graph, values[0])
    for each in values[1:]:
        result = graph.apply(shape.BroadcastArgs(), result, shape_vector(graph, each))
    return result


def broadcast_to(graph: Graph, x: Value, target: Value) -> Value:
    """A tensor repeated until it has the shape that a vector gives."""
    known, found = graph.known(target), graph.shape(x)
    if known is not None and found == tuple(known.tolist()):
        return x
    return graph.apply(shape.BroadcastTo(), x, target)


def aligned(graph: Graph, op: Op, *inputs: Value) -> Value:
    """Applies an operator that wants its inputs to have one shape to inputs that broadcast."""
    shapes = {graph.shape(each) for each in inputs}
    if len(shapes) > 1 or not all(map(static, shapes)):
        target = broadcast_shape(graph, inputs)
        return graph.apply(op, *(broadcast_to(graph, each, target) for each in inputs))
    return graph.apply(op, *inputs)


def axis_of(graph: Graph, x: Value, axis: int) -> int:
    """An axis counted from the front.

    Raises:
        ModelError: there is no such axis.
        UnsupportedError: it counts from the end, and only a run tells the rank.
    """
    if graph.shape(x) is None and 0 <= axis < MOST_DIMENSIONS:
        return axis
    return normalize_axis(axis, graph.rank(x))


def add(graph: Graph, a: Value, b: Value) -> Value:
    return graph.apply(elementwise.Add(), a, b)


def sub(graph: Graph, a: Value, b: Value) -> Value:
    return graph.apply(elementwise.Sub(), a, b)


def mul(graph: Graph, a: Value, b: Value) -> Value:
    return graph.apply(elementwise.Mul(), a, b)


def div(graph: Graph, a: Value, b: Value) -> Value:
    return graph.apply(elementwise.Div(), a, b)


def select(graph: Graph, condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b; all broadcast."""
    return graph.apply(comparison.SelectV2(), condition, a, b)


def filled(graph: Graph, target: Value, number: Value) -> Value:
    """A tensor of the shape that a vector gives, each element the given scalar."""
    return graph.apply(shape.Fill(), target, number)
