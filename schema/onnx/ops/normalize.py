"""Rules for softmax and normalisations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, normalize, pad, reduce, shape, unary
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.reduce import greatest, mean, total
from circlet.schema.onnx.ops.shape import flat
from circlet.schema.onnx.rules import rule


@rule("Softmax", "LogSoftmax", "Hardmax", since=13)
def softmax(node: Node) -> Value:
    axis = node.integer("axis", -1)
    if axis == -1 or axis == node.rank() - 1:
        return _over_last(node, node[0])
    axis = c.axis_of(node[0], axis)
    order = list(range(node.rank()))
    order[axis], order[-1] = order[-1], order[axis]
    return c.transpose(node.graph, _over_last(node, c.transpose(node.graph, node[0], order)), order)


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax_1(node: Node) -> Value:
    rows = flat(node, node.integer("axis", 1))
    return c.reshape_to(node.graph, _over_last(node, rows), c.shape_of(node.graph, node[0]))


def _over_last(node: Node, x: Value) -> Value:
    """The function of the node over the last axis."""
    graph = node.graph
    if node.operator == "Hardmax":
        depth = c.cast(graph, c.reshape(graph, c.dimension(graph, x, -1), []), DType.INT32)
        return node.apply(shape.OneHot(-1), _place_of_greatest(node, x), depth, node.like(1), node.like(0))
    ops: dict[str, Op] = {"Softmax": normalize.Softmax(1.0), "LogSoftmax": normalize.LogSoftmax()}
    if x.dtype is DType.FLOAT32:
        return graph.apply(ops[node.operator], x)
    shifted = c.subtract(graph, x, greatest(graph, x, [-1]))
    powers = graph.apply(unary.Exp(), shifted)
    if node.operator == "Softmax":
        single = DType.FLOAT32 if node.dtype() is DType.FLOAT16 else node.dtype()
        return c.divide(graph, powers, c.cast(graph, total(graph, c.cast(graph, powers, single), [-1]), node.dtype()))
    return c.subtract(graph, shifted, graph.apply(unary.Log(), total(graph, powers, [-1])))


def _place_of_greatest(node: Node, x: Value) -> Value:
    """Along the last axis; any number where that has no elements."""
    along = node.constant(np.array([-1], np.int32))
    if x.shape is None or x.shape[-1] < 1:
        amounts = np.zeros((c.rank_of(x), 2), np.int32)
        amounts[-1, 1] = 1
        x = node.apply(pad.PadV2(), x, node.constant(amounts), node.like(-np.inf))
    return node.apply(reduce.ArgMax(DType.INT64), x, along)


def _by_channel(node: Node, parameter: Value) -> Value:
    """A parameter for each channel, axis 1 of the input, so that it broadcasts against the input."""
    return c.reshape(node.graph, parameter, [-1, *[1] * (node.rank() - 2)])


@rule("BatchNormalization", since=9)
def batch_normalization_9(node: Node) -> Sequence[Value | None]:
    return _batch_normalized(node)


def _batch_normalized(node: Node) -> Sequence[Value | None]:
    graph, epsilon = node.graph, node.number("epsilon", 1e-5)
    if not node.integer("training_mode", 0):
        return _normalized_by(node, node[3], node[4], epsilon), None, None, None, None
    axes = [axis for axis in range(node.rank()) if axis != 1]
    center = mean(graph, node[0], axes, keep=False)
    deviation = c.subtract(graph, node[0], mean(graph, node[0], axes))
    spread = mean(graph, node.apply(unary.Square(), deviation), axes, keep=False)
    momentum = node.number("momentum", 0.9)
    running = [c.add(graph, c.multiply(graph, old, c.like(momentum, old)),
                   c.multiply(graph, c.cast(graph, new, old.dtype), c.like(1 - momentum, old)))
               for old, new in ((node[3], center), (node[4], spread))]
    return _normalized_by(node, center, spread, epsilon), *running


@rule("BatchNormalization")
def batch_normalization_7(node: Node) -> Sequence[Value | None]:
    if not node.integer("spatial", 1):
        node.unsupported("statistics for each position")
    return _batch_normalized(node)


def _normalized_by(node: Node, center: Value, spread: Value, epsilon: float) -> Value:
    """The input normalised by means and variances for each channel, then scaled and shifted."""
    graph = node.graph
    known = [each.data for each in (node[1], node[2], center, spread)]
    if all(each is not None for each in known):
        scale, shift, middle, variance = (np.asarray(each, np.float64) for each in known)
        factor = scale / np.sqrt(variance + epsilon)
        factors = [constant(each.astype(node.dtype().numpy)) for each in (factor, shift - middle * factor)]
    else:
        deviation = graph.apply(unary.Sqrt(), c.add(graph, spread, c.like(epsilon, spread)))
        ratio = c.divide(graph, node[1], deviation)
        factors = [ratio, c.subtract(graph, node[2], c.multiply(graph, center, ratio))]
    by_channel = [_by_channel(node, c.cast(graph, each, node.dtype())) for each in factors]
    return c.add(graph, c.multiply(graph, node[0], by_channel[0]), by_channel[1])


@rule("InstanceNormalization", since=6)
def instance_normalization(node: Node) -> Value:
    graph = node.graph
    normal = standardized(node, node[0], list(range(2, node.rank())), node.number("epsilon", 1e-5))[0]
    return c.add(graph, c.multiply(graph, normal, _by_channel(node, node[1])), _by_channel(node, node[2]))


def standardized(node: Node, x: Value, axes: list[int], epsilon: float) -> tuple[Value, Value, Value]:
    """A tensor with mean 0 and variance 1 along axes; the mean and 1 / deviation."""
    graph = node.graph
    center = mean(graph, x, axes)
    shifted = c.subtract(graph, x, center)
    spread = mean(graph, graph.apply(unary.Square(), shifted), axes)
    inverse = graph.apply(unary.Rsqrt(), c.add(graph, spread, c.like(epsilon, spread)))
    return c.multiply(graph, shifted, inverse), center, inverse


@rule("LayerNormalization")
def layer_normalization(node: Node) -> Sequence[Value]:
    graph, rank = node.graph, node.rank()
    axes = list(range(c.axis_of(node[0], node.integer("axis", -1)), rank))
    x = c.cast(graph, node[0], DType.FLOAT32) if node.integer("stash_type", 1) == 1 else node[0]
    normal, center, inverse = standardized(node, x, axes, node.number("epsilon", 1e-5))
    result = c.multiply(graph, c.cast(graph, normal, node.dtype()), node[1])
    bias = node.get(2)
    return result if bias is None else c.add(graph, result, bias), center, inverse


@rule("RMSNormalization")
def rms_normalization(node: Node) -> Value:
    axes = list(range(c.axis_of(node[0], node.integer("axis", -1)), node.rank()))
    wide = node.integer("stash_type", 1) == 1
    normal, _ = by_root(node, c.cast(node.graph, node[0], DType.FLOAT32) if wide else node[0], axes)
    return c.multiply(node.graph, c.cast(node.graph, normal, node.dtype(1)), node[1])


def by_root(node: Node, x: Value, axes: list[int]) -> tuple[Value, Value]:
    """A tensor over the root of its mean square along axes, and one over that root."""
    graph, epsilon = node.graph, node.number("epsilon", 1e-5)
    single = c.cast(graph, x, DType.FLOAT32) if x.dtype is DType.FLOAT16 else x
    squares = mean(graph, graph.apply(unary.Square(), single), axes)
    inverse = graph.apply(unary.Rsqrt(), c.add(graph, squares, c.like(epsilon, squares)))
    return c.cast(graph, c.multiply(graph, single, inverse), node.dtype()), inverse


@rule("LRN")
def lrn(node: Node) -> Value:
    graph, size, rank = node.graph, node.integer("size"), node.rank()
    if size % 2 == 0 or node.dtype() is not DType.FLOAT32:
        node.unsupported(f"size {size} of {node.dtype().value}")
    alpha, beta, bias = node.number("alpha", 1e-4), node.number("beta", 0.75), node.number("bias", 1.0)
    op = normalize.LocalResponseNormalization(size // 2, bias, alpha / size, beta)
    last, first = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    return c.transpose(graph, graph.apply(op, c.transpose(graph, node[0], last)), first)


@rule("LpNormalization")
def lp_normalization(node: Node) -> Value:
    graph, axes, order = node.graph, [node.integer("axis", -1)], node.integer("p", 2)
    if order == 1:
        norm = total(graph, node.apply(unary.Abs(), node[0]), axes)
    else:
        norm = node.apply(unary.Sqrt(), total(graph, node.apply(unary.Square(), node[0]), axes))
    zero = node.apply(comparison.Equal(), norm, node.like(0))
    ratio = c.divide(graph, node[0], norm)
    return graph.apply(comparison.SelectV2(), zero, node.like(0), ratio)

