"""Pooling, (n, c, spatial...)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from functools import reduce as fold
from math import inf, prod

import numpy as np

from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops import comparison, elementwise, pool, reduce, shape
from circlet.runtime.ops.layout import StridedSlice
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.matmul import matrix_product
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
def max_pool(node: Node) -> Value:
    """The greatest elements."""
    g, rank, axes = node.graph, node.rank(0), flat(_axes(node))

    def pooled(x: Value) -> Value:
        filler = -inf if x.dtype.numpy.kind == "f" else float(np.iinfo(x.dtype.numpy).min)
        padding = None if any(axis.dilation > 1 for axis in axes) else padding_of(axes)
        result = _pooled(node, _image(g, x, rank), pool.MaxPool2D, axes, filler, padding)
        return _tensor(g, result, rank)

    return c.in_float32(g, pooled, node[0])


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


MOST_CELLS = 256
"""Along all axes of an adaptive pool together: a choice, as each is a slice of its own."""


@layer("AdaptiveAvgPool", since=8)
def adaptive_average_pool(node: Node) -> Value:
    """The means of as many cells along each axis as input 1 says, which cover it and may overlap."""
    if node[1].data is None:
        return c.in_float32(node.graph, lambda x: _means_of_cells(node, x), node[0])
    return _adaptive(node, lambda x, axis: c.mean(node.graph, x, [axis]))


def _means_of_cells(node: Node, x: Value) -> Value:
    """The means of as many cells as the run tells: along each axis a product with the share that an element has."""
    g, rank = node.graph, node.rank(0)
    for axis in range(2, rank):
        count = c.cast(g, c.part_of(g, node[1], axis - 2, axis - 1), DType.INT64)
        length = c.dimension(g, x, axis)
        numbers, places = (c.counted(g, c.reshape(g, each, [])) for each in (count, length))
        begin = g.apply(elementwise.FloorDiv(), c.multiply(g, numbers, length), count)
        above = c.shift(g, c.add(g, c.multiply(g, c.shift(g, numbers, 1), length), count), -1)
        end = g.apply(elementwise.FloorDiv(), above, count)
        begin, end = (c.unsqueeze(g, each, [-1]) for each in (begin, end))
        is_in = g.apply(comparison.LogicalAnd(), g.apply(comparison.GreaterEqual(), places, begin),
                        c.less(g, places, end))
        shares = c.divide(g, c.cast(g, is_in, x.dtype), c.cast(g, c.subtract(g, end, begin), x.dtype))
        last, back = c.axis_last(g, x, axis, rank)
        x = c.transpose(g, matrix_product(g, last, shares, transpose_b=True), back)
    return x


@layer("AdaptiveMaxPool", since=8)
def adaptive_max_pool(node: Node) -> Value:
    """The greatest elements of the same."""
    g = node.graph
    return _adaptive(node, lambda x, axis: g.apply(reduce.ReduceMax(keep_dims=True), x, c.axes_of([axis])))


def _adaptive(node: Node, combine: Callable[[Value, int], Value]) -> Value:
    g, rank, counts = node.graph, node.rank(0), node.values(1, "output_shape")
    if len(counts) != rank - 2 or min(counts, default=1) < 1:
        raise node.error(f"output_shape: expected {rank - 2} positive sizes, found {counts}")
    if sum(counts) > MOST_CELLS:
        raise node.refusal(f"more than {MOST_CELLS} cells")

    def pooled(x: Value) -> Value:
        for axis, count in enumerate(counts, 2):
            cells = [x] if count == 1 else [_cell(g, x, axis, k, count) for k in range(count)]
            x = c.concatenate(g, [combine(each, axis) for each in cells], axis)
        return x

    return c.in_float32(g, pooled, node[0])


def _cell(g: Graph, x: Value, axis: int, k: int, count: int) -> Value:
    """The elements of an axis in cell k of so many: from floor(k n / count) to ceil((k + 1) n / count)."""
    rank = c.rank_of(x)
    length = -1 if x.shape is None else x.shape[axis]
    if length >= 0:
        return c.part(g, x, rank, axis, k * length // count, -(-(k + 1) * length // count))
    size, whole = c.dimension(g, x, axis), (1 << rank) - 1 & ~(1 << axis)
    borders = [c.floor_divided(g, c.shift(g, c.scale(g, size, k + more), up), count)
               for more, up in ((0, 0), (1, count - 1))]
    bounds = [c.concatenate(g, [c.integers([0] * axis), each, c.integers([0] * (rank - axis - 1))]) for each in borders]
    return g.apply(StridedSlice(begin_mask=whole, end_mask=whole), x, *bounds, c.integers([1] * rank))


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
