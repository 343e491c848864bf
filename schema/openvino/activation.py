"""Activation functions."""

from __future__ import annotations

from math import ceil, floor, inf

import numpy as np

from circlet.runtime.ops import normalize, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.rules import Node, layer


@layer("Clamp")
def clamp(node: Node) -> Value:
    """x between two bounds; those of integers are rounded inwards."""
    g, x = node.graph, node[0]
    low, high = node.number("min"), node.number("max")
    if (low, high) == (0, 6):
        return g.apply(unary.Relu6(), x)
    if x.dtype.numpy.kind in "iu":
        limits = np.iinfo(x.dtype.numpy)
        low, high = ceil(max(low, limits.min)), floor(min(high, limits.max))
    if low > -inf:
        x = c.maximum(g, c.like(low, x), x)
    return c.minimum(g, c.like(high, x), x) if high < inf else x


def elu_of(g: Graph, x: Value, alpha: float) -> Value:
    """x where x >= 0, else alpha * (exp(x) - 1)."""
    if alpha == 1:
        return g.apply(unary.Elu(), x)
    below = g.apply(unary.Elu(), c.minimum(g, x, c.like(0, x)))
    return c.add(g, g.apply(unary.Relu(), x), c.scale(g, below, alpha))


@layer("Elu")
def elu(node: Node) -> Value:
    """x where x >= 0, else alpha * (exp(x) - 1)."""
    return elu_of(node.graph, node[0], node.number("alpha"))


@layer("Selu")
def selu(node: Node) -> Value:
    """lambda * (x where x >= 0, else alpha * (exp(x) - 1))."""
    g, x = node.graph, node[0]
    below = g.apply(unary.Elu(), c.minimum(g, x, c.like(0, x)))
    total = c.add(g, g.apply(unary.Relu(), x), c.multiply(g, below, _scalar(node, 1)))
    return c.multiply(g, total, _scalar(node, 2))


@layer("HardSigmoid")
def hard_sigmoid(node: Node) -> Value:
    """alpha * x + beta between 0 and 1."""
    g, x = node.graph, node[0]
    return c.clip(g, c.add(g, c.multiply(g, x, _scalar(node, 1)), _scalar(node, 2)), 0, 1)


@layer("HSigmoid", since=5)
def hsigmoid(node: Node) -> Value:
    """relu6(x + 3) / 6."""
    g, x = node.graph, node[0]
    return c.divide(g, g.apply(unary.Relu6(), c.shift(g, x, 3)), c.like(6, x))


@layer("Swish", since=4)
def swish(node: Node) -> Value:
    """x / (1 + exp(-beta * x))."""
    g, x = node.graph, node[0]
    inner = x if node.get(1) is None else c.multiply(g, x, _scalar(node, 1))
    return c.multiply(g, x, c.sigmoid(g, inner))


def _soft_plus(g: Graph, x: Value) -> Value:
    small = c.exp(g, c.negative(g, c.absolute(g, x)))
    return c.add(g, g.apply(unary.Relu(), x), c.log_plus_one(g, small))


@layer("SoftPlus", since=4)
def soft_plus(node: Node) -> Value:
    """log(1 + exp(x))."""
    return _soft_plus(node.graph, node[0])


@layer("Mish", since=4)
def mish(node: Node) -> Value:
    """x * tanh(log(1 + exp(x)))."""
    return c.multiply(node.graph, node[0], c.tanh(node.graph, _soft_plus(node.graph, node[0])))


@layer("SoftSign", since=9)
def soft_sign(node: Node) -> Value:
    """x / (1 + |x|)."""
    g, x = node.graph, node[0]
    return c.divide(g, x, c.shift(g, c.absolute(g, x), 1))


@layer("Gelu", since=2)
def gelu(node: Node) -> Value:
    """x * (1 + erf(x / sqrt(2))) / 2."""
    return node.graph.apply(unary.Gelu(), node[0])


@layer("Gelu", since=7)
def gelu_7(node: Node) -> Value:
    """As before, or its approximation by tanh."""
    approximate = node.choice("approximation_mode", {"erf": False, "tanh": True}, "erf")
    return node.graph.apply(unary.Gelu(approximate=approximate), node[0])


@layer("Softmax", "SoftMax", "LogSoftmax")
def softmax(node: Node) -> Value:
    """exp(x) divided by its sum over an axis, or the logarithm of that."""
    g, x = node.graph, node[0]
    op = normalize.LogSoftmax() if node.layer.type == "LogSoftmax" else normalize.Softmax(beta=1.0)
    return along_axis(node, x, lambda y: c.in_float32(g, lambda z: g.apply(op, z), y))


def along_axis(node: Node, x: Value, function: c.Function) -> Value:
    """A function of the last axis, applied to the axis that the layer names."""
    g, rank = node.graph, node.rank(0)
    axis = node.axis(node.integer("axis", 1), rank)
    moved, back = c.axis_last(g, x, axis, rank)
    return c.transpose(g, function(moved), back)


def _scalar(node: Node, index: int) -> Value:
    """A parameter of one element, as a scalar."""
    value = node[index]
    if value.shape == () or value.shape is None:
        return value
    if c.elements(value) != 1:
        raise node.error(f"input {index}: expected one element, found shape {value.shape}")
    return c.reshape(node.graph, value, ())
