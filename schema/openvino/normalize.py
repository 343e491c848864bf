"""Normalisations."""

from __future__ import annotations

import numpy as np

from circlet.runtime.ops import normalize
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer


def axes_from_front(node: Node, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Axes of input 0, counted from the front and in order."""
    return tuple(sorted(node.axis(each, node.rank(0), "axes") for each in axes))


def _eps_inside(node: Node) -> bool:
    return node.choice("eps_mode", {"inside_sqrt": True, "outside_sqrt": False}, "inside_sqrt")


def _normalized(g: Graph, x: Value, axes: tuple[int, ...], variance: bool, eps: float, inside: bool) -> Value:
    """x less its mean over axes, divided by the deviation from it."""
    centered = c.subtract(g, x, c.mean(g, x, axes))
    if not variance:
        return centered
    spread = c.mean(g, c.square(g, centered), axes)
    if inside:
        return c.divide(g, centered, c.sqrt(g, c.shift(g, spread, eps)))
    return c.divide(g, centered, c.shift(g, c.sqrt(g, spread), eps))


@layer("MVN", since=2)
def mvn(node: Node) -> Value:
    """Normalised over the spatial axes, or those and the channels, or `reduction_axes`."""
    first = 1 if node.flag("across_channels", False) else 2
    axes = axes_from_front(node, node.integers("reduction_axes", range(first, node.rank(0))))
    variance, eps = node.flag("normalize_variance", True), node.number("eps")
    return c.in_float32(node.graph, lambda x: _normalized(node.graph, x, axes, variance, eps, inside=False), node[0])


@layer("MVN", since=6)
def mvn_6(node: Node) -> Value:
    """Normalised over the axes in input 1."""
    axes = axes_from_front(node, node.values(1, "axes"))
    variance, eps, inside = node.flag("normalize_variance", True), node.number("eps"), _eps_inside(node)
    return c.in_float32(node.graph, lambda x: _normalized(node.graph, x, axes, variance, eps, inside), node[0])


@layer("NormalizeL2")
def normalize_l2(node: Node) -> Value:
    """x divided by the square root of the sum of its squares over the axes in input 1."""
    g, eps = node.graph, node.number("eps")
    is_added = node.choice("eps_mode", {"add": True, "max": False})

    def normalized(x: Value) -> Value:
        squares = c.total(g, c.square(g, x), node.values(1, "axes"))
        return c.divide(g, x, c.sqrt(g, c.shift(g, squares, eps) if is_added else
                                     c.maximum(g, c.like(eps, squares), squares)))

    return c.in_float32(g, normalized, node[0])


def _by_channel(node: Node, x: Value, rank: int) -> Value:
    """A parameter for each channel, shaped to broadcast along axis 1 of the data."""
    return c.trailing(node.graph, x, rank - 2)


def _factor_and_offset(node: Node, gamma: Value, beta: Value, mean: Value, variance: Value) -> tuple[Value, Value]:
    """What the data is multiplied by, and what is added then."""
    g, epsilon = node.graph, node.number("epsilon")
    if gamma.data is not None and beta.data is not None and mean.data is not None and variance.data is not None:
        factor = gamma.data / np.sqrt(variance.data + variance.data.dtype.type(epsilon))
        return constant(factor), constant(beta.data - mean.data * factor)
    scale = c.divide(g, gamma, c.sqrt(g, c.shift(g, variance, epsilon)))
    return scale, c.subtract(g, beta, c.multiply(g, mean, scale))


@layer("BatchNormInference")
def batch_norm(node: Node) -> Value:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta by channel; inputs gamma, beta, data, mean, variance."""
    gamma, beta, x, mean, variance = node.exactly(5)
    return _batch_norm(node, x, gamma, beta, mean, variance)


@layer("BatchNormInference", since=5)
def batch_norm_5(node: Node) -> Value:
    """As before; inputs data, gamma, beta, mean, variance."""
    return _batch_norm(node, *node.exactly(5))


def _batch_norm(node: Node, x: Value, gamma: Value, beta: Value, mean: Value, variance: Value) -> Value:
    g = node.graph
    factor, offset = _factor_and_offset(node, gamma, beta, mean, variance)
    if x.rank is None:
        raise node.refusal("the rank of the data is not known before the model runs")
    return c.add(g, c.multiply(g, x, _by_channel(node, factor, x.rank)), _by_channel(node, offset, x.rank))


@layer("GRN")
def global_response(node: Node) -> Value:
    """x divided by the square root of the bias and the sum of its squares over channels."""
    g, bias = node.graph, node.number("bias")
    return c.in_float32(g, lambda x: c.divide(g, x, c.sqrt(g, c.shift(g, c.total(g, c.square(g, x), (1,)), bias))),
                        node[0])


@layer("GroupNormalization", since=12)
def group_normalization(node: Node) -> Value:
    """Normalised over groups of channels, then scaled and shifted by channel; inputs data, scale, bias."""
    g, (x, *factors) = node.graph, node.exactly(3)
    groups, eps, rank = node.integer("num_groups"), node.number("epsilon"), node.rank(0)
    whole = c.shape_of(g, x)

    def normalized(y: Value) -> Value:
        parted = _parted(g, y, groups)
        result = c.reshape_to(g, _normalized(g, parted, (2,), True, eps, inside=True), whole)
        scale, bias = (c.trailing(g, c.cast(g, each, y.dtype), rank - 2) for each in factors)
        return c.add(g, c.multiply(g, result, scale), bias)

    return c.in_float32(g, normalized, x)


def _parted(g: Graph, x: Value, groups: int) -> Value:
    """(n, groups * c, ...) as (n, groups, elements)."""
    return c.reshape_to(g, x, c.concatenate(g, [c.dims(g, x, 0, 1), c.integers([groups, -1])]))


@layer("LRN")
def lrn(node: Node) -> Value:
    """x / (bias + alpha / size * the sum of squares of `size` channels around) ** beta."""
    size, rank = node.integer("size"), node.rank(0)
    if axes_from_front(node, node.values(1, "axes")) != (1,) or size % 2 == 0:
        raise node.refusal("normalisation over other axes than the channels, or of an even size")
    bias, alpha, beta = (node.number(name) for name in ("bias", "alpha", "beta"))
    op = normalize.LocalResponseNormalization(size // 2, bias, alpha / size, beta)
    moved, back = c.axis_last(node.graph, node[0], 1, rank)
    return c.transpose(node.graph, node.graph.apply(op, moved), back)
