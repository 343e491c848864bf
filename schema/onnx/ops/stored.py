"""Rules for convolutions of stored integers."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.runtime.ir.types import Array, DType
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.conv import convolved
from circlet.schema.onnx.ops.matmul import Stored, centered, signed
from circlet.schema.onnx.ops.quantize import column, rescaled
from circlet.schema.onnx.rules import rule
from circlet.schema.onnx.windows import windows

_REACH = 255
"""How far stored bytes are from their zero point at the most."""


@rule("ConvInteger")
def convolution_of_integers(node: Node) -> Value:
    return sums_of_windows(node, (node[0], node.get(2)), _weights(node, 1, 3), None)


@rule("QLinearConv", since=10)
def quantized_convolution(node: Node) -> Value:
    channels = [1] * (node.rank() - 2)
    sums = sums_of_windows(node, (node[0], node[2]), _weights(node, 3, 5), node.get(8))
    return rescaled(node.graph, sums, [column(node, node[1], []), column(node, node[4], channels)], node[6], node[7])


def _weights(node: Node, position: int, zero: int) -> Value:
    """A filter as int32, less its zero point."""
    known, point = node.known(position), node.get(zero)
    if known is None or (point is not None and point.data is None):
        return centered(node, position, zero, list(range(1, node.rank(position))))
    return constant(centered_weights(known, None if point is None else point.data))


def centered_weights(weights: Array, zero: Array | None) -> Array:
    """A filter (o, c, ...) as int32, less its zero point: one number, or one for each channel."""
    taken = np.zeros((), np.int32) if zero is None else zero.astype(np.int32)
    centered: Array = weights - taken.reshape(-1, *(1,) * (weights.ndim - 1))
    return centered


def sums_of_windows(node: Node, x: Stored, weights: Value, bias: Value | None) -> Value:
    """The convolution of bytes, less their zero point, with weights (o, c, ...) and a bias (o,) of int32: int32.

    Where each channel is by itself and float32 holds all sums exactly, it is one of these; else one of bytes. Weights
    of nine bits are bytes and a number for each channel, by which what the window holds is multiplied. Doubles are
    exact always.
    """
    known, rank = weights.data, node.rank() - 2
    if known is not None:
        depth = prod(known.shape[1:])
        if depth == prod(known.shape[2:]) and depth * _REACH * int(np.abs(known).max(initial=0)) < 1 << 24:
            return _sums_of_reals(node, x, weights, bias, DType.FLOAT32)
        if rank <= 2:
            return _sums_of_wide(node, x, known, bias)
    return _sums_of_reals(node, x, weights, bias, DType.FLOAT64)


def _sums_of_wide(node: Node, x: Stored, weights: Array, bias: Value | None) -> Value:
    """The same, of bytes less a zero point for each channel as weights; of groups, each window is summed up for each
    channel. Signed bytes x with the zero point p are surrounded by it: x w - p 1 w, where 1 sums up."""
    graph, (given, zero) = node.graph, x
    data, point = signed(graph, given, None if zero is None else c.reshape(graph, zero, []))
    outside = None if point is None else c.cast(graph, point, DType.INT8)
    offset = _offset(weights)
    begin = _begin(node, weights.sum(axis=tuple(range(1, weights.ndim)), dtype=np.int32), point, bias)
    inside = begin if begin is not None and begin.is_constant else None
    sums = convolved(node, data, constant((weights - offset).astype(np.int8)), inside, outside)
    if offset.any():
        totals = _totals(node, data, weights, outside)
        sums = c.add(graph, sums, c.multiply(graph, totals, constant(offset[..., 0])))
    return sums if inside is begin else _with_bias(node, sums, begin)


def _totals(node: Node, data: Value, weights: Array, outside: Value | None) -> Value:
    """What the windows of weights hold, summed up: (n, 1, ...), or of groups (n, o, ...), int32."""
    if node.integer("group", 1) > 1:
        return convolved(node, data, constant(np.ones_like(weights, np.int8)), None, outside)
    found = windows(node, weights.shape[2:])
    if not found.is_padded and all(each == 1 for each in (*found.size, *found.stride)):
        return c.total(node.graph, c.cast(node.graph, data, DType.INT32), [1])
    return convolved(node, data, constant(np.ones_like(weights[:1], np.int8)), None, outside)


def _offset(weights: Array) -> Array:
    """The least numbers (o, 1, ...) less which the weights of each channel are signed bytes."""
    axes = tuple(range(1, weights.ndim))
    above = weights.max(axis=axes, keepdims=True, initial=127) - 127
    below = weights.min(axis=axes, keepdims=True, initial=-128) + 128
    found: Array = above + below
    return found


def _sums_of_reals(node: Node, x: Stored, weights: Value, bias: Value | None, dtype: DType) -> Value:
    graph, (data, point) = node.graph, x
    moved = c.cast(graph, data, DType.INT32)
    if point is not None:
        moved = c.subtract(graph, moved, c.cast(graph, c.reshape(graph, point, []), DType.INT32))
    real, filters = (c.cast(graph, each, dtype) for each in (moved, weights))
    return _with_bias(node, c.cast(graph, convolved(node, real, filters, None), DType.INT32), bias)


def _begin(node: Node, totals: Array, point: Value | None, bias: Value | None) -> Value | None:
    """What sums begin with, given those of the weights, (o,), the zero point and the bias: a constant, where these
    are."""
    if point is None:
        return bias
    if point.data is not None and (bias is None or bias.data is not None):
        found: Array = -point.data * totals
        return constant(found if bias is None or bias.data is None else found + bias.data)
    found_in_run = c.multiply(node.graph, c.negative(node.graph, point), constant(totals))
    return found_in_run if bias is None else c.add(node.graph, found_in_run, bias)


def _with_bias(node: Node, sums: Value, bias: Value | None) -> Value:
    if bias is None:
        return sums
    return c.add(node.graph, sums, c.reshape(node.graph, bias, [-1] + [1] * (node.rank() - 2)))
