"""Rules for products of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import layout, matmul, reduce
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule

Stored: TypeAlias = "tuple[Value, Value | None]"
"""Stored integers and their zero point, if there is one."""
Multiply: TypeAlias = Callable[[Value, Value], Value]
"""Multiplies matrices."""
PRODUCTS = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64})
"""The types that circlet multiplies matrices in."""


def matrix_product(node: Node) -> Value:
    dtype = node.dtype()
    if dtype in PRODUCTS:
        return product(node.graph, node[0], node[1])
    a, b = (c.cast(node.graph, each, DType.INT64) for each in (node[0], node[1]))
    return c.cast(node.graph, product(node.graph, a, b), dtype)


def product(graph: Graph, a: Value, b: Value, multiply: Multiply | None = None) -> Value:
    """The product of tensors by numpy's rule: one without a second axis is a row, or on the right a column. `multiply`
    says how matrices are multiplied, if not as they are."""
    multiply = multiply or partial(graph.apply, matmul.BatchMatMul())
    if a.shape is None or b.shape is None:
        return _product_of_any_rank(graph, a, b, multiply)
    row, column = (c.rank_of(each) == 1 for each in (a, b))
    if () in (a.shape, b.shape):
        raise ModelError("expected matrices or vectors, found a scalar")
    found = multiply(c.unsqueeze(graph, a, [0]) if row else a, c.unsqueeze(graph, b, [1]) if column else b)
    gone = [-1 - k for k, vector in enumerate((column, row)) if vector]
    return graph.apply(reduce.Sum(), found, constant(np.array(gone, np.int32))) if gone else found


def _product_of_any_rank(graph: Graph, a: Value, b: Value, multiply: Callable[[Value, Value], Value]) -> Value:
    """The product of tensors of which the run tells whether they are vectors."""
    one = c.integers([1])

    def axes(x: Value) -> Value:
        """How many of the last two axes but one a tensor has: 0 of a vector, 1 of others."""
        return c.minimum(graph, c.subtract(graph, c.shape_of(graph, c.shape_of(graph, x)), one), one)

    outer, inner = axes(a), axes(b)
    padded = [c.concatenate(graph, each) for each in ([one, c.shape_of(graph, a)], [c.shape_of(graph, b), one])]
    left = graph.apply(layout.StridedSlice(end_mask=1), padded[0], outer, one, one)
    rank = c.maximum(graph, c.shape_of(graph, c.shape_of(graph, b)), c.integers([2]))
    right = graph.apply(layout.Slice(), padded[1], c.integers([0]), rank)
    found = multiply(c.reshape_to(graph, a, left), c.reshape_to(graph, b, right))
    made = c.shape_of(graph, found)
    last = (graph.apply(layout.Slice(), c.part_of(graph, made, -2, None), c.integers([k]), size)
            for k, size in enumerate((outer, inner)))
    return c.reshape_to(graph, found, c.concatenate(graph, [c.part_of(graph, made, None, -2), *last]))


def general_product(node: Node) -> Value:
    graph, alpha, beta = node.graph, node.number("alpha", 1.0), node.number("beta", 1.0)
    op = matmul.BatchMatMul(bool(node.integer("transA", 0)), bool(node.integer("transB", 0)))
    if node.dtype() not in PRODUCTS:
        node.unsupported(f"element type {node.dtype().value}")
    added, weights = node.get(2), node.known(1)
    if node.rank(1) != 2:
        raise ModelError(f"input 1: expected a matrix, found shape {node.shape(1)}")
    plain = alpha == 1 and beta == 1 and not op.adj_x and node.dtype() is DType.FLOAT32
    units = node.shape(1)[0 if op.adj_y else 1]
    if plain and weights is not None and (added is None or added.shape == (units,)):
        rows = node[1] if op.adj_y else node.constant(np.ascontiguousarray(weights.T))
        return node.apply(matmul.FullyConnected(keep_num_dims=True), node[0], rows, added)
    found = node.apply(op, node[0], node[1])
    if alpha != 1:
        found = c.multiply(graph, found, node.like(alpha))
    if added is None:
        return found
    return c.add(graph, found, added if beta == 1 else c.multiply(graph, added, node.like(beta)))


@rule("MatMulInteger")
def matrix_product_of_integers(node: Node) -> Value:
    graph = node.graph
    points = [_point(graph, node.get(2), [1]), _point(graph, node.get(3), [])]
    return product_of_stored(graph, (node[0], points[0]), (node[1], points[1]))


def product_of_stored(graph: Graph, a: Stored, b: Stored) -> Value:
    """The product of bytes less their zero points, which broadcast to them: int32.

    Of signed bytes a and b with the points p and q it is a b - p (1 b - k q) - a 1 q, where 1 sums up: the product of
    the bytes themselves, and what is the same for a row or a column.
    """
    (a_bytes, p), (b_bytes, q) = (signed(graph, *each) for each in (a, b))

    def multiply(left: Value, right: Value) -> Value:
        found = graph.apply(matmul.BatchMatMul(), left, right, type=DType.INT32)
        if p is not None:
            sums = _sums(graph, right, -2)
            if q is not None:
                depth = c.cast(graph, c.dimension(graph, left, -1), DType.INT32)
                sums = c.subtract(graph, sums, c.multiply(graph, q, depth))
            found = c.subtract(graph, found, c.multiply(graph, p, sums))
        return found if q is None else c.subtract(graph, found, c.multiply(graph, q, _sums(graph, left, -1)))

    return product(graph, a_bytes, b_bytes, multiply)


def signed(graph: Graph, x: Value, point: Value | None) -> Stored:
    """Bytes as signed ones, and their zero point as int32; None if it is 0."""
    moved = -128 if x.dtype is DType.UINT8 else 0
    if point is None or point.data is not None:
        number = np.zeros((), np.int32) if point is None or point.data is None else point.data.astype(np.int32)
        point = constant(np.asarray(number + moved)) if (number + moved).any() else None
    else:
        point = c.shift(graph, c.cast(graph, point, DType.INT32), moved)
    if not moved:
        return x, point
    if x.data is not None:
        return constant((x.data.astype(np.int16) + moved).astype(np.int8), name=x.name), point
    return c.cast(graph, c.shift(graph, c.cast(graph, x, DType.INT32), moved), DType.INT8), point


def _sums(graph: Graph, x: Value, axis: int) -> Value:
    """Sums of bytes along an axis, which stays: int32."""
    if x.data is not None:
        return constant(x.data.sum(axis, np.int32, keepdims=True))
    return c.total(graph, c.cast(graph, x, DType.INT32), [axis])


def _point(graph: Graph, point: Value | None, behind: Sequence[int]) -> Value | None:
    """A zero point: one number, or one for each index of the axis before the axes `behind`."""
    if point is None or c.rank_of(point) != 1 or point.shape == (1,):
        return point
    return c.unsqueeze(graph, point, behind)


def centered(node: Node, position: int, zero: int, behind: Sequence[int]) -> Value:
    """An input as int32, less its zero point: one number, or one for each index of the axis before the axes
    `behind`."""
    graph = node.graph
    x, point = c.cast(graph, node[position], DType.INT32), _point(graph, node.get(zero), behind)
    if point is None:
        return x
    return c.subtract(graph, x, c.cast(graph, point, DType.INT32))
