"""Layers that compute each element of one input by itself."""

from __future__ import annotations

from math import copysign, erf, erfc, inf, nan, pi

import numpy as np

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import INTEGERS
from circlet.runtime.ops import comparison, elementwise, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer

_DIRECT: dict[str, type[Op]] = {
    "Abs": unary.Abs, "Negative": unary.Neg, "Sign": unary.Sign, "Sqrt": unary.Sqrt, "Exp": unary.Exp,
    "Log": unary.Log, "Sin": unary.Sin, "Cos": unary.Cos, "Tanh": unary.Tanh, "Sigmoid": unary.Logistic,
    "Floor": unary.Floor, "Ceiling": unary.Ceil, "Relu": unary.Relu, "ReLU": unary.Relu,
    "LogicalNot": unary.LogicalNot, "HSwish": unary.HardSwish,
}


@layer(*_DIRECT)
def direct(node: Node) -> Value:
    """Layers that circlet has an operator for; whole numbers are rounded already."""
    if node.layer.type in ("Floor", "Ceiling") and node[0].dtype in INTEGERS:
        return node[0]
    return node.graph.apply(_DIRECT[node.layer.type](), node[0])


@layer("Identity", since=16)
def identity(node: Node) -> Value:
    """The input."""
    return node[0]


@layer("Tan")
def tan(node: Node) -> Value:
    """The tangent of x radians."""
    g, x = node.graph, node[0]
    return c.divide(g, g.apply(unary.Sin(), x), g.apply(unary.Cos(), x))


def _cosh(g: Graph, x: Value) -> Value:
    return c.scale(g, c.add(g, c.exp(g, x), c.exp(g, c.negative(g, x))), 0.5)


@layer("Cosh")
def cosh(node: Node) -> Value:
    """The hyperbolic cosine."""
    return _cosh(node.graph, node[0])


@layer("Sinh")
def sinh(node: Node) -> Value:
    """The hyperbolic sine, as tanh(x) * cosh(x): exact where x is small."""
    return c.multiply(node.graph, c.tanh(node.graph, node[0]), _cosh(node.graph, node[0]))


def _leg(g: Graph, x: Value) -> Value:
    """sqrt(1 - x * x)."""
    one = c.like(1, x)
    return c.sqrt(g, c.multiply(g, c.subtract(g, one, x), c.add(g, one, x)))


@layer("Asin")
def asin(node: Node) -> Value:
    """The angle in [-pi / 2, pi / 2] whose sine is x."""
    return node.graph.apply(elementwise.Atan2(), node[0], _leg(node.graph, node[0]))


@layer("Acos")
def acos(node: Node) -> Value:
    """The angle in [0, pi] whose cosine is x."""
    return node.graph.apply(elementwise.Atan2(), _leg(node.graph, node[0]), node[0])


@layer("Atan")
def atan(node: Node) -> Value:
    """The angle in [-pi / 2, pi / 2] whose tangent is x."""
    return node.graph.apply(elementwise.Atan2(), node[0], c.like(1, node[0]))


@layer("Asinh", since=3)
def asinh(node: Node) -> Value:
    """The inverse of the hyperbolic sine."""
    g, x = node.graph, node[0]
    a = c.absolute(g, x)
    squared = c.square(g, a)
    root = c.sqrt(g, c.shift(g, squared, 1))
    return c.multiply(g, c.sign(g, x), c.log_plus_one(g, c.add(g, a, c.divide(g, squared, c.shift(g, root, 1)))))


@layer("Acosh", since=3)
def acosh(node: Node) -> Value:
    """The inverse of the hyperbolic cosine, of x >= 1."""
    g, x = node.graph, node[0]
    above = c.subtract(g, x, c.like(1, x))
    root = c.sqrt(g, c.multiply(g, above, c.shift(g, x, 1)))
    return c.log_plus_one(g, c.add(g, above, root))


@layer("Atanh", since=3)
def atanh(node: Node) -> Value:
    """The inverse of the hyperbolic tangent, of -1 < x < 1."""
    g, x = node.graph, node[0]
    a = c.absolute(g, x)
    ratio = c.divide(g, c.scale(g, a, 2), c.subtract(g, c.like(1, x), a))
    return c.multiply(g, c.scale(g, c.sign(g, x), 0.5), c.log_plus_one(g, ratio))


_SERIES = tuple(2 / pi ** 0.5 * each for each in (1, -1 / 3, 1 / 10, -1 / 42, 1 / 216, -1 / 1320, 1 / 9360, -1 / 75600))
"""Coefficients of x, x ** 3, ... of the error function."""


@layer("Erf")
def error_function(node: Node) -> Value:
    """The error function: from GELU, and near zero, where that loses digits, from its series."""
    g, x = node.graph, node[0]
    is_small = c.less(g, c.absolute(g, x), c.like(0.5, x))
    squared = c.square(g, x)
    total = c.like(_SERIES[-1], x)
    for coefficient in _SERIES[-2::-1]:
        total = c.shift(g, c.multiply(g, total, squared), coefficient)
    scaled = c.scale(g, c.select(g, is_small, c.like(1, x), x), 2 ** 0.5)
    ratio = c.divide(g, g.apply(unary.Gelu(), scaled), scaled)
    return c.select(g, is_small, c.multiply(g, x, total), c.shift(g, c.scale(g, ratio, 2), -1))


_MOST_INVERTED = 4096
"""Of how many elements the inverse of the error function is found, each by some hundred steps; models have one."""


@layer("ErfInv", since=17)
def erf_inverse(node: Node) -> Value:
    """What the error function takes to give x, of constants, as quantiles of the normal distribution are."""
    data = node[0].data
    if data is None:
        raise node.refusal("input 0 is not a constant")
    if data.size > _MOST_INVERTED:
        raise node.refusal(f"the inverse of {data.size} elements (at most {_MOST_INVERTED})")
    found = [_inverse_erf(float(each)) for each in data.reshape(-1)]
    return constant(np.array(found).astype(data.dtype).reshape(data.shape), node[0].dtype)


def _inverse_erf(x: float) -> float:
    """By halving between neighbours, of 1 - erf(y) where that has the digits."""
    if not 0 < abs(x) < 1:
        return x if x == 0 else copysign(inf, x) if abs(x) == 1 else nan
    low, high = 0.0, 6.0
    while low < (middle := (low + high) / 2) < high:
        is_low = erf(middle) < abs(x) if abs(x) < 0.5 else erfc(middle) > 1 - abs(x)
        low, high = (middle, high) if is_low else (low, middle)
    return copysign(high, x)


@layer("Round", since=5)
def round_to_whole(node: Node) -> Value:
    """The nearest whole number, halves to the even one or away from zero."""
    g, x = node.graph, node[0]
    if x.dtype in INTEGERS:
        return x
    if node.choice("mode", {"half_to_even": True, "half_away_from_zero": False}, "half_to_even"):
        return g.apply(unary.Round(), x)
    a = c.absolute(g, x)
    whole = c.floor(g, a)
    is_up = g.apply(comparison.GreaterEqual(), c.subtract(g, a, whole), c.like(0.5, x))
    return c.multiply(g, c.sign(g, x), c.select(g, is_up, c.shift(g, whole, 1), whole))


@layer("IsNaN", since=10)
def is_nan(node: Node) -> Value:
    """Whether x is not a number."""
    return node.graph.apply(comparison.NotEqual(), node[0], node[0])


@layer("IsFinite", since=10)
def is_finite(node: Node) -> Value:
    """Whether x is neither infinite nor NaN."""
    return c.less(node.graph, c.absolute(node.graph, node[0]), c.like(float("inf"), node[0]))


@layer("IsInf", since=10)
def is_inf(node: Node) -> Value:
    """Whether x is infinite, of the signs that count."""
    g, x = node.graph, node[0]
    positive, negative = node.flag("detect_positive", True), node.flag("detect_negative", True)
    if positive and negative:
        return c.equal(g, c.absolute(g, x), c.like(float("inf"), x))
    bound = float("inf") if positive else float("-inf")
    return c.equal(g, x, c.like(bound if positive or negative else float("nan"), x))
