"""Inverses of matrices."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops import comparison, reduce
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant

MOST_ROWS = 8
"""Of a matrix, each of which becomes a dozen operators: a choice."""


def is_small(shape: Shape) -> bool:
    """Whether matrices are square, with few rows."""
    return len(shape) > 1 and shape[-1] == shape[-2] and 0 < shape[-1] <= MOST_ROWS


def inverse(g: Graph, x: Value, size: int) -> Value:
    """The inverses of matrices (..., size, size), by Gauss and Jordan's elimination with the greatest element of each
    column as pivot."""
    rank = c.rank_of(x)
    numbers = constant(np.arange(size, dtype=np.int32))
    unit = c.broadcast_to(g, constant(np.eye(size, dtype=np.float32)), c.shape_of(g, x))
    both, is_used, rows = c.concatenate(g, [x, unit], rank - 1), None, []
    for k in range(size):
        column = c.part(g, both, rank, rank - 1, k, k + 1)
        sizes = c.squeeze(g, c.absolute(g, column), [rank - 1])
        if is_used is not None:
            sizes = c.select(g, is_used, c.like(-1, sizes), sizes)
        place = g.apply(reduce.ArgMax(DType.INT32), sizes, c.axes_of([rank - 2]), type=DType.INT32)
        is_pivot = c.equal(g, c.unsqueeze(g, place, [-1]), numbers)
        is_used = is_pivot if is_used is None else g.apply(comparison.LogicalOr(), is_used, is_pivot)
        chosen = c.unsqueeze(g, is_pivot, [-1])
        row = _row(g, chosen, both)
        row = c.divide(g, row, c.part(g, row, rank, rank - 1, k, k + 1))
        both = c.select(g, chosen, row, c.subtract(g, both, c.multiply(g, column, row)))
        rows.append(chosen)
    back = c.part(g, both, rank, rank - 1, size, 2 * size)
    return c.concatenate(g, [_row(g, each, back) for each in rows], rank - 2)


def _row(g: Graph, is_chosen: Value, x: Value) -> Value:
    """The one row of each matrix that is chosen, (..., 1, columns)."""
    return c.total(g, c.select(g, is_chosen, x, c.like(0, x)), (-2,))
