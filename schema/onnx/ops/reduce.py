"""Rules for operators that combine the elements along axes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np

from circlet.runtime.ir.types import FLOATS, DType
from circlet.runtime.ops import comparison, layout, reduce, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.shape import counted, product
from circlet.schema.onnx.rules import rule


def _axes(node: Node) -> Value | None:
    """The axes that a reduction names, all of them if it names none; None where nothing is reduced."""
    given = node.get(1)
    if node.integers("axes", ()):
        return node.constant(np.array(node.integers("axes"), np.int64))
    found = None if given is None or given.shape is None else node.length(1)
    noop = node.integer("noop_with_empty_axes", 0)
    if given is not None and (noop or (found is not None and found > 0)):
        return given
    if given is not None and (found is None or found < 0):
        return _all_if_none(node, given)
    if noop:
        return None
    return node.constant(np.arange(node.rank(), dtype=np.int64))


def _is_whole(node: Node) -> bool:
    """Whether a reduction has no axes in its result, however many the input has."""
    named = node.integers("axes", ()) or node.get(1) is not None or node.integer("noop_with_empty_axes", 0)
    return not named and not node.integer("keepdims", 1)


def _all_if_none(node: Node, axes: Value) -> Value:
    """Axes of unknown number, or all where there are none."""
    graph, zero = node.graph, node.constant(np.int64(0))
    wide = c.cast(graph, axes, DType.INT64)
    none = node.apply(comparison.Equal(), product(graph, c.shape_of(graph, axes)), zero)
    count = c.select(graph, none, node.constant(np.int64(node.rank())), zero)
    return c.concatenate(graph, [wide, counted(graph, count)])


def _reduced(node: Node, op: type[reduce.Reduction], x: Value | None = None) -> Value:
    """A reduction of the first input, or of something computed from it."""
    source = node[0] if x is None else x
    if source.rank is None and _is_whole(node):
        return node.apply(op(), c.reshape(node.graph, source, [-1]), node.constant(np.array([0], np.int64)))
    axes = _axes(node)
    if axes is None:
        return node.copy(source)
    return node.apply(op(bool(node.integer("keepdims", 1))), source, axes)


@rule("ReduceSum")
def reduce_sum(node: Node) -> Value:
    return _reduced(node, reduce.Sum)


@rule("ReduceMean")
def reduce_mean(node: Node) -> Value:
    return _reduced(node, reduce.Mean)


@rule("ReduceProd")
def reduce_prod(node: Node) -> Value:
    return _reduced(node, reduce.ReduceProd)


def _extreme(op: type[reduce.Reduction], nothing: float) -> Callable[[Node], Value]:
    """The rule for a reduction that gives `nothing` of nothing, where that is a number of the type."""
    def rule_(node: Node) -> Value:
        found, shape = _reduced(node, op), node[0].shape
        if node.dtype() not in FLOATS or (shape is not None and not {-1, 0} & {*shape}):
            return found
        empty = node.apply(comparison.Equal(), product(node.graph, c.shape_of(node.graph, node[0])),
                           node.constant(np.int64(0)))
        return c.select(node.graph, empty, node.like(nothing), found)

    return rule_


rule("ReduceMax")(_extreme(reduce.ReduceMax, -inf))
rule("ReduceMin")(_extreme(reduce.ReduceMin, inf))


@rule("ReduceL1")
def reduce_l1(node: Node) -> Value:
    return _reduced(node, reduce.Sum, node.apply(unary.Abs(), node[0]))


@rule("ReduceSumSquare")
def reduce_sum_square(node: Node) -> Value:
    return _reduced(node, reduce.Sum, node.apply(unary.Square(), node[0]))


@rule("ReduceL2")
def reduce_l2(node: Node) -> Value:
    return _root(node, _reduced(node, reduce.Sum, node.apply(unary.Square(), node[0])))


def _root(node: Node, x: Value) -> Value:
    return _narrowed(node, node.apply(unary.Sqrt(), _real(node, x)))


def _real(node: Node, x: Value) -> Value:
    """A value of the first input's type as floats; of integers as float64, as the definitions have it."""
    return x if node.dtype() in FLOATS else c.cast(node.graph, x, DType.FLOAT64)


def _narrowed(node: Node, x: Value) -> Value:
    """What was computed from `_real` values, as the first input's type."""
    return x if node.dtype() in FLOATS else c.cast(node.graph, x, node.dtype())


@rule("ReduceLogSum")
def reduce_log_sum(node: Node) -> Value:
    return _narrowed(node, node.apply(unary.Log(), _real(node, _reduced(node, reduce.Sum))))


@rule("ReduceLogSumExp")
def reduce_log_sum_exp(node: Node) -> Value:
    graph, axes = node.graph, _axes(node)
    if axes is None:
        return node.copy(node[0])
    x = _real(node, node[0])
    greatest = node.apply(reduce.ReduceMax(True), x, axes)
    finite = node.apply(comparison.Less(), node.apply(unary.Abs(), greatest), c.like(inf, x))
    shift = c.select(graph, finite, greatest, c.like(0, x))
    keep = bool(node.integer("keepdims", 1))
    total = node.apply(reduce.Sum(keep), node.apply(unary.Exp(), c.subtract(graph, x, shift)), axes)
    back = shift if keep else node.apply(reduce.Sum(), shift, axes)
    return _narrowed(node, c.add(graph, node.apply(unary.Log(), total), back))


@rule("ArgMax", "ArgMin")
def arg_extreme(node: Node) -> Value:
    graph, axis = node.graph, node.integer("axis", 0)
    op = reduce.ArgMax if node.operator == "ArgMax" else reduce.ArgMin
    along, x = node.constant(np.array([axis], np.int32)), node[0]
    last = node.integer("select_last_index", 0)
    if last:
        x = node.apply(layout.ReverseV2(), x, along)
    found = node.apply(op(DType.INT64), x, along)
    if last:
        size = c.dimension(graph, node[0], axis)
        greatest = c.reshape(graph, c.subtract(graph, size, node.constant(np.array([1], np.int64))), [])
        found = c.subtract(graph, greatest, found)
    if not node.integer("keepdims", 1):
        return found
    return c.unsqueeze(graph, found, [axis if axis >= 0 else axis + node.rank()])


@rule("CumSum", "CumProd")
def accumulated(node: Node) -> Value:
    kind = reduce.Cumsum if node.operator == "CumSum" else reduce.Cumprod
    op = kind(bool(node.integer("exclusive", 0)), bool(node.integer("reverse", 0)))
    return node.apply(op, node[0], node[1])


def total(graph: Graph, x: Value, axes: list[int], keep: bool = True) -> Value:
    """The sum along axes that are known."""
    return graph.apply(reduce.Sum(keep), x, constant(np.array(axes, np.int32)))


def mean(graph: Graph, x: Value, axes: list[int], keep: bool = True) -> Value:
    """The mean along axes that are known."""
    return graph.apply(reduce.Mean(keep), x, constant(np.array(axes, np.int32)))


def greatest(graph: Graph, x: Value, axes: list[int], keep: bool = True) -> Value:
    """The greatest element along axes that are known."""
    return graph.apply(reduce.ReduceMax(keep), x, constant(np.array(axes, np.int32)))

