"""Rules for operators that read or write where data says."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import INTEGERS, MOST_DIMENSIONS, DType
from circlet.runtime.ops import comparison, elements, elementwise, index, sort, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.shape import counted
from circlet.schema.onnx.ops.unary import UNSIGNED
from circlet.schema.onnx.rules import rule


def from_front(graph: Graph, indices: Value, sizes: Value) -> Value:
    """Indices that may count from the end counted from the front; the sizes of their axes broadcast against them."""
    data, limits = indices.data, sizes.data
    if indices.dtype in UNSIGNED or (data is not None and (data >= 0).all()):
        return indices
    if data is not None and limits is not None:
        return constant(np.where(data < 0, data + limits.astype(data.dtype), data).astype(data.dtype))
    below = graph.apply(comparison.Less(), indices, c.like(0, indices))
    return c.select(graph, below, c.add(graph, indices, c.cast(graph, sizes, indices.dtype)), indices)


@rule("Gather")
def gather(node: Node) -> Value:
    axis = node.integer("axis", 0)
    size = c.reshape(node.graph, c.dimension(node.graph, node[0], axis), [])
    return node.apply(index.Gather(axis), node[0], from_front(node.graph, node[1], size))


@rule("GatherND")
def gather_nd(node: Node) -> Value:
    graph, batch = node.graph, node.integer("batch_dims", 0)
    depth = node.shape(1)[-1] if node.rank(1) else 0
    if depth < 0:
        node.unsupported("index rows of unknown length")
    if not 1 <= depth <= MOST_DIMENSIONS - batch:
        raise ModelError(f"input 1: expected rows of an index for each of some axes, found shape {node.shape(1)}")
    sizes = c.concatenate(graph, [c.dimension(graph, node[0], batch + k) for k in range(depth)])
    rows = from_front(graph, node[1], sizes)
    if not batch:
        return node.apply(index.GatherNd(), node[0], rows)
    places = node.shape(1)[:-1]
    if -1 in places:
        own = [c.along(graph, rows, axis) for axis in range(batch)]
    else:
        c.expect_few(prod(places) * len(places))
        grid = np.moveaxis(np.indices(places)[:batch], 0, -1)
        own = [node.constant(np.ascontiguousarray(grid.astype(rows.dtype.numpy)))]
    return node.apply(index.GatherNd(), node[0], c.concatenate(graph, [*own, rows], axis=-1))


@rule("GatherElements")
def gather_elements(node: Node) -> Value:
    return node.apply(elements.GatherElements(node.integer("axis", 0)), node[0], node[1])


@rule("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Value:
    combine = node.member("reduction", elements.Combine, "none")
    return node.apply(elements.ScatterElements(node.integer("axis", 0), combine), *node.given)


@rule("ScatterND")
def scatter_nd(node: Node) -> Value:
    return node.apply(elements.ScatterSlices(node.member("reduction", elements.Combine, "none")), *node.given)


@rule("NonZero")
def non_zero(node: Node) -> Value:
    return c.transpose(node.graph, node.apply(index.Where(), node[0]), [1, 0])


@rule("Compress", since=9)
def compress(node: Node) -> Value:
    graph = node.graph
    x = node[0] if node.has("axis") else c.reshape(graph, node[0], [-1])
    places = c.reshape(graph, node.apply(index.Where(), node[1]), [-1])
    return node.apply(index.Gather(node.integer("axis", 0)), x, places)


@rule("TopK")
def top_k(node: Node) -> Sequence[Value]:
    graph, rank = node.graph, node.rank()
    axis = c.axis_of(node[0], node.integer("axis", -1))
    count = c.reshape(graph, node[1] if len(node.inputs) > 1 else node.constant(np.int64(node.integer("k"))), [])
    smallest = not node.integer("largest", 1)
    x = _reversed_order(node, node[0]) if smallest else node[0]
    found, places = graph.op(sort.TopKV2(), c.move_axis(graph, x, axis, rank - 1), count)
    values = c.move_axis(graph, _reversed_order(node, found) if smallest else found, rank - 1, axis)
    return values, c.move_axis(graph, c.cast(graph, places, DType.INT64), rank - 1, axis)


def _reversed_order(node: Node, x: Value) -> Value:
    """Values that are the greater, the smaller the given ones are; applied again it gives these back."""
    dtype = x.dtype
    if dtype not in INTEGERS:
        return node.apply(unary.Neg(), x)
    ones = np.iinfo(dtype.numpy).max if dtype in UNSIGNED else -1
    return node.apply(elementwise.BitwiseXor(), x, c.like(ones, x))



@rule("Unique", since=11)
def unique(node: Node) -> Sequence[Value]:
    axis = node.integer("axis") if node.has("axis") else None
    return node.graph.op(sort.UniqueSlices(axis, bool(node.integer("sorted", 1))), node[0], count=4)


@rule("TensorScatter", since=24)
def tensor_scatter(node: Node) -> Value:
    graph, rank, mode = node.graph, node.rank(), node.string("mode", "linear")
    axis = node.integer("axis", -2) % rank
    steps = c.unsqueeze(graph, counted(graph, c.reshape(graph, c.dimension(graph, node[1], axis), [])),
                     [k for k in range(rank) if k != axis])
    if node.get(2) is not None:
        first = c.unsqueeze(graph, c.cast(graph, node[2], DType.INT64), list(range(1, rank)))
        steps = c.add(graph, steps, first)
    if mode == "circular":
        steps = node.apply(elementwise.FloorMod(), steps, c.reshape(graph, c.dimension(graph, node[0], axis), []))
    places = c.broadcast_to(graph, steps, c.shape_of(graph, node[1]))
    return node.apply(elements.ScatterElements(axis), node[0], places, node[1])
