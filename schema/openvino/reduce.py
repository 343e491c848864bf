"""Layers that combine the elements along axes."""

from __future__ import annotations

from dataclasses import replace

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import reduce
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.openvino.rules import Node, layer

_SUMS: dict[str, reduce.Reduction] = {"ReduceSum": reduce.Sum(), "ReduceMean": reduce.Mean(),
                                      "ReduceProd": reduce.ReduceProd()}
_CHOICES: dict[str, reduce.Reduction] = {
    "ReduceMax": reduce.ReduceMax(), "ReduceMin": reduce.ReduceMin(), "ReduceLogicalAnd": reduce.ReduceAll(),
    "ReduceLogicalOr": reduce.ReduceAny(),
}


def _reduced(node: Node, op: reduce.Reduction, x: Value) -> Value:
    return node.graph.apply(replace(op, keep_dims=node.flag("keep_dims", False)), x, _axes(node))


def _axes(node: Node) -> Value:
    """The axes, of the types that the reductions take."""
    axes = node[1]
    if axes.data is None:
        return axes
    if node[0].shape is not None:
        for axis in node.values(1, "axes"):
            node.axis(axis, node.rank(0), "axes")
    return c.axes_of(node.values(1, "axes"))


@layer(*_SUMS)
def fold(node: Node) -> Value:
    """Sums, means and products."""
    op = _SUMS[node.layer.type]
    return c.in_float32(node.graph, lambda x: _reduced(node, op, x), node[0])


@layer(*_CHOICES)
def choose(node: Node) -> Value:
    """Extreme elements, and whether all or any are true."""
    return _reduced(node, _CHOICES[node.layer.type], node[0])


@layer("ReduceL1", since=4)
def reduce_l1(node: Node) -> Value:
    """The sum of the magnitudes."""
    g = node.graph
    return c.in_float32(g, lambda x: _reduced(node, reduce.Sum(), c.absolute(g, x)), node[0])


@layer("ReduceL2", since=4)
def reduce_l2(node: Node) -> Value:
    """The square root of the sum of the squares."""
    g = node.graph
    return c.in_float32(g, lambda x: c.sqrt(g, _reduced(node, reduce.Sum(), c.square(g, x))), node[0])


@layer("CumSum", since=3)
def cumsum(node: Node) -> Value:
    """The sums of the elements up to each along one axis; of booleans whether one of them is true."""
    g, x = node.graph, node[0]
    op = reduce.Cumsum(node.flag("exclusive", False), node.flag("reverse", False))
    if x.dtype is DType.BOOL:
        return c.cast(g, g.apply(op, c.cast(g, x, DType.INT32), node[1]), DType.BOOL)
    return c.in_float32(g, lambda x: g.apply(op, x, node[1]), x)
