"""Rules for operators on one input, element by element."""

from __future__ import annotations

from math import inf

import numpy as np

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elementwise, shape, transcendental, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.onnx import activations
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.rules import rule

SAME: dict[str, Op] = {
    "Abs": unary.Abs(), "Ceil": unary.Ceil(), "Cos": unary.Cos(), "Exp": unary.Exp(), "Floor": unary.Floor(),
    "Log": unary.Log(), "Neg": unary.Neg(), "Not": unary.LogicalNot(), "Relu": unary.Relu(), "Round": unary.Round(),
    "Sigmoid": unary.Logistic(), "Sign": unary.Sign(), "Sin": unary.Sin(), "Sqrt": unary.Sqrt(), "Tanh": unary.Tanh(),
    "Acos": transcendental.Acos(), "Acosh": transcendental.Acosh(), "Asin": transcendental.Asin(),
    "Asinh": transcendental.Asinh(), "Atan": transcendental.Atan(), "Atanh": transcendental.Atanh(),
    "Cosh": transcendental.Cosh(), "Erf": transcendental.Erf(), "Sinh": transcendental.Sinh(),
    "Tan": transcendental.Tan(),
}
"""The operators that mean the same in both sets."""
UNSIGNED = frozenset({DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64})


@rule(*SAME)
def same(node: Node) -> Value:
    if node.operator == "Abs" and node.dtype() in UNSIGNED:
        return node.apply(shape.Alias(), node[0])
    return node.apply(SAME[node.operator], node[0])


@rule("Identity")
def identity(node: Node) -> Value:
    return node[0] if node[0].is_constant else node.copy(node[0])


@rule("Dropout", since=12)
def dropout(node: Node) -> tuple[Value, Value]:
    training = node.known(2)
    if node.get(2) is not None and (training is None or training.item()):
        ratio = node.known(1)
        if ratio is None or ratio.item():
            node.unsupported("training")
    return _kept(node)


@rule("Dropout")
def dropout_7(node: Node) -> tuple[Value, Value]:
    return _kept(node)


def _kept(node: Node) -> tuple[Value, Value]:
    zeros = node.apply(unary.ZerosLike(), node[0])
    return node.apply(shape.Alias(), node[0]), node.apply(comparison.Equal(), zeros, zeros)


@rule("Reciprocal")
def reciprocal(node: Node) -> Value:
    return c.divide(node.graph, node.like(1), node[0])


@rule("Elu")
def elu(node: Node) -> Value:
    alpha = node.number("alpha", 1.0)
    negative = node.apply(unary.Elu(), node[0])
    return negative if alpha == 1 else _below(node, c.multiply(node.graph, node.like(alpha), negative))


def _below(node: Node, value: Value) -> Value:
    """The input where it is positive, else the value."""
    return c.select(node.graph, node.apply(comparison.Greater(), node[0], node.like(0)), node[0], value)


@rule("Celu")
def celu(node: Node) -> Value:
    alpha = node.like(node.number("alpha", 1.0))
    negative = c.multiply(node.graph, alpha, node.apply(unary.Elu(), c.divide(node.graph, node[0], alpha)))
    return _below(node, negative)


@rule("Selu")
def selu(node: Node) -> Value:
    alpha, gamma = node.number("alpha", 1.67326319217681884765625), node.number("gamma", 1.05070102214813232421875)
    graph = node.graph
    negative = c.multiply(graph, node.like(alpha), c.subtract(graph, node.apply(unary.Exp(), node[0]), node.like(1)))
    return c.multiply(graph, node.like(gamma), _below(node, negative))


@rule("LeakyRelu")
def leaky_relu(node: Node) -> Value:
    return node.apply(unary.LeakyRelu(node.number("alpha", 0.01)), node[0])


@rule("ThresholdedRelu")
def thresholded_relu(node: Node) -> Value:
    above = node.apply(comparison.Greater(), node[0], node.like(node.number("alpha", 1.0)))
    return c.select(node.graph, above, node[0], node.like(0))


@rule("HardSigmoid")
def hard_sigmoid(node: Node) -> Value:
    graph = node.graph
    alpha, beta = node.like(node.number("alpha", 0.2)), node.like(node.number("beta", 0.5))
    return node.apply(unary.Relu0To1(), c.add(graph, c.multiply(graph, alpha, node[0]), beta))


@rule("HardSwish")
def hard_swish(node: Node) -> Value:
    return node.apply(unary.HardSwish(), node[0])


@rule("Softplus")
def softplus(node: Node) -> Value:
    return activations.softplus(node.graph, node[0])


@rule("Softsign")
def softsign(node: Node) -> Value:
    return activations.softsign(node.graph, node[0])


@rule("Shrink")
def shrink(node: Node) -> Value:
    graph, bias, limit = node.graph, node.like(node.number("bias", 0.0)), node.number("lambd", 0.5)
    above = node.apply(comparison.Greater(), node[0], node.like(limit))
    below = node.apply(comparison.Less(), node[0], node.like(-limit))
    rest = c.select(graph, below, c.add(graph, node[0], bias), node.like(0))
    return c.select(graph, above, c.subtract(graph, node[0], bias), rest)


@rule("Gelu")
def gelu(node: Node) -> Value:
    graph, form = node.graph, node.string("approximate", "none")
    if node.dtype() is not DType.FLOAT64:
        return node.apply(unary.Gelu(form == "tanh"), node[0])
    half = c.multiply(graph, node.like(0.5), node[0])
    if form == "tanh":
        cube = c.multiply(graph, node.like(0.044715), c.multiply(graph, node[0], c.multiply(graph, node[0], node[0])))
        inner = c.multiply(graph, node.like(np.sqrt(2 / np.pi)), c.add(graph, node[0], cube))
        share = node.apply(unary.Tanh(), inner)
    else:
        share = node.apply(transcendental.Erf(), c.multiply(graph, node.like(np.sqrt(0.5)), node[0]))
    return c.multiply(graph, half, c.add(graph, node.like(1), share))


@rule("IsNaN")
def is_nan(node: Node) -> Value:
    return node.apply(comparison.NotEqual(), node[0], node[0])


@rule("IsInf")
def is_inf(node: Node) -> Value:
    signs = [sign for name, sign in (("detect_positive", 1), ("detect_negative", -1)) if node.integer(name, 1)]
    found = [node.apply(comparison.Equal(), node[0], node.like(sign * inf)) for sign in signs]
    if not found:
        return node.apply(comparison.Less(), node[0], node.like(-inf))
    return found[0] if len(found) == 1 else node.apply(comparison.LogicalOr(), *found)


@rule("BitwiseNot")
def bitwise_not(node: Node) -> Value:
    ones = np.iinfo(node.dtype().numpy).max if node.dtype() in UNSIGNED else -1
    return node.apply(elementwise.BitwiseXor(), node[0], node.like(ones))
