"""Pools to as many cells along each spatial axis as are asked for, which cover it and may overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import inf, prod

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elementwise, reduce
from circlet.runtime.ops.layout import StridedSlice
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.matmul import matrix_product
from circlet.schema.openvino.rules import Node, layer

MOST_CELLS = 256
"""Along all axes of an adaptive pool together, or of one that tells places: a choice, as each is a slice of its own."""


@layer("AdaptiveAvgPool", since=8)
def adaptive_average_pool(node: Node) -> Value:
    """The means of as many cells along each axis as input 1 says."""
    if node[1].data is None:
        return c.in_float32(node.graph, lambda x: _told(node, x, _means), node[0])
    return c.in_float32(node.graph, lambda x: _adaptive(node, x, lambda each, axis: c.mean(node.graph, each, [axis])),
                        node[0])


@layer("AdaptiveMaxPool", since=8)
def adaptive_max_pool(node: Node) -> tuple[Value, ...]:
    """The greatest elements of the same, and where they lie among those of the spatial axes."""
    g, wants = node.graph, node.wants(1)
    if node[1].data is None:
        if wants:
            raise node.refusal("places of the greatest elements of as many cells as only a run tells")
        return (c.in_float32(g, lambda x: _told(node, x, _greatest), node[0]),)
    values = c.in_float32(g, lambda x: _adaptive(node, x, lambda each, axis: g.apply(
        reduce.ReduceMax(keep_dims=True), each, c.axes_of([axis]))), node[0])
    return (values, _places(node)) if wants else (values,)


def _told(node: Node, x: Value, combine: Callable[[Graph, Value, Value, Value, Value], Value]) -> Value:
    """What is combined of as many cells as the run tells; it gets the elements of an axis, which is the last one, where
    cells begin and end, (cells, 1), and the numbers of the elements."""
    g, rank = node.graph, node.rank(0)
    for axis in range(2, rank):
        count = c.cast(g, c.part_of(g, node[1], axis - 2, axis - 1), DType.INT64)
        length = c.dimension(g, x, axis)
        numbers, places = (c.counted(g, c.reshape(g, each, [])) for each in (count, length))
        begin = g.apply(elementwise.FloorDiv(), c.multiply(g, numbers, length), count)
        above = c.shift(g, c.add(g, c.multiply(g, c.shift(g, numbers, 1), length), count), -1)
        end = g.apply(elementwise.FloorDiv(), above, count)
        last, back = c.axis_last(g, x, axis, rank)
        x = c.transpose(g, combine(g, last, c.unsqueeze(g, begin, [-1]), c.unsqueeze(g, end, [-1]), places), back)
    return x


def _is_in(g: Graph, begin: Value, end: Value, places: Value) -> Value:
    return g.apply(comparison.LogicalAnd(), g.apply(comparison.GreaterEqual(), places, begin), c.less(g, places, end))


def _means(g: Graph, x: Value, begin: Value, end: Value, places: Value) -> Value:
    """A product with the share that an element has in each cell."""
    is_in = _is_in(g, begin, end, places)
    shares = c.divide(g, c.cast(g, is_in, x.dtype), c.cast(g, c.subtract(g, end, begin), x.dtype))
    return matrix_product(g, x, shares, transpose_b=True)


def _greatest(g: Graph, x: Value, begin: Value, end: Value, places: Value) -> Value:
    """The greatest of an axis where what is in no cell is less than anything."""
    each = c.select(g, _is_in(g, begin, end, places), c.unsqueeze(g, x, [-2]), c.like(-inf, x))
    return g.apply(reduce.ReduceMax(), each, c.axes_of([-1]))


def _counts(node: Node) -> tuple[int, ...]:
    """How many cells there are along each axis."""
    rank, counts = node.rank(0), node.values(1, "output_shape")
    if len(counts) != rank - 2 or min(counts, default=1) < 1:
        raise node.error(f"output_shape: expected {rank - 2} positive sizes, found {counts}")
    if sum(counts) > MOST_CELLS:
        raise node.refusal(f"more than {MOST_CELLS} cells")
    return counts


def _adaptive(node: Node, x: Value, combine: Callable[[Value, int], Value]) -> Value:
    g = node.graph
    for axis, count in enumerate(_counts(node), 2):
        cells = [x] if count == 1 else [_cell(g, x, axis, k, count) for k in range(count)]
        x = c.concatenate(g, [combine(each, axis) for each in cells], axis)
    return x


def _places(node: Node) -> Value:
    """The first place of the greatest element of each cell."""
    g, x, counts = node.graph, node[0], _counts(node)
    dtype = node.dtype("index_element_type", "i64")
    if prod(counts) > MOST_CELLS:
        raise node.refusal(f"places of the greatest elements of more than {MOST_CELLS} cells")
    x = c.cast(g, x, DType.FLOAT32) if x.dtype is DType.FLOAT16 else x
    found = []
    for cell in product(*map(range, counts)):
        part = x
        for axis, (k, count) in enumerate(zip(cell, counts, strict=True), 2):
            part = _cell(g, part, axis, k, count)
        found.append(_place(g, part, x, cell, counts))
    joined = c.concatenate(g, found, 2)
    return c.cast(g, c.reshape_to(g, joined, c.concatenate(g, [c.dims(g, x, 0, 2), c.integers(counts)])), dtype)


def _place(g: Graph, part: Value, x: Value, cell: Sequence[int], counts: Sequence[int]) -> Value:
    """Where the greatest element of a part lies in the whole, (n, c, 1)."""
    rows = c.reshape_to(g, part, c.concatenate(g, [c.dims(g, part, 0, 2), c.integers([-1])]))
    left = c.cast(g, g.apply(reduce.ArgMax(DType.INT32), rows, c.axes_of([2]), type=DType.INT32), DType.INT64)
    place, step = None, c.integers([1])
    for k in reversed(range(len(counts))):
        length, own = c.dimension(g, x, k + 2), c.dimension(g, part, k + 2)
        begin = c.floor_divided(g, c.scale(g, length, cell[k]), counts[k])
        along = c.add(g, g.apply(elementwise.FloorMod(), left, own), begin) if k else c.add(g, left, begin)
        left = g.apply(elementwise.FloorDiv(), left, own) if k else left
        each = c.multiply(g, along, step)
        place, step = each if place is None else c.add(g, place, each), c.multiply(g, step, length)
    assert place is not None
    return c.unsqueeze(g, place, [-1])


def _cell(g: Graph, x: Value, axis: int, k: int, count: int) -> Value:
    """The elements of an axis in cell k of so many: from floor(k n / count) to ceil((k + 1) n / count)."""
    rank = c.rank_of(x)
    length = -1 if x.shape is None else x.shape[axis]
    if length >= 0:
        return c.part(g, x, rank, axis, k * length // count, -(-(k + 1) * length // count))
    size, whole = c.dimension(g, x, axis), (1 << rank) - 1 & ~(1 << axis)
    borders = [c.floor_divided(g, c.shift(g, c.scale(g, size, k + more), up), count)
               for more, up in ((0, 0), (1, count - 1))]
    bounds = [c.concatenate(g, [c.integers([0] * axis), each, c.integers([0] * (rank - axis - 1))]) for each in borders]
    return g.apply(StridedSlice(begin_mask=whole, end_mask=whole), x, *bounds, c.integers([1] * rank))
