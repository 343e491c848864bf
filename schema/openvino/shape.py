"""Layers about shapes: the same elements in another shape, shapes as values, and tensors made from a shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import index, shape, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer


@layer("Reshape")
def reshape(node: Node) -> Value:
    """The elements in the shape in input 1; with `special_zero` a 0 keeps a dimension."""
    g, x, target = node.graph, node[0], node[1]
    if not node.flag("special_zero", False):
        return c.reshape_to(g, x, target)
    if target.data is None:
        return g.apply(shape.Reshape(), x, _kept(node, x, target))
    wanted = node.values(1, "shape")
    if 0 not in wanted:
        return c.reshape(g, x, wanted)
    dims = node.shape(0)
    if any(size == 0 and k >= len(dims) for k, size in enumerate(wanted)):
        raise node.error(f"shape: expected 0 only for dimensions of {dims}, found {wanted}")
    kept = [dims[k] if size == 0 else size for k, size in enumerate(wanted)]
    if kept.count(-1) == 1:
        return c.reshape(g, x, kept)
    return c.reshape_to(g, x, c.concatenate(g, [
        c.dims(g, x, k, k + 1) if size == 0 else c.integers([size]) for k, size in enumerate(wanted)]))


def _kept(node: Node, x: Value, target: Value) -> Value:
    """A shape that is computed, with its zeros replaced by the dimensions of the input."""
    if node.rank(1) != 1:
        raise node.error(f"shape: expected a vector, found shape {node.shape(1)}")
    g, (count,) = node.graph, node.shape(1)
    if count < 0:
        raise node.refusal("the length of the shape is not known before the model runs")
    dims = c.cast(g, c.dims(g, x, 0, min(count, node.rank(0))), target.dtype)
    missing = count - node.rank(0)
    if missing > 0:
        dims = c.concatenate(g, [dims, c.integers([0] * missing, target.dtype)])
    return c.select(g, c.equal(g, target, c.like(0, target)), dims, target)


@layer("Squeeze")
def squeeze(node: Node) -> Value:
    """The input without the axes in input 1, or without all axes of size 1."""
    if node.get(1) is None or c.elements(node[1]) == 0:
        return node.graph.op(shape.Squeeze(), node[0], shapes=None if node[0].is_static else [None])[0]
    axes = node.values(1, "axes")
    if node[0].rank is not None:
        axes = tuple(node.axis(axis, node.rank(0), "axes") for axis in axes)
        if node.flag("allow_axis_skip", False):
            axes = tuple(axis for axis in axes if node.static(0)[axis] == 1)
    return c.squeeze(node.graph, node[0], axes)


@layer("Unsqueeze")
def unsqueeze(node: Node) -> Value:
    """The input with axes of size 1 where input 1 says."""
    axes = node.values(1, "axes")
    if len(axes) > 1:
        axes = tuple(sorted(node.axis(axis, node.rank(0) + len(axes), "axes") for axis in axes))
    return c.unsqueeze(node.graph, node[0], axes)


@layer("ShapeOf")
def shape_of(node: Node) -> Value:
    """The shape as int64."""
    return c.shape_of(node.graph, node[0])


@layer("ShapeOf", since=3)
def shape_of_3(node: Node) -> Value:
    """The shape as int64 or int32."""
    return c.shape_of(node.graph, node[0], node.dtype("output_type", "i64"))


@layer("Broadcast")
def broadcast(node: Node) -> Value:
    """Input 0 repeated to the shape in input 1."""
    g, x, target = node.graph, node[0], node[1]
    mode = node.choice("mode", {each: each for each in ("numpy", "explicit", "bidirectional")}, "numpy")
    if mode == "explicit":
        mapping = node.values(2, "axes_mapping")
        if list(mapping) != sorted(set(mapping)) or len(mapping) != node.rank(0):
            raise node.error(f"axes_mapping: expected ascending axes, one for each of rank {node.rank(0)}, "
                             f"found {mapping}")
        x = c.unsqueeze(g, x, [axis for axis in range(_length(node, 1)) if axis not in mapping])
    if mode == "bidirectional":
        whole = c.shape_of(g, x, target.dtype)
        target = g.apply(shape.BroadcastArgs(), whole, target)
    return c.broadcast_to(g, x, target)


def _length(node: Node, index: int) -> int:
    """The number of elements of an input of rank 1."""
    found = node.shape(index)
    if len(found) != 1 or found[0] < 0:
        raise node.refusal(f"the length of input {index} is not known before the model runs")
    return found[0]


def scalar(node: Node, index: int) -> Value:
    """An input of one element as a scalar."""
    value = node[index]
    return value if value.shape == () else c.reshape(node.graph, value, ())


@layer("Range")
def arange(node: Node) -> Value:
    """`start`, `start + step`, ... before `stop`; nothing where `stop` lies the other way."""
    return _range(node, [scalar(node, k) for k in range(3)])


@layer("Range", since=4)
def range_4(node: Node) -> Value:
    """As before, in the element type `output_type`."""
    dtype = node.dtype("output_type")
    return _range(node, [c.cast(node.graph, scalar(node, k), dtype) for k in range(3)])


def _range(node: Node, bounds: Sequence[Value]) -> Value:
    g, (start, stop, step) = node.graph, bounds
    wanted = start.dtype
    if wanted not in (DType.INT32, DType.INT64, DType.FLOAT32):
        kind = DType.FLOAT32 if wanted.numpy.kind == "f" else DType.INT64
        start, stop, step = (c.cast(g, each, kind) for each in (start, stop, step))
    is_whole = start.dtype is DType.FLOAT32 and _is_whole(start) and _is_whole(step)
    if is_whole and stop.data is None and step.data:
        return c.cast(g, _whole_range(g, start, stop, step), wanted)
    is_up = c.greater(g, step, c.like(0, step))
    reachable = c.select(g, is_up, c.maximum(g, stop, start), c.minimum(g, stop, start))
    if all(each.data is not None for each in (start, stop, step)):
        reachable = stop if _leads(start, stop, step) else start
    return c.cast(g, g.apply(shape.Range(), start, reachable, step), wanted)


def _is_whole(x: Value) -> bool:
    """Whether a number is known and whole, and so small that what a range adds up is exact."""
    return x.data is not None and float(x.data.item()).is_integer() and abs(x.data.item()) < 1 << 10


def _whole_range(g: Graph, start: Value, stop: Value, step: Value) -> Value:
    """A range of floats as one of integers, whose length follows from what it is computed from."""
    turns = g.apply(unary.Ceil(), c.divide(g, c.subtract(g, stop, start), step))
    count = c.cast(g, g.apply(unary.Relu(), turns), DType.INT64)
    zero, one = (c.number(each, DType.INT64) for each in (0, 1))
    places = c.cast(g, g.apply(shape.Range(), zero, count, one), DType.FLOAT32)
    return c.add(g, c.multiply(g, places, step), start)


def _leads(start: Value, stop: Value, step: Value) -> bool:
    assert start.data is not None
    assert stop.data is not None
    assert step.data is not None
    return bool((stop.data >= start.data) == (step.data > 0))


@layer("OneHot")
def one_hot(node: Node) -> Value:
    """Input 2 where a new axis meets the index, input 3 elsewhere."""
    depth, on, off = (scalar(node, k) for k in (1, 2, 3))
    return node.graph.apply(shape.OneHot(axis=node.integer("axis", -1)), node[0], depth, on, off)


@layer("OneHot", since=16)
def one_hot_16(node: Node) -> Value:
    """As before; negative indices name nothing, or count from the end."""
    g = node.graph
    if node.choice("negative_indices_mode", {"ignore_negative": True, "normalize": False}, "ignore_negative"):
        return one_hot(node)
    x, depth = node[0], c.cast(g, scalar(node, 1), node[0].dtype)
    counted = c.select(g, c.less(g, x, c.like(0, x)), c.add(g, x, depth), x)
    return one_hot(node.fed(counted, *node.inputs[1:]))


@layer("Eye", since=9)
def eye(node: Node) -> Value:
    """A matrix of zeros with ones on a diagonal."""
    if any(node[k].data is None for k in range(2)) and node.get(3) is None:
        return _computed_eye(node)
    rows, columns, diagonal = (node.value(k, name) for k, name in enumerate(("rows", "columns", "diagonal")))
    batch = node.values(3, "batch_shape") if node.get(3) is not None else ()
    node.bounded(max(rows, 1) * max(columns, 1) * prod(batch))
    matrix = np.eye(rows, columns, diagonal, node.dtype("output_type").numpy)
    return constant(np.broadcast_to(matrix, (*batch, rows, columns)).copy(), name=node.layer.name)


def _computed_eye(node: Node) -> Value:
    """One of as many rows and columns as a run tells."""
    g, zero, one = node.graph, c.number(0, DType.INT64), c.number(1, DType.INT64)
    rows, columns, diagonal = (c.cast(g, scalar(node, k), DType.INT64) for k in range(3))
    rows, columns = (g.apply(shape.Range(), zero, each, one) for each in (rows, columns))
    found = c.equal(g, columns, c.unsqueeze(g, c.add(g, rows, diagonal), [1]))
    return c.cast(g, found, node.dtype("output_type"))


@layer("NonZero", since=3)
def non_zero(node: Node) -> Value:
    """The indices of the elements that are not zero, one column for each."""
    g, dtype = node.graph, node.dtype("output_type", "i64")
    x = c.unsqueeze(g, node[0], [0]) if node[0].shape == () else node[0]
    (rows,) = g.op(index.Where(), x, shapes=[None if x.rank is None else (-1, x.rank)])
    return c.cast(g, c.transpose(g, rows, (1, 0)), dtype)
