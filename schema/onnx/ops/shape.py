"""Rules for operators about shapes: the same elements under another shape, shapes as values, tensors of a shape."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import MOST_DIMENSIONS, DType
from circlet.runtime.ops import comparison, elementwise, index, pad, reduce, shape, unary
from circlet.runtime.ops import elements as elements_
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.layout import scattered, sliced
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.types import dtype_of, stored


@rule("Constant")
def constant_(node: Node) -> Value:
    if node.has("value"):
        dtype, data = node.tensor("value")
        return constant(data, dtype)
    if node.has("value_int"):
        return node.constant(np.int64(node.integer("value_int")))
    if node.has("value_ints"):
        return node.constant(np.array(node.integers("value_ints"), np.int64))
    if node.has("value_float"):
        return node.constant(np.float32(node.number("value_float")))
    if node.has("value_floats"):
        return node.constant(np.array(node.numbers("value_floats"), np.float32))
    if node.has("value_string"):
        return node.constant(stored(np.array(node.string("value_string"), object), DType.STRING), DType.STRING)
    if not node.has("value_strings"):
        node.unsupported(f"attributes {', '.join(node.attributes) or 'none'}")
    return node.constant(stored(np.array(node.strings("value_strings"), object), DType.STRING), DType.STRING)


@rule("Shape")
def shape_of(node: Node) -> Value:
    graph = node.graph
    found = c.shape_of(graph, node[0])
    start, end = node.integer("start", 0), node.integer("end") if node.has("end") else None
    if not start and end is None:
        return found
    if node[0].shape is None:
        return c.part_of(graph, found, start, end)
    first, last, _ = slice(start, end).indices(node.rank())
    return c.part_of(graph, found, first, max(first, last))


@rule("Size")
def size(node: Node) -> Value:
    return product(node.graph, c.shape_of(node.graph, node[0]))


def product(graph: Graph, vector: Value) -> Value:
    """The product of the elements of a vector, a scalar."""
    known = vector.data
    if known is not None:
        return constant(np.prod(known, dtype=np.int64))
    return graph.apply(reduce.ReduceProd(), vector, constant(np.array([0], np.int32)))


@rule("Reshape")
def reshape(node: Node) -> Value:
    graph, target = node.graph, node[1]
    known = node.known(1)
    if known is not None and known.min(initial=0) < -1:
        raise ModelError(f"input 1: expected sizes of at least -1, found {known.tolist()}")
    if node.integer("allowzero", 0) or (known is not None and 0 not in known):
        return c.reshape_to(graph, node[0], target)
    if known is not None and known[node[0].rank or 0:].all():
        return c.reshape_to(graph, node[0], c.concatenate(graph, _kept(graph, node[0], known.tolist())))
    spare = node.apply(unary.ZerosLike(), target)
    begin = node.constant(np.array([0], np.int64))
    copied = node.apply(sliced(), c.concatenate(graph, [c.shape_of(graph, node[0]), spare]), begin,
                        c.shape_of(graph, target), node.constant(np.array([1], np.int64)))
    zero = node.apply(comparison.Equal(), target, c.like(0, target))
    result = c.select(graph, zero, copied, target)
    return node.apply(shape.Reshape(), node[0], result)


def _kept(graph: Graph, x: Value, sizes: Sequence[int]) -> list[Value]:
    """Parts of a shape in which 0 stands for the size of the same axis of a value."""
    runs = [(is_zero, [position for position, _ in run])
            for is_zero, run in groupby(enumerate(sizes), lambda each: each[1] == 0)]
    return [c.dims(graph, x, run[0], run[-1] + 1) if is_zero else c.integers(sizes[run[0]:run[-1] + 1])
            for is_zero, run in runs]


@rule("Flatten")
def flatten(node: Node) -> Value:
    return flat(node, node.integer("axis", 1))


def flat(node: Node, axis: int) -> Value:
    """The first input as a matrix; its rows are the axes before `axis`."""
    graph = node.graph
    if axis == 0:
        return c.reshape(graph, node[0], [1, -1])
    found = c.shape_of(graph, node[0])
    if axis < 0:
        axis += node.rank()
    sides = [product(graph, each) for each in (c.part_of(graph, found, 0, axis), c.part_of(graph, found, axis, None))]
    return c.reshape_to(graph, node[0], c.concatenate(graph, [c.reshape(graph, each, [1]) for each in sides]))


@rule("Squeeze", since=13)
def squeeze(node: Node) -> Value:
    if node.get(1) is None:
        return _squeezed(node, ())
    if node.known(1) is None:
        return _squeezed_along(node)
    return _squeezed(node, node.value(1, "axes").reshape(-1).tolist())


@rule("Squeeze")
def squeeze_1(node: Node) -> Value:
    return _squeezed(node, node.integers("axes", ()))


def _squeezed(node: Node, axes: Sequence[int]) -> Value:
    found = node[0].shape
    if node.get(1) is not None and not len(axes):
        return node.copy(node[0])
    if found is not None and -1 not in found:
        rank = len(found)
        gone = {axis % rank for axis in axes} if axes else {k for k, dim in enumerate(found) if dim == 1}
        if all(found[k] == 1 for k in gone):
            return node.graph.apply(shape.Reshape(), node[0], node.constant(
                np.array([dim for k, dim in enumerate(found) if k not in gone], np.int64)))
    return node.apply(shape.Squeeze(tuple(axes)), node[0])


@rule("Unsqueeze", since=13)
def unsqueeze(node: Node) -> Value:
    if node.known(1) is None:
        return _unsqueezed_along(node)
    return _unsqueezed(node, node.value(1, "axes").reshape(-1).tolist())


def _along(node: Node, rank: int) -> tuple[Value, Value]:
    """For axes that only a run tells, of a tensor of `rank`: 1 for each of them and 0 for the others; the others."""
    ones = c.fill(node.graph, c.shape_of(node.graph, c.reshape(node.graph, node[1], [-1])), node.constant(np.int64(1)))
    marks = scattered(node, node[1], ones, rank, 0)
    others = node.apply(comparison.Equal(), marks, node.constant(np.int64(0)))
    return marks, c.reshape(node.graph, node.apply(index.Where(), others), [-1])


def _squeezed_along(node: Node) -> Value:
    """The first input without axes that only a run tells."""
    _, kept = _along(node, node.rank())
    found = node.apply(shape.Reshape(), node[0], node.apply(index.Gather(), c.shape_of(node.graph, node[0]), kept))
    return _of_rank(node, found, -1)


def _unsqueezed_along(node: Node) -> Value:
    """The first input with axes inserted that only a run tells."""
    count = node.length(1) if node.rank(1) else 1
    if count < 0:
        node.unsupported("axes of unknown number")
    marks, kept = _along(node, node.rank() + count)
    rows = node.apply(shape.ExpandDims(), kept, node.constant(np.array(1, np.int32)))
    target = node.apply(elements_.ScatterSlices(), marks, rows, c.shape_of(node.graph, node[0]))
    return _of_rank(node, node.apply(shape.Reshape(), node[0], target), 1)


def _of_rank(node: Node, value: Value, sign: int) -> Value:
    """A result of which the rank is known by the number of axes that were inserted or removed."""
    count = node.length(1) if node.rank(1) else 1
    if count >= 0 and not value.is_constant:
        return node.graph.declare(value, shape=(-1,) * (node.rank() + sign * count))
    return value


@rule("Unsqueeze")
def unsqueeze_1(node: Node) -> Value:
    return _unsqueezed(node, node.integers("axes"))


def _unsqueezed(node: Node, axes: Sequence[int]) -> Value:
    if any(axis < 0 for axis in axes) and any(axis >= 0 for axis in axes):
        node.rank()
    found = c.unsqueeze(node.graph, node[0], axes)
    return node.copy(found) if found == node[0] else found


@rule("Expand")
def expand(node: Node) -> Value:
    graph = node.graph
    own = c.shape_of(graph, node[0])
    known, wanted = own.data, node.known(1)
    target = node.apply(shape.BroadcastArgs(), own, node[1])
    if known is not None and wanted is not None and len(wanted) <= MOST_DIMENSIONS:
        # Where they do not broadcast, the operator says so if it is ever run.
        with suppress(ValueError):
            target = node.constant(np.array(np.broadcast_shapes(tuple(known), tuple(wanted)), np.int64))
    return node.apply(shape.BroadcastTo(), node[0], target)


@rule("ConstantOfShape")
def constant_of_shape(node: Node) -> Value:
    dtype, data = node.tensor("value") if node.has("value") else (DType.FLOAT32, np.zeros(1, np.float32))
    if not isinstance(dtype, DType):
        node.unsupported(f"element type {dtype.name.lower()}")
    node.scope.filled[node.proto.output[0]] = data.reshape(())
    return c.fill(node.graph, node[0], constant(data.reshape(()), dtype))


@rule("com.microsoft.Range")
def stepping_by_one(node: Node) -> Value:
    """As Range, by 1 where no step is given."""
    return _stepping(node, *node.given[:2], node.given[2] if len(node.given) > 2 else node.like(1))


@rule("Range")
def range_(node: Node) -> Value:
    return _stepping(node, *node.given)


def _stepping(node: Node, *given: Value) -> Value:
    """The numbers from one up to but without another, by a third."""
    graph, dtype = node.graph, node.dtype()
    start, limit, delta = (c.reshape(graph, each, []) for each in given)
    if dtype in (DType.FLOAT32, DType.FLOAT64):
        turns = c.divide(graph, c.subtract(graph, limit, start), delta)
        count = node.apply(unary.Relu(), node.apply(unary.Ceil(), turns))
    else:
        first, last, step = (c.cast(graph, each, DType.INT64) for each in (start, limit, delta))
        turns = node.apply(unary.Neg(), node.apply(elementwise.FloorDiv(), c.subtract(graph, first, last), step))
        count = node.apply(elementwise.Maximum(), turns, node.constant(np.int64(0)))
    steps = c.cast(graph, counted(graph, c.cast(graph, count, DType.INT64)), dtype)
    return c.add(graph, c.multiply(graph, steps, delta), start)


def counted(graph: Graph, stop: Value, start: Value | None = None) -> Value:
    """The numbers from 0, or `start`, up to but without `stop`: scalars of int64."""
    first = constant(np.int64(0)) if start is None else start
    return graph.apply(shape.Range(), first, stop, constant(np.int64(1)))


def positions(node: Node, axis: int) -> Value:
    """The indices along an axis of the first input, as int64."""
    size = c.part_of(node.graph, c.shape_of(node.graph, node[0]), axis, axis + 1 if axis != -1 else None)
    return counted(node.graph, c.reshape(node.graph, size, []))


@rule("EyeLike")
def eye_like(node: Node) -> Value:
    dtype = dtype_of(node.integer("dtype")) if node.has("dtype") else node.dtype()
    return c.cast(node.graph, node.apply(comparison.Equal(), *_diagonals(node, node.integer("k", 0))), dtype)


def _diagonals(node: Node, k: int) -> tuple[Value, Value]:
    """For the last two axes the column and the column of diagonal k in its row; the two broadcast."""
    graph = node.graph
    rows, columns = (positions(node, axis) for axis in (-2, -1))
    diagonal = c.add(graph, rows, node.constant(np.int64(k)))
    return columns, c.unsqueeze(graph, diagonal, [1])


@rule("Trilu")
def trilu(node: Node) -> Value:
    graph = node.graph
    offset = c.reshape(graph, node[1], []) if node.get(1) is not None else node.constant(np.int64(0))
    rows, columns = (positions(node, axis) for axis in (-2, -1))
    diagonal = c.unsqueeze(graph, c.add(graph, rows, offset), [1])
    op = comparison.GreaterEqual() if node.integer("upper", 1) else comparison.LessEqual()
    return c.select(graph, node.apply(op, columns, diagonal), node[0], node.like(0))


@rule("OneHot")
def one_hot(node: Node) -> Value:
    graph, axis = node.graph, node.integer("axis", -1)
    depth = c.cast(graph, c.reshape(graph, node[1], []), DType.INT64)
    indices = c.cast(graph, node[0], DType.INT64)
    below = node.apply(comparison.Less(), indices, node.constant(np.int64(0)))
    indices = c.select(graph, below, c.add(graph, indices, depth), indices)
    off, on = (c.reshape(graph, c.part_of(graph, node[2], k, k + 1), []) for k in range(2))
    if axis < -1:
        axis += node.rank() + 1
    return node.apply(shape.OneHot(axis), indices, depth, on, off)


@rule("Tile", since=6)
def tile(node: Node) -> Value:
    return node.apply(pad.Tile(), node[0], node[1])

