"""Rules for operators of `com.microsoft` on stored values, as ONNX Runtime's quantiser writes them: arithmetic on real
values, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from circlet.runtime.ir.types import DType
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.attention import projected
from circlet.schema.onnx.ops.matmul import Stored, product_of_stored
from circlet.schema.onnx.ops.quantize import (
    column,
    dynamically,
    real,
    rescaled,
    stored,
)
from circlet.schema.onnx.rules import find_rule, rule

DOMAIN = "com.microsoft"


def _value(node: Node, position: int) -> Value:
    """The real values of stored ones, whose scale and zero point are the next two inputs."""
    return real(node.graph, node[position], node[position + 1], node.get(position + 2))


def _made(node: Node, x: Value, position: int, like: int = 0) -> Value:
    """Real values as stored ones; their scale is an input, and the next one the zero point, which may be absent."""
    graph, zero = node.graph, node.get(position + 1)
    dtype = node.dtype(like) if zero is None else zero.dtype
    scale = c.reshape(graph, node[position], [])
    return stored(graph, c.divide(graph, x, scale), None if zero is None else c.reshape(graph, zero, []), dtype)


def _applied(node: Node, operator: str, *inputs: Value) -> Value:
    """What ONNX's own operator, with the attributes of the node, makes of other operands."""
    version = node.integer("opset", 13)
    function = find_rule(operator, version)
    assert function is not None, f"there is no rule for {operator}"
    found = function(replace(node, operator=operator, version=version, inputs=inputs))
    assert isinstance(found, Value), f"{operator} has one result"
    return found


@rule(f"{DOMAIN}.QLinearAdd")
def add(node: Node) -> Value:
    return _made(node, c.add(node.graph, _value(node, 0), _value(node, 3)), 6)


@rule(f"{DOMAIN}.QLinearMul")
def multiply(node: Node) -> Value:
    return _made(node, c.multiply(node.graph, _value(node, 0), _value(node, 3)), 6)


@rule(f"{DOMAIN}.QLinearSigmoid")
def sigmoid(node: Node) -> Value:
    return _made(node, _applied(node, "Sigmoid", _value(node, 0)), 3)


@rule(f"{DOMAIN}.QLinearLeakyRelu")
def leaky_relu(node: Node) -> Value:
    return _made(node, _applied(node, "LeakyRelu", _value(node, 0)), 3)


@rule(f"{DOMAIN}.QLinearSoftmax")
def softmax(node: Node) -> Value:
    return _made(node, _applied(node, "Softmax", _value(node, 0)), 3)


@rule(f"{DOMAIN}.QLinearAveragePool", f"{DOMAIN}.QLinearGlobalAveragePool")
def average_pool(node: Node) -> Value:
    is_last, graph, x = node.integer("channels_last", 0), node.graph, _value(node, 0)
    operator = node.operator.removeprefix(f"{DOMAIN}.QLinear")
    found = _applied(node, operator, c.channels_first(graph, x) if is_last else x)
    return _made(node, c.channels_last(graph, found) if is_last else found, 3)


@rule(f"{DOMAIN}.QLinearConcat")
def concatenate(node: Node) -> Value:
    parts = [_value(node, k) for k in range(2, len(node.inputs), 3)]
    return _made(node, c.concatenate(node.graph, parts, node.integer("axis")), 0, 2)


@rule(f"{DOMAIN}.QLinearWhere")
def where(node: Node) -> Value:
    return _made(node, c.select(node.graph, node[0], _value(node, 1), _value(node, 4)), 7, 1)


@rule(f"{DOMAIN}.QGemm")
def gemm(node: Node) -> Value:
    """Sums of products and a bias of int32, times the scales and alpha: real, or stored where a scale is given."""
    graph, alpha = node.graph, node.number("alpha", 1.0)
    a, b = ((c.transpose(graph, node[k], [1, 0]) if node.integer(name, 0) else node[k])
            for k, name in ((0, "transA"), (3, "transB")))
    sums = product_of_stored(graph, (a, c.reshape(graph, node[2], [])), (b, column(node, node[5], [])))
    if node.get(6) is not None:
        sums = c.add(graph, sums, node[6])
    scales = [c.scale(graph, c.reshape(graph, node[1], []), alpha), column(node, node[4], [])]
    if node.get(7) is None:
        return _scaled(graph, sums, scales, None)
    zero = node.get(8)
    return rescaled(graph, sums, scales, node[7], c.like(0, node[0]) if zero is None else c.reshape(graph, zero, []))


@rule(f"{DOMAIN}.MatMulIntegerToFloat")
def real_product(node: Node) -> Value:
    graph, points = node.graph, [node.get(k) for k in (4, 5)]
    a, b = ((node[k], None if each is None else column(node, each, []))
            for k, each in enumerate(points))
    scales = [c.reshape(graph, node[2], []), column(node, node[3], [])]
    return _scaled(graph, product_of_stored(graph, a, b), scales, node.get(6))


@rule(f"{DOMAIN}.QAttention")
def attention(node: Node) -> Sequence[Value | None]:
    """Attention to queries, keys and values that are a product of stored inputs and weights, plus a bias of reals."""
    if node.integer("do_rotary", 0):
        node.unsupported("do_rotary")
    graph, points = node.graph, [node.get(k) for k in (6, 7)]
    a, b = ((node[k], None if each is None else column(node, each, [])) for k, each in enumerate(points))
    scales = [c.reshape(graph, node[3], []), column(node, node[4], [])]
    made = _scaled(graph, product_of_stored(graph, a, b), scales, node[2])
    return projected(node, made, node.get(5), node.get(8), None, DType.FLOAT32)


@rule(f"{DOMAIN}.DynamicQuantizeMatMul")
def dynamic_product(node: Node) -> Value:
    zero = node.get(3)
    factor = node[1], None if zero is None else column(node, zero, [])
    return product_of_reals(node.graph, node[0], factor, column(node, node[2], []), node.get(4))


def product_of_reals(graph: Graph, x: Value, factor: Stored, scale: Value, bias: Value | None = None) -> Value:
    """The product of float32, quantised as a whole by its extremes, with a matrix of bytes of a scale."""
    data, found, point = dynamically(graph, x)
    return _scaled(graph, product_of_stored(graph, (data, point), factor), [found, scale], bias)


def _scaled(graph: Graph, sums: Value, scales: Sequence[Value], bias: Value | None) -> Value:
    """Sums of products of stored values as real values, plus a bias."""
    found = c.multiply(graph, c.cast(graph, sums, DType.FLOAT32), c.multiply(graph, *scales))
    return found if bias is None else c.add(graph, found, bias)
