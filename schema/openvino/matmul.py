"""Products of matrices."""

from __future__ import annotations

from math import sqrt

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, matmul, normalize, reduce, shape
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
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
    """a @ b of matrices; constant weights of rank 2 as the fully connected operator has them, those of float32."""
    if a.dtype is DType.FLOAT32 and b.data is not None and b.rank == 2 and not transpose_a and (a.rank or 0) >= 2:
        weights = b if transpose_b else c.transpose(g, b, (1, 0))
        return g.apply(matmul.FullyConnected(keep_num_dims=True), a, weights)
    return g.apply(matmul.BatchMatMul(adj_x=transpose_a, adj_y=transpose_b), a, b)


@layer("ScaledDotProductAttention", since=13)
def attention(node: Node) -> Value:
    """softmax(query @ key.T * scale + mask) @ value; a sink takes part in the softmax as a further key would."""
    g, dtype = node.graph, node[0].dtype
    wide = DType.FLOAT32 if dtype is DType.FLOAT16 else dtype
    query, key, value = (c.cast(g, node[k], wide) for k in range(3))
    mask = _causal(node) if node.flag("causal", False) else node.get(3)
    logits = c.multiply(g, matrix_product(g, query, key, transpose_b=True), _factor(node, query))
    if mask is not None and mask.dtype is DType.BOOL:
        logits = c.select(g, mask, logits, c.like(float("-inf"), logits))
    elif mask is not None:
        logits = c.add(g, logits, c.cast(g, mask, wide))
    sink = node.get(5)
    if sink is None:
        weights = g.apply(normalize.Softmax(beta=1.0), logits)
    else:
        weights = _beside(g, logits, c.cast(g, sink, wide))
    return c.cast(g, matrix_product(g, weights, value), dtype)


def _beside(g: Graph, logits: Value, sink: Value) -> Value:
    """The softmax of logits (..., s, t) and one more for each row, of which the others are left, (..., s, t)."""
    most = c.maximum(g, g.apply(reduce.ReduceMax(keep_dims=True), logits, c.axes_of([-1])), sink)
    powers = c.exp(g, c.subtract(g, logits, most))
    return c.divide(g, powers, c.add(g, c.total(g, powers, [-1]), c.exp(g, c.subtract(g, sink, most))))


def _factor(node: Node, query: Value) -> Value:
    g, scale, depth = node.graph, node.get(4), node.shape(0)[-1]
    if scale is not None:
        return c.cast(g, scale, query.dtype)
    if depth > 0:
        return c.like(1 / sqrt(depth), query)
    return c.divide(g, c.like(1, query), c.sqrt(g, c.cast(g, c.reshape(g, c.dimension(g, query, -1), []), query.dtype)))


def _causal(node: Node) -> Value:
    """Which keys each query sees: those up to its own number, (s, t)."""
    g = node.graph
    rows, columns = (_numbers(g, c.dimension(g, node[k], -2)) for k in range(2))
    return g.apply(comparison.LessEqual(), columns, c.unsqueeze(g, rows, [1]))


def _numbers(g: Graph, count: Value) -> Value:
    """The numbers from 0 up to but without a count, (count,)."""
    bounds = (c.number(0, DType.INT64), c.reshape(g, count, []), c.number(1, DType.INT64))
    return g.apply(shape.Range(), *bounds)
