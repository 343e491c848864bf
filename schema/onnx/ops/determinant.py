"""The rule for determinants."""

from __future__ import annotations

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elementwise, reduce, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule

MOST_ROWS = 8
"""Of a matrix, each of which becomes some twenty operators: a choice."""


@rule("Det")
def determinant(node: Node) -> Value:
    """Of square matrices (..., n, n) of a few rows, by Gauss' elimination with the greatest element of each column as
    pivot."""
    if node.rank() < 2:
        raise ModelError(f"expected square matrices, found shape {node.shape()}")
    rows, columns = node.shape()[-2:]
    if rows < 0 or columns < 0 or rows > MOST_ROWS or not rows:
        node.unsupported(f"matrices of other than 1 to {MOST_ROWS} rows, {node.shape()}")
    if rows != columns:
        raise ModelError(f"expected square matrices, found shape {node.shape()}")
    return c.in_float32(node.graph, lambda x: _determinant(node.graph, x, rows), node[0])


def _determinant(g: Graph, x: Value, size: int) -> Value:
    """The product of the pivots, which changes its sign for each row before that of a pivot that is no pivot's yet."""
    rank, numbers = c.rank_of(x), constant(np.arange(size, dtype=np.int32))
    is_left, found, passed = constant(np.ones(size, np.bool_)), None, None
    for k in range(size):
        column = c.part(g, x, rank, rank - 1, k, k + 1)
        flat = c.squeeze(g, column, [rank - 1])
        sizes = c.select(g, is_left, c.absolute(g, flat), c.like(-1, flat))
        place = g.apply(reduce.ArgMax(DType.INT32), sizes, c.axes_of([rank - 2]), type=DType.INT32)
        place = c.unsqueeze(g, place, [-1])
        is_pivot, is_before = c.equal(g, numbers, place), _both(g, is_left, c.less(g, numbers, place))
        count = c.total(g, c.cast(g, is_before, DType.INT32), [-1], keep=False)
        pivot = c.total(g, c.select(g, is_pivot, flat, c.like(0, flat)), [-1])
        one = c.squeeze(g, pivot, [-1])
        found, passed = (one, count) if found is None or passed is None else (
            c.multiply(g, found, one), c.add(g, passed, count))
        is_left = _both(g, is_left, g.apply(unary.LogicalNot(), is_pivot))
        if k + 1 < size:
            x = _eliminated(g, x, column, pivot, is_pivot)
    assert found is not None
    assert passed is not None
    is_odd = g.apply(elementwise.FloorMod(), passed, c.like(2, passed))
    return c.multiply(g, found, c.cast(g, c.shift(g, c.scale(g, is_odd, -2), 1), x.dtype))


def _both(g: Graph, a: Value, b: Value) -> Value:
    return g.apply(comparison.LogicalAnd(), a, b)


def _eliminated(g: Graph, x: Value, column: Value, pivot: Value, is_pivot: Value) -> Value:
    """The matrices with what makes a column zero taken off the rows; a pivot that is zero has none to take off."""
    row = c.total(g, c.select(g, c.unsqueeze(g, is_pivot, [-1]), x, c.like(0, x)), [-2])
    safe = c.select(g, c.equal(g, pivot, c.like(0, pivot)), c.like(1, pivot), pivot)
    return c.subtract(g, x, c.multiply(g, c.divide(g, column, c.unsqueeze(g, safe, [-1])), row))
