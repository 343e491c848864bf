"""Layers that sort, search and tell elements apart."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import INTEGERS, DType
from circlet.runtime.ops import comparison, elements, elementwise, sort
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.rules import Node, layer


@layer("TopK")
def top_k(node: Node) -> tuple[Value, ...]:
    """The greatest or least elements along an axis, and where they lie; in the order of their values or places."""
    g, rank = node.graph, node.rank(0)
    axis = node.axis(node.integer("axis"), rank)
    is_max = node.choice("mode", {"max": True, "min": False})
    by_place = node.choice("sort", {"value": False, "none": False, "index": True}, "value")
    dtype = node.dtype("index_element_type", "i32")
    x, back = c.axis_last(g, node[0], axis, rank)
    k = c.cast(g, node[1], DType.INT32)
    values, places = g.op(sort.TopKV2(), x if is_max else _reversed(g, x), k, types=[None, DType.INT32])
    found = values if is_max else _reversed(g, values)
    if by_place:
        ascending, order = g.op(sort.TopKV2(), _reversed(g, places), k, types=[None, DType.INT32])
        places = _reversed(g, ascending)
        found = g.apply(elements.GatherElements(rank - 1), found, order)
    return c.transpose(g, found, back), c.cast(g, c.transpose(g, places, back), dtype)


def _reversed(g: Graph, x: Value) -> Value:
    """Values that are the greater, the smaller the given ones are; applied again it gives these back."""
    if x.dtype not in INTEGERS:
        return c.negative(g, x)
    ones = np.iinfo(x.dtype.numpy).max if x.dtype.numpy.kind == "u" else -1
    return g.apply(elementwise.BitwiseXor(), x, c.like(ones, x))


@layer("Bucketize", since=3)
def bucketize(node: Node) -> Value:
    """How many of the ascending boundaries are below each element or, without a right bound, not above it."""
    g, x, bounds = node.graph, node[0], node[1]
    is_right = node.flag("with_right_bound", True)
    if bounds.data is None or x.dtype is not DType.FLOAT32:
        found = _counted(g, bounds, x, not is_right)
    else:
        numbers = bounds.data.astype(np.float64).reshape(-1).tolist()
        if is_right:
            above = g.apply(sort.Bucketize(tuple(-each for each in reversed(numbers))), c.negative(g, x),
                            type=DType.INT32)
            found = c.subtract(g, c.like(len(numbers), above), above)
        else:
            found = g.apply(sort.Bucketize(tuple(numbers)), x, type=DType.INT32)
    return c.cast(g, found, node.dtype("output_type", "i64"))


@layer("SearchSorted", since=15)
def search_sorted(node: Node) -> Value:
    """Where in the rows of input 0, which ascend, the elements of input 1 belong: before or behind those like them."""
    g, (rows, x) = node.graph, node.exactly(2)
    if node.rank(0) > 1:
        rows = c.unsqueeze(g, rows, [-2])
    found = _counted(g, rows, x, node.flag("right_mode", False))
    return c.cast(g, found, node.dtype("output_type", "i64"))


def _counted(g: Graph, rows: Value, x: Value, with_equal: bool) -> Value:
    """How many elements of rows are below each one of x, or not above it."""
    below = comparison.LessEqual() if with_equal else comparison.Less()
    is_below = g.apply(below, rows, c.unsqueeze(g, x, [-1]))
    return c.total(g, c.cast(g, is_below, DType.INT32), (-1,), keep=False)


@layer("Unique", since=10)
def unique(node: Node) -> tuple[Value, ...]:
    """The different elements, or slices along the axis in input 1; where each lies first, which of them each is, and
    how often each is there."""
    axis = None if node.get(1) is None else node.axis(node.value(1, "axis"), node.rank(0))
    op = sort.UniqueSlices(axis, node.flag("sorted", True))
    values, *places, counts = node.graph.op(op, node[0], count=4)
    kind = node.dtype("index_element_type", "i64")
    return (values, *(c.cast(node.graph, each, kind) for each in places),
            c.cast(node.graph, counts, node.dtype("count_element_type", "i64")))
