"""Rules for products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import matmul, reduce
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule

PRODUCTS = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64})
"""The types that circlet multiplies matrices in."""


@rule("MatMul")
def matrix_product(node: Node) -> Value:
    dtype = node.dtype()
    if dtype in PRODUCTS:
        return product(node.graph, node[0], node[1])
    wide = [c.cast(node.graph, each, DType.INT64) for each in (node[0], node[1])]
    return c.cast(node.graph, product(node.graph, *wide), dtype)


def product(graph: Graph, a: Value, b: Value) -> Value:
    """The product of tensors by numpy's rule: one without a second axis is a row, or on the right a column."""
    row, column = (each.shape is not None and c.rank_of(each) == 1 for each in (a, b))
    if 0 in (len(a.shape or (1,)), len(b.shape or (1,))):
        raise ModelError("expected matrices or vectors, found a scalar")
    left = c.unsqueeze(graph, a, [0]) if row else a
    right = c.unsqueeze(graph, b, [1]) if column else b
    found = graph.apply(matmul.BatchMatMul(), left, right)
    gone = [-1 - k for k, vector in enumerate((column, row)) if vector]
    return graph.apply(reduce.Sum(), found, constant(np.array(gone, np.int32))) if gone else found


@rule("Gemm")
def gemm(node: Node) -> Value:
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
    a, b = centered(node, 0, 2, [1]), centered(node, 1, 3, [])
    return product(node.graph, a, b)


def centered(node: Node, position: int, zero: int, behind: Sequence[int]) -> Value:
    """An input as int32, less its zero point: one number, or one for each index of the axis before the axes
    `behind`."""
    graph = node.graph
    x, point = c.cast(graph, node[position], DType.INT32), node.get(zero)
    if point is None:
        return x
    point = c.cast(graph, point, DType.INT32)
    if c.rank_of(point) == 1 and point.shape != (1,):
        point = c.unsqueeze(graph, point, behind)
    return c.subtract(graph, x, point)
