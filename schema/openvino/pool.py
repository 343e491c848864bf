"""Pooling, (n, c, spatial...)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from functools import reduce as fold
from math import inf, prod

import numpy as np

from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops import comparison, pool, shape
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.rules import Node, layer
from circlet.schema.openvino.windows import Axis, Overhang, axes_of, flat, padded, padding_of, taps, windows_of


def _axes(node: Node) -> list[Axis]:
    """The windows, with the padding that rounding up adds."""
    axes = axes_of(node, node.integers("kernel"))
    rounding = node.choice("rounding_type", {each: each for each in ("floor", "ceil", "ceil_torch")}, "floor")
    is_same = node.text("auto_pad", "explicit").lower().startswith("same")
    if rounding == "floor" or is_same:
        return axes
    return [_rounded_up(axis, rounding == "ceil_torch") for axis in axes]


def _rounded_up(axis: Axis, starts_inside: bool) -> Axis:
    """The axis padded so that the last window, which would overhang it, is there too."""
    if axis.length < 0:
        return replace(axis, overhang=Overhang.INSIDE if starts_inside else Overhang.ANY)
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
    if any(axis.dilation > 1 for axis in axes):
        return fold(partial(c.maximum, node.graph), taps(node.graph, x, axes))
    if len(axes) == 3:
        return _pooled_volume(node, x, function, axes, padding)
    height, width = axes
    op = function(padding, width.stride, height.stride, filter_width=width.size, filter_height=height.size)
    return node.graph.apply(op, x)


def _pooled_volume(node: Node, x: Value, function: type[pool.Pool], axes: Sequence[Axis], padding: Padding) -> Value:
    """Pools height and width of each slice, then the depth."""
    g, (depth, *area), any_ = node.graph, axes, c.integers([-1])

    def shaped(value: Value, *sizes: Value) -> Value:
        return c.reshape_to(g, value, c.concatenate(g, sizes))

    images = _pooled(node, shaped(x, any_, c.dims(g, x, 2, 5)), function, area, 0, padding)
    columns = shaped(images, c.dims(g, x, 0, 2), any_, c.dims(g, x, 4, 5))
    pooled = _pooled(node, columns, function, [depth, Axis(-1, 1)], 0, padding)
    return shaped(pooled, c.dims(g, pooled, 0, 2), c.dims(g, images, 1, 3), c.dims(g, x, 4, 5))


def _image(g: Graph, x: Value, rank: int) -> Value:
    """(n, c, spatial...) as (n, h, w, c)."""
    x = c.channels_last(g, x)
    return c.unsqueeze(g, x, [1]) if rank == 3 else x


def _tensor(g: Graph, x: Value, rank: int) -> Value:
    """(n, h, w, c) as (n, c, spatial...)."""
    return c.channels_first(g, c.squeeze(g, x, [1]) if rank == 3 else x, rank)


@layer("MaxPool")
def max_pool(node: Node) -> tuple[Value, ...]:
    """The greatest elements, and where they lie."""
    g, rank, axes = node.graph, node.rank(0), flat(_axes(node))

    def pooled(x: Value) -> Value:
        padding = None if any(axis.dilation > 1 for axis in axes) else padding_of(axes)
        result = _pooled(node, _image(g, x, rank), pool.MaxPool2D, axes, _least(x), padding)
        return _tensor(g, result, rank)

    values = c.in_float32(g, pooled, node[0])
    return (values, _places(node, axes)) if node.wants(1) else (values,)


def _least(x: Value) -> float:
    """What no element of a type is below."""
    return -inf if x.dtype.numpy.kind == "f" else float(np.iinfo(x.dtype.numpy).min)


def _places(node: Node, axes: Sequence[Axis]) -> Value:
    """Where the greatest elements of windows lie, the first of equal ones, counted from the axis on that the layer
    names; no padding is the greatest."""
    g, rank, dtype = node.graph, node.rank(0), node.dtype("index_element_type", "i64")
    from_axis = node.axis(node.integer("axis", 0), rank)
    x = c.cast(g, node[0], DType.FLOAT32) if node[0].dtype is DType.FLOAT16 else node[0]
    lengths = [c.cast(g, c.dimension(g, x, axis), DType.INT32) for axis in range(rank)]
    own = _numbered(g, [c.integers([1], DType.INT32)] * 2 + lengths[2:], max(from_axis, 2))
    elements = taps(g, padded(g, _image(g, x, rank), axes, _least(x)), axes)
    numbers = taps(g, padded(g, _image(g, own, rank), axes, -1), axes)
    best, where = elements[0], c.broadcast_to(g, numbers[0], c.shape_of(g, elements[0]))
    for tap, number in zip(elements[1:], numbers[1:], strict=True):
        takes = _both(g, c.greater(g, number, c.like(-1, number)), g.apply(
            comparison.LogicalOr(), c.greater(g, tap, best), c.less(g, where, c.like(0, where))))
        best, where = c.select(g, takes, tap, best), c.select(g, takes, number, where)
    found = _tensor(g, where, rank)
    if from_axis < 2:
        outer = _numbered(g, lengths[:2], from_axis)
        area = fold(partial(c.multiply, g), lengths[2:])
        found = c.add(g, found, c.trailing(g, c.multiply(g, outer, area), rank - 2))
    return c.cast(g, found, dtype)


def _both(g: Graph, a: Value, b: Value) -> Value:
    return g.apply(comparison.LogicalAnd(), a, b)


def _numbered(g: Graph, lengths: Sequence[Value], first: int) -> Value:
    """The numbers of the elements of axes of such lengths, counted from an axis on: (..., length)."""
    rank, found, step = len(lengths), None, c.integers([1], DType.INT32)
    for axis in reversed(range(rank)):
        along = c.multiply(g, c.counted(g, c.reshape(g, lengths[axis], [])), step if axis >= first else c.like(0, step))
        each = c.reshape(g, along, [1] * axis + [-1] + [1] * (rank - 1 - axis))
        found = each if found is None else c.add(g, found, each)
        step = c.multiply(g, step, lengths[axis])
    assert found is not None
    return found


@layer("AvgPool")
def average_pool(node: Node) -> Value:
    """The means of the elements in the window, or, unless `exclude-pad`, of these and zeros around them.

    What windows cover beyond the last element where their count is rounded up counts as zeros only where the layer has
    paddings, as in OpenVINO's CPU plugin and, but for these, in PyTorch.
    """
    g, rank, axes = node.graph, node.rank(0), flat(_axes(node))
    padding = padding_of(axes)
    is_excluded = node.flag("exclude-pad", node.flag("exclude_pad", False)) or not _has_padding(node)

    def pooled(y: Value) -> Value:
        x = _image(g, y, rank)
        if padding is Padding.VALID or (padding is Padding.SAME and is_excluded):
            return _tensor(g, _pooled(node, x, pool.AveragePool2D, axes, 0, padding), rank)
        result = _pooled(node, x, pool.AveragePool2D, axes, 0, None)
        return _tensor(g, c.divide(g, result, _shares(node, y, rank, axes)) if is_excluded else result, rank)

    return c.in_float32(g, pooled, node[0])


def _has_padding(node: Node) -> bool:
    """Whether there is padding but for what rounding up adds."""
    mode = node.text("auto_pad", "explicit").lower()
    paddings = (*node.integers("pads_begin", ()), *node.integers("pads_end", ()))
    return mode.startswith("same") or (mode != "valid" and any(paddings))


def _shares(node: Node, x: Value, rank: int, axes: Sequence[Axis]) -> Value:
    """Which part of each window over x, (n, c, spatial...), lies on elements."""
    g = node.graph
    lengths = [c.integers([1] * (len(axes) - rank + 3)), c.dims(g, x, 2, rank), c.integers([1])]
    ones = g.apply(shape.Fill(), c.concatenate(g, lengths), c.number(1, DType.FLOAT32))
    return _pooled(node, ones, pool.AveragePool2D, axes, 0, None)


@layer("ExtractImagePatches", since=3)
def extract_image_patches(node: Node) -> Value:
    """What windows cover, one element behind another: (n, height width c, rows, columns)."""
    g, size, steps, rates = node.graph, *(node.integers(name) for name in ("sizes", "strides", "rates"))
    if not len(size) == len(steps) == len(rates) == 2 or node.rank(0) != 4:
        raise node.error(f"expected sizes, strides and rates of images, found {size}, {steps} and {rates}")
    node.bounded(prod(size))
    axes = windows_of(node, size, steps, rates, [0, 0], [0, 0])
    x = padded(g, c.channels_last(g, node[0]), axes)
    return c.channels_first(g, c.concatenate(g, taps(g, x, axes), 3), 4)
