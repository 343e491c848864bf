"""Pools to as many cells along each spatial axis as are asked for, which cover it and may overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elementwise, reduce
from circlet.runtime.ops.elements import GatherElements
from circlet.runtime.ops.layout import StridedSlice
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.matmul import matrix_product
from circlet.schema.openvino.rules import Node, layer

MOST_CELLS = 256
"""Along all axes of an adaptive pool together: a choice, as each is a slice of its own."""


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
    if wants:
        return _located(node)
    return (c.in_float32(g, lambda x: _adaptive(node, x, partial(_maxima, g)), node[0]),)


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
    for axis, count in enumerate(_counts(node), 2):
        x = c.concatenate(node.graph, [combine(each, axis) for each in _cells(node.graph, x, axis, count)], axis)
    return x


def _cells(g: Graph, x: Value, axis: int, count: int) -> Sequence[Value]:
    return [x] if count == 1 else [_cell(g, x, axis, k, count) for k in range(count)]


def _located(node: Node) -> tuple[Value, Value]:
    """The greatest element of each cell, and its first place: along the last axis where each row has it, then of which
    row it is that has the greatest, and so on."""
    g, x, counts = node.graph, node[0], _counts(node)
    x = c.cast(g, x, DType.FLOAT32) if x.dtype is DType.FLOAT16 else x
    lengths = [c.dimension(g, x, axis) for axis in range(2, len(counts) + 2)]
    step, places = c.integers([1]), None
    for axis, count, length in reversed([*zip(range(2, len(counts) + 2), counts, lengths, strict=True)]):
        cells = _cells(g, x, axis, count)
        found = c.concatenate(g, [_first(g, each, length, axis, k, count) for k, each in enumerate(cells)], axis)
        along = c.multiply(g, found, step)
        places = along if places is None else c.add(g, along, g.apply(GatherElements(axis), places, found))
        x, step = c.concatenate(g, [_maxima(g, each, axis) for each in cells], axis), c.multiply(g, step, length)
    assert places is not None
    return c.cast(g, x, node[0].dtype), c.cast(g, places, node.dtype("index_element_type", "i64"))


def _first(g: Graph, cell: Value, length: Value, axis: int, k: int, count: int) -> Value:
    """Where along an axis of some length the first of the greatest elements of cell k lies."""
    inside = c.unsqueeze(g, g.apply(reduce.ArgMax(DType.INT32), cell, c.axes_of([axis]), type=DType.INT32), [axis])
    return c.add(g, c.cast(g, inside, DType.INT64), c.floor_divided(g, c.scale(g, length, k), count))


def _maxima(g: Graph, x: Value, axis: int) -> Value:
    return g.apply(reduce.ReduceMax(keep_dims=True), x, c.axes_of([axis]))


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
