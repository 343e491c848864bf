"""Products of matrices."""

from __future__ import annotations

from math import sqrt

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import matmul, normalize
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer


@layer("MatMul")
def product(node: Node) -> Value:
    """a @ b of matrices or vectors, each of them perhaps transposed."""
    a, b = node[0], node[1]
    if a.dtype is not b.dtype:
        raise node.error(f"expected factors of one element type, found {a.dtype.value} and {b.dtype.value}")
    flags = [node.flag(name, False) for name in ("transpose_a", "transpose_b")]
    return c.in_float32(node.graph, lambda x, y: _product(node, x, y, *flags), a, b)


def _product(node: Node, a: Value, b: Value, transpose_a: bool, transpose_b: bool) -> Value:
    g, vectors = node.graph, [node.rank(k) == 1 for k in (0, 1)]
    if 0 in (node.rank(0), node.rank(1)):
        raise node.error("expected matrices or vectors, found a scalar")
    if vectors[0]:
        a, transpose_a = c.unsqueeze(g, a, [0]), False
    if vectors[1]:
        b, transpose_b = c.unsqueeze(g, b, [-1]), False
    return c.squeeze(g, matrix_product(g, a, b, transpose_a, transpose_b),
                     [axis for axis, is_vector in zip((-2, -1), vectors, strict=True) if is_vector])


def matrix_product(g: Graph, a: Value, b: Value, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    """a @ b of matrices; constant weights of rank 2 as the fully connected operator has them."""
    if b.data is not None and b.rank == 2 and not transpose_a and (a.rank or 0) >= 2:
        weights = b if transpose_b else c.transpose(g, b, (1, 0))
        return g.apply(matmul.FullyConnected(keep_num_dims=True), a, weights)
    return g.apply(matmul.BatchMatMul(adj_x=transpose_a, adj_y=transpose_b), a, b)


@layer("ScaledDotProductAttention", since=13)
def attention(node: Node) -> Value:
    """softmax(query @ key.T * scale + mask) @ value."""
    g, query, key, value, mask = node.graph, node[0], node[1], node[2], node.get(3)
    logits = c.multiply(g, matrix_product(g, query, key, transpose_b=True), _factor(node))
    if node.flag("causal", False):
        mask = _causal(node)
    if mask is not None and mask.dtype is DType.BOOL:
        logits = c.select(g, mask, logits, c.like(float("-inf"), logits))
    elif mask is not None:
        logits = c.add(g, logits, mask)
    return matrix_product(g, g.apply(normalize.Softmax(beta=1.0), logits), value)


def _factor(node: Node) -> Value:
    scale = node.get(4)
    if scale is not None:
        return scale
    depth = node.shape(0)[-1]
    if depth < 1:
        raise node.refusal("the depth of the queries is not known before the model runs")
    return c.like(1 / sqrt(depth), node[0])


def _causal(node: Node) -> Value:
    rows, columns = node.shape(0)[-2], node.shape(1)[-2]
    if min(rows, columns) < 0:
        raise node.refusal("causal, and the number of queries or keys is not known before the model runs")
    node.bounded(rows * columns)
    return constant(np.tri(rows, columns, dtype=np.bool_))
