"""Arithmetic, comparison and logic on several inputs, element by element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, elementwise, shape, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.openvino.rules import Node, layer

_DIRECT: dict[str, type[Op]] = {
    "Add": elementwise.Add, "Subtract": elementwise.Sub, "Multiply": elementwise.Mul, "Power": elementwise.Pow,
    "Maximum": elementwise.Maximum, "Minimum": elementwise.Minimum, "FloorMod": elementwise.FloorMod,
    "SquaredDifference": elementwise.SquaredDifference, "Equal": comparison.Equal, "NotEqual": comparison.NotEqual,
    "Less": comparison.Less, "LessEqual": comparison.LessEqual, "Greater": comparison.Greater,
    "GreaterEqual": comparison.GreaterEqual, "LogicalAnd": comparison.LogicalAnd, "LogicalOr": comparison.LogicalOr,
    "LogicalXor": comparison.NotEqual, "Xor": comparison.NotEqual,
}


def broadcast_inputs(node: Node, first: int = 0) -> tuple[Value, Value]:
    """Two inputs, so that numpy's rule broadcasts them as `auto_broadcast` says."""
    mode = node.choice("auto_broadcast", {"numpy": "numpy", "none": "none", "explicit": "none", "pdpd": "pdpd"},
                       "numpy")
    a, b = node[first], node[first + 1]
    if a.dtype is not b.dtype:
        raise node.error(f"expected inputs of one element type, found {a.dtype.value} and {b.dtype.value}")
    if mode == "none" and a.is_static and b.is_static and a.shape != b.shape:
        raise node.error(f"expected inputs of one shape, found {a.shape} and {b.shape}")
    if mode == "pdpd":
        b = _aligned(node, first, node.integer("axis", -1))
    return a, b


def _aligned(node: Node, first: int, axis: int) -> Value:
    """The second input with axes of size 1 behind its own, which lie from `axis` on."""
    rank, own = node.rank(first), node.rank(first + 1)
    trailing = 0 if axis == -1 else rank - axis - own
    if not 0 <= trailing <= rank - own:
        raise node.error(f"axis: expected one that leaves room for {own} of {rank} axes, found {axis}")
    return c.trailing(node.graph, node[first + 1], trailing)


@layer(*_DIRECT)
def direct(node: Node) -> Value:
    """Layers that circlet has an operator for."""
    return node.graph.apply(_DIRECT[node.layer.type](), *broadcast_inputs(node))


@layer("Divide")
def divide(node: Node) -> Value:
    """a / b; integers towards minus infinity, or with `m_pythondiv` false towards zero."""
    a, b = broadcast_inputs(node)
    is_floored = a.dtype.numpy.kind == "i" and node.flag("m_pythondiv", True)
    return node.graph.apply(elementwise.FloorDiv() if is_floored else elementwise.Div(), a, b)


@layer("Mod")
def mod(node: Node) -> Value:
    """a - b * truncate(a / b), with the sign of a."""
    g, (a, b) = node.graph, broadcast_inputs(node)
    if a.shape != b.shape or not a.is_static:
        target = g.apply(shape.BroadcastArgs(), c.shape_of(g, a), c.shape_of(g, b))
        a, b = c.broadcast_to(g, a, target), c.broadcast_to(g, b, target)
    return g.apply(elementwise.StablehloRemainder(), a, b)


@layer("Select")
def select(node: Node) -> Value:
    """Input 1 where input 0 holds, else input 2."""
    mode = node.choice("auto_broadcast", {"numpy": "numpy", "none": "none", "pdpd": "pdpd"}, "numpy")
    if mode == "pdpd":
        return c.select(node.graph, _condition(node), node[1], _aligned(node, 1, node.integer("axis", -1)))
    return c.select(node.graph, _condition(node), node[1], node[2])


def _condition(node: Node) -> Value:
    if node[0].dtype is not DType.BOOL:
        raise node.error(f"input 0 is the condition: expected boolean, found {node[0].dtype.value}")
    return node[0]


@layer("PRelu", "PReLU")
def prelu(node: Node) -> Value:
    """x where x >= 0, else x times the slope; a slope of one axis belongs to axis 1."""
    g, x, slope = node.graph, node[0], node[1]
    if node.rank(1) == 1 and node.rank(0) > 2 and c.elements(slope) != 1:
        slope = c.trailing(g, slope, node.rank(0) - 2)
    return g.apply(elementwise.Prelu(), x, slope)


_BITS: dict[str, Callable[[], Op]] = {"BitwiseAnd": elementwise.StablehloAnd, "BitwiseOr": elementwise.StablehloOr}


@layer(*_BITS, since=13)
def bitwise(node: Node) -> Value:
    """The bits that both, or either, have."""
    g, (a, b) = node.graph, broadcast_inputs(node)
    if a.shape != b.shape or not a.is_static:
        target = g.apply(shape.BroadcastArgs(), c.shape_of(g, a), c.shape_of(g, b))
        a, b = c.broadcast_to(g, a, target), c.broadcast_to(g, b, target)
    return g.apply(_BITS[node.layer.type](), a, b)


@layer("BitwiseXor", since=13)
def bitwise_xor(node: Node) -> Value:
    """The bits that differ."""
    return node.graph.apply(elementwise.BitwiseXor(), *broadcast_inputs(node))


@layer("BitwiseNot", since=13)
def bitwise_not(node: Node) -> Value:
    """All bits the other way."""
    g, x = node.graph, node[0]
    if x.dtype is DType.BOOL:
        return g.apply(unary.LogicalNot(), x)
    full = -1 if x.dtype.numpy.kind == "i" else 256 ** x.dtype.numpy.itemsize - 1
    return g.apply(elementwise.BitwiseXor(), x, c.like(full, x))


@layer("BitwiseLeftShift", since=15)
def left_shift(node: Node) -> Value:
    """The bits of input 0 so many places higher."""
    return c.aligned(node.graph, elementwise.StablehloShiftLeft(), *broadcast_inputs(node))


@layer("BitwiseRightShift", since=15)
def right_shift(node: Node) -> Value:
    """The bits of input 0 so many places lower, with the sign where there is one."""
    return node.graph.apply(elementwise.RightShift(), *broadcast_inputs(node))


@layer("FakeQuantize")
def fake_quantize(node: Node) -> Value:
    """x on `levels` steps between the bounds in inputs 1 and 2, at as many steps between those in inputs 3 and 4."""
    g = node.graph
    x, low, high, out_low, out_high = node.exactly(5)
    steps = c.like(node.integer("levels") - 1, x)
    position = c.multiply(g, c.divide(g, c.subtract(g, x, low), c.subtract(g, high, low)), steps)
    whole = c.divide(g, g.apply(unary.Round(), position), steps)
    inside = c.add(g, c.multiply(g, whole, c.subtract(g, out_high, out_low)), out_low)
    is_above = c.greater(g, x, c.maximum(g, low, high))
    is_below = g.apply(comparison.LessEqual(), x, c.minimum(g, low, high))
    return c.select(g, is_below, out_low, c.select(g, is_above, out_high, inside))


@layer("Convert")
def convert(node: Node) -> Value:
    """The values in another element type."""
    dtype, x = node.dtype("destination_type"), node[0]
    x = x if x.narrow is None else replace(x, narrow=None)
    if dtype is DType.FLOAT32 or (dtype is DType.FLOAT16 and node.decompresses):
        return c.widened(node.graph, x)
    return c.cast(node.graph, x, dtype)


@layer("ConvertLike")
def convert_like(node: Node) -> Value:
    """The values in the element type of input 1."""
    if node[1].dtype is DType.BFLOAT16:
        raise node.refusal("a conversion to bf16")
    return c.cast(node.graph, node[0], node[1].dtype)
