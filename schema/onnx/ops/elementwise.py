"""Rules for arithmetic on several inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import INTEGERS, DType
from circlet.runtime.ops import comparison, elementwise
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.unary import UNSIGNED
from circlet.schema.onnx.rules import rule

SAME: dict[str, Op] = {
    "Add": elementwise.Add(), "Sub": elementwise.Sub(), "Mul": elementwise.Mul(), "Div": elementwise.Div(),
    "BitwiseXor": elementwise.BitwiseXor(),
}
"""The operators that mean the same in both sets."""
ALIGNED: dict[str, Op] = {
    "BitwiseAnd": elementwise.StablehloAnd(), "BitwiseOr": elementwise.StablehloOr(),
}
"""The operators of which circlet has only a form that does not broadcast."""


@rule(*SAME)
def same(node: Node) -> Value:
    number = node[1].data
    if node.operator == "Add" and number is not None and number.size == 1 and number.dtype.kind == "i":
        name, ahead = node.scope.sum_of(node.proto.input[0])
        node.scope.sums[node.proto.output[0]] = name, ahead + number.item()
    return node.apply(SAME[node.operator], node[0], node[1])


@rule(*ALIGNED)
def same_if_aligned(node: Node) -> Value:
    return c.aligned(node.graph, ALIGNED[node.operator], node[0], node[1])


@rule("PRelu")
def prelu(node: Node) -> Value:
    if node.dtype() not in INTEGERS:
        return node.apply(elementwise.Prelu(), node[0], node[1])
    negative = node.apply(comparison.Less(), node[0], node.like(0))
    return c.select(node.graph, negative, c.multiply(node.graph, node[0], node[1]), node[0])


@rule("Pow")
def power(node: Node) -> Value:
    dtype, exponent = node.dtype(), node.dtype(1)
    if dtype is exponent:
        return node.apply(elementwise.Pow(), node[0], node[1])
    if dtype in INTEGERS and exponent not in INTEGERS:
        wide = [c.cast(node.graph, each, DType.FLOAT64) for each in (node[0], node[1])]
        return c.cast(node.graph, node.apply(elementwise.Pow(), *wide), dtype)
    return node.apply(elementwise.Pow(), node[0], c.cast(node.graph, node[1], dtype))


@rule("Mod")
def modulo(node: Node) -> Value:
    if node.integer("fmod", 0):
        return c.aligned(node.graph, elementwise.StablehloRemainder(), node[0], node[1])
    return node.apply(elementwise.FloorMod(), node[0], node[1])


def _folded(combine: Callable[[Graph, Value, Value], Value]) -> Callable[[Node], Value]:
    """The rule that combines all inputs, from the first on."""
    def fold(node: Node) -> Value:
        first, *rest = node.given
        if not rest:
            return node.copy(first)
        return reduce(lambda a, b: combine(node.graph, a, b), rest, first)

    return fold


def _extremum(plain: Op) -> Callable[[Graph, Value, Value], Value]:
    def combine(graph: Graph, a: Value, b: Value) -> Value:
        found = graph.apply(plain, a, b)
        if a.dtype in INTEGERS:
            return found
        return c.select(graph, graph.apply(comparison.NotEqual(), a, a), a, found)

    return combine


maximum, minimum = (_extremum(each) for each in (elementwise.Maximum(), elementwise.Minimum()))
"""The larger or smaller one; NaN where either is."""
rule("Max")(_folded(maximum))
rule("Min")(_folded(minimum))
rule("Sum")(_folded(c.add))


@rule("Mean")
def mean(node: Node) -> Value:
    return c.divide(node.graph, _folded(c.add)(node), node.like(len(node.inputs)))


@rule("Clip", since=11)
def clip(node: Node) -> Value:
    return _clipped(node, node.get(1), node.get(2))


@rule("Clip")
def clip_6(node: Node) -> Value:
    low, high = (node.like(node.number(name)) if node.has(name) else None for name in ("min", "max"))
    return _clipped(node, low, high)


def _clipped(node: Node, low: Value | None, high: Value | None) -> Value:
    """A bound is compared first, so that NaN stays."""
    found = node[0]
    if low is not None:
        found = node.apply(elementwise.Maximum(), low, found)
    if high is not None:
        found = node.apply(elementwise.Minimum(), high, found)
    return node.copy(found) if found == node[0] else found


@rule("BitShift")
def bit_shift(node: Node) -> Value:
    if node.string("direction") == "LEFT":
        return c.aligned(node.graph, elementwise.StablehloShiftLeft(), node[0], node[1])
    dtype = node.dtype()
    width = 8 * dtype.numpy.itemsize
    inside = node.apply(comparison.Less(), node[1], node.like(width))
    if dtype in UNSIGNED:
        return c.select(node.graph, inside, node.apply(elementwise.RightShift(), node[0], node[1]), node.like(0))
    positive = node.apply(comparison.GreaterEqual(), node[1], node.like(0))
    count = c.select(node.graph, node.apply(comparison.LogicalAnd(), inside, positive), node[1], node.like(width - 1))
    return node.apply(elementwise.RightShift(), node[0], count)


@rule("Where")
def where(node: Node) -> Value:
    return c.select(node.graph, node[0], node[1], node[2])
