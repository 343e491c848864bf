"""Pooling, (n, c, spatial...)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops import pool, shape
from circlet.runtime.ops.window import slide
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.rules import Node, layer
from circlet.schema.openvino.windows import Axis, axes_of, flat, padded, padding_of


def _axes(node: Node) -> list[Axis]:
    """The windows, with the padding that rounding up adds."""
    axes = axes_of(node, node.integers("kernel"))
    if any(axis.dilation > 1 for axis in axes):
        raise node.refusal(f"dilations {[axis.dilation for axis in axes]}")
    rounding = node.choice("rounding_type", {each: each for each in ("floor", "ceil", "ceil_torch")}, "floor")
    is_same = node.text("auto_pad", "explicit").lower().startswith("same")
    if rounding == "floor" or is_same:
        return axes
    return [_rounded_up(node, axis, rounding == "ceil_torch") for axis in axes]


def _rounded_up(node: Node, axis: Axis, starts_inside: bool) -> Axis:
    """The axis padded so that the last window, which would overhang it, is there too."""
    if axis.length < 0:
        raise node.refusal("rounding up of a length that is not known before the model runs")
    count = -(-(axis.length + axis.before + axis.after - axis.span) // axis.stride) + 1
    if starts_inside and (count - 1) * axis.stride >= axis.length + axis.before:
        count -= 1
    needed = (count - 1) * axis.stride + axis.span - axis.length - axis.before
    return replace(axis, after=max(needed, 0))


def _pooled(node: Node, x: Value, function: type[pool.Pool], axes: Sequence[Axis], filler: float,
            padding: Padding | None) -> Value:
    """The pool of an image (n, h, w, c) or volume (n, d, h, w, c) with padding of a value."""
    if padding is None:
        x, padding = padded(node.graph, x, axes, filler), Padding.VALID
    if len(axes) == 3:
        return _pooled_volume(node, x, function, axes, padding)
    height, width = axes
    op = function(padding, width.stride, height.stride, filter_width=width.size, filter_height=height.size)
    return node.graph.apply(op, x)


def _pooled_volume(node: Node, x: Value, function: type[pool.Pool], axes: Sequence[Axis], padding: Padding) -> Value:
    """Pools height and width of each slice, then the depth."""
    g, shape = node.graph, x.shape
    if shape is None or any(dim < 0 for dim in shape[1:]):
        raise node.refusal("pooling of a volume whose shape is not known before the model runs")
    depth, *area = axes
    images = _pooled(node, c.reshape(g, x, (-1, *shape[2:])), function, area, 0, padding)
    lengths = [slide(axis.length + (0 if padding is Padding.SAME else axis.before + axis.after), axis.size,
                     axis.stride, padding).count for axis in axes]
    columns = c.reshape(g, images, (-1, shape[1], lengths[1] * lengths[2], shape[4]))
    pooled = _pooled(node, columns, function, [depth, Axis(lengths[1] * lengths[2], 1)], 0, padding)
    return c.reshape(g, pooled, (-1, *lengths, shape[4]))


def _image(g: Graph, x: Value, rank: int) -> Value:
    """(n, c, spatial...) as (n, h, w, c)."""
    x = c.channels_last(g, x)
    return c.unsqueeze(g, x, [1]) if rank == 3 else x


def _tensor(g: Graph, x: Value, rank: int) -> Value:
    """(n, h, w, c) as (n, c, spatial...)."""
    return c.channels_first(g, c.squeeze(g, x, [1]) if rank == 3 else x, rank)


@layer("MaxPool")
def max_pool(node: Node) -> Value:
    """The greatest elements."""
    g, rank, axes = node.graph, node.rank(0), flat(_axes(node))

    def pooled(x: Value) -> Value:
        filler = -inf if x.dtype.numpy.kind == "f" else float(np.iinfo(x.dtype.numpy).min)
        result = _pooled(node, _image(g, x, rank), pool.MaxPool2D, axes, filler, padding_of(axes))
        return _tensor(g, result, rank)

    return c.in_float32(g, pooled, node[0])


@layer("AvgPool")
def average_pool(node: Node) -> Value:
    """The means of the elements in the window, or, unless `exclude-pad`, of these and zeros around them."""
    g, rank, axes = node.graph, node.rank(0), flat(_axes(node))
    padding = padding_of(axes)
    is_excluded = node.flag("exclude-pad", node.flag("exclude_pad", False))

    def pooled(y: Value) -> Value:
        x = _image(g, y, rank)
        if padding is Padding.VALID or (padding is Padding.SAME and is_excluded):
            return _tensor(g, _pooled(node, x, pool.AveragePool2D, axes, 0, padding), rank)
        result = _pooled(node, x, pool.AveragePool2D, axes, 0, None)
        return _tensor(g, c.divide(g, result, _shares(node, y, rank, axes)) if is_excluded else result, rank)

    return c.in_float32(g, pooled, node[0])


def _shares(node: Node, x: Value, rank: int, axes: Sequence[Axis]) -> Value:
    """Which part of each window over x, (n, c, spatial...), lies on elements."""
    g = node.graph
    lengths = [c.integers([1] * (len(axes) - rank + 3)), c.dims(g, x, 2, rank), c.integers([1])]
    ones = g.apply(shape.Fill(), c.concatenate(g, lengths), c.number(1, DType.FLOAT32))
    return _pooled(node, ones, pool.AveragePool2D, axes, 0, None)
