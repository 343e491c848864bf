"""Rows of a table, summed or compared."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elements, reduce, segment
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.openvino.rules import Node, layer


@layer("EmbeddingBagPackedSum", since=3)
@layer("EmbeddingBagPacked", since=15)
def embedding_bag_packed(node: Node) -> Value:
    """The sums or means of the rows of a table that each row of indices names, with weights if there are any."""
    g = node.graph
    rows = c.gather(g, node[0], node[1], 0)
    if node.get(2) is not None:
        rows = c.multiply(g, rows, c.trailing(g, node[2], node.rank(0) - 1))
    return c.mean(g, rows, (1,), keep=False) if _is_mean(node) else c.total(g, rows, (1,), keep=False)


@layer("EmbeddingSegmentsSum", since=3)
def embedding_segments_sum(node: Node) -> Value:
    """The sums of the rows that indices name, each for the segment that input 2 says, of as many as input 3 says."""
    return _summed(node, node[2], c.reshape(node.graph, node[3], [1]), 4)


@layer("EmbeddingBagOffsetsSum", since=3)
@layer("EmbeddingBagOffsets", since=15)
def embedding_bag_offsets(node: Node) -> Value:
    """The sums or means of the rows that indices name, in bags that begin where input 2 says."""
    g, begins = node.graph, node[2]
    steps = c.counted(g, c.cast(g, c.reshape(g, c.dimension(g, node[1], 0), []), begins.dtype))
    is_begun = g.apply(comparison.GreaterEqual(), c.unsqueeze(g, steps, [-1]), begins)
    begun = c.total(g, c.cast(g, is_begun, DType.INT32), (1,), keep=False)
    return _summed(node, c.shift(g, begun, -1), c.dimension(g, begins, 0), 3)


def _is_mean(node: Node) -> bool:
    return node.choice("reduction", {"sum": False, "mean": True}, "sum")


def _summed(node: Node, bags: Value, count: Value, default: int) -> Value:
    """The sums of rows for bags, or their means, where the input `default` names the row for those without any, and
    weights follow."""
    g, table = node.graph, node[0]
    counts = c.cast(g, count, DType.INT64)
    places = c.unsqueeze(g, bags, [-1])
    rows = c.gather(g, table, node[1], 0)
    if node.get(default + 1) is not None:
        rows = c.multiply(g, rows, c.trailing(g, node[default + 1], node.rank(0) - 1))
    first = c.fill(g, c.concatenate(g, [counts, c.dims(g, table, 1, node.rank(0))]), c.like(0, table))
    add = elements.ScatterSlices(elements.Combine.ADD)
    sums = g.apply(add, first, places, rows)
    is_mean = _is_mean(node)
    if node.get(default) is None and not is_mean:
        return sums
    met = g.apply(add, c.fill(g, counts, c.number(0, DType.INT32)), places,
                  c.fill(g, c.dimension(g, bags, 0), c.number(1, DType.INT32)))
    if is_mean:
        counted = c.cast(g, c.maximum(g, met, c.like(1, met)), sums.dtype)
        sums = c.divide(g, sums, c.trailing(g, counted, node.rank(0) - 1))
    if node.get(default) is None:
        return sums
    is_empty = c.trailing(g, c.equal(g, met, c.like(0, met)), node.rank(0) - 1)
    chosen = c.reshape(g, node[default], [1])
    is_named = g.apply(comparison.GreaterEqual(), chosen, c.like(0, chosen))
    other = c.gather(g, table, c.maximum(g, chosen, c.like(0, chosen)), 0)
    zero = c.like(0, table)
    other = c.select(g, c.trailing(g, is_named, node.rank(0) - 1), other, zero)
    return c.select(g, is_empty, other, sums)


@layer("SegmentMax", since=16)
def segment_max(node: Node) -> Value:
    """The greatest of the rows that carry the same number in input 1, for as many numbers as input 2 says, or as there
    are; without a row zero, or the least number of the type."""
    g, (x, numbers), kind = node.graph, (node[0], c.cast(node.graph, node[1], DType.INT32)), node[0].dtype
    least = node.choice("fill_mode", {"zero": False, "lowest": True})
    given = node.get(2)
    last = c.maximum(g, g.apply(reduce.ReduceMax(), numbers, c.axes_of([0])), c.like(-1, numbers))
    top = c.reshape(g, c.shift(g, last, 1), [])
    count = top if given is None else c.cast(g, c.reshape(g, given, []), DType.INT32)
    own = numbers if given is None else c.select(g, c.less(g, numbers, count), numbers, c.like(-1, numbers))
    found = c.in_float32(g, lambda y: g.apply(segment.UnsortedSegmentMax(), y, own, count), x)
    if least and kind is not DType.FLOAT16:
        return found
    rows = c.counted(g, count)
    is_met = c.equal(g, c.unsqueeze(g, rows, [1]), c.unsqueeze(g, own, [0]))
    has_any = c.trailing(g, g.apply(reduce.ReduceAny(), is_met, c.axes_of([1])), node.rank(0) - 1)
    blank = c.like(float(np.finfo(np.float16).min) if least else 0, found)
    return c.select(g, has_any, found, blank)
