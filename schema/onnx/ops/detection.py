"""Rules for operators that select or sample parts of images."""

from __future__ import annotations

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import comparison, detection, sample
from circlet.runtime.ops.resample import Interpolation
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.shape import counted
from circlet.schema.onnx.rules import rule


@rule("NonMaxSuppression", since=10)
def non_max_suppression(node: Node) -> Value:
    op = detection.SelectBoxes(bool(node.integer("center_point_box", 0)))
    return node.apply(op, node[0], node[1], *(node.get(k) for k in range(2, 5)))


@rule("AffineGrid", since=20)
def affine_grid(node: Node) -> Value:
    """Of theta (n, k, k + 1) and the size of a batch of images (n, c, d1, ..., dk): (n, d1, ..., dk, k), each place,
    its last axis first, times theta. The function that ONNX gives drops the axis of a batch of one."""
    g, theta, is_aligned = node.graph, node[0], bool(node.integer("align_corners", 0))
    count = (node[1].shape or (0,))[0] - 2
    if count not in (2, 3):
        node.unsupported("a size of other than 4 or 5 numbers")

    def column(number: int) -> Value:
        found = c.gather(g, theta, constant(np.array(number, np.int64)), 2)
        return c.unsqueeze(g, found, range(1, count + 1))

    place = column(count)
    for axis in range(count):
        along = _places(g, c.reshape(g, c.part_of(g, node[1], axis + 2, axis + 3), []), theta.dtype, is_aligned)
        shape = [-1 if k == axis else 1 for k in range(count)]
        place = c.add(g, place, c.multiply(g, c.reshape(g, along, [*shape, 1]), column(count - 1 - axis)))
    return place


def _places(g: Graph, length: Value, dtype: DType, is_aligned: bool) -> Value:
    """Where the elements of an axis lie from -1 to 1, which are their outermost edges or, aligned, centres; a single
    one at 0."""
    whole, count = c.cast(g, length, dtype), c.cast(g, counted(g, length), dtype)
    apart = c.shift(g, whole, -1.0)
    step = c.divide(g, c.like(2.0, whole), c.maximum(g, apart, c.like(1.0, whole)) if is_aligned else whole)
    start = c.maximum(g, c.negative(g, apart), c.like(-1.0, whole)) if is_aligned else c.shift(
        g, c.scale(g, step, 0.5), -1.0)
    return c.add(g, c.multiply(g, count, step), start)


_MODES = {prefix + each.value: each for prefix in ("", "bi") for each in Interpolation}
"""Version 16 has other names than later ones."""


@rule("GridSample", since=16)
def grid_sample(node: Node) -> Value:
    mode = node.string("mode", "linear")
    if mode not in _MODES:
        raise ModelError(f"mode: expected {', '.join(_MODES)}, found {mode!r}")
    op = sample.GridSample(_MODES[mode], node.member("padding_mode", sample.Outside, "zeros"),
                           bool(node.integer("align_corners", 0)))
    return node.apply(op, node[0], node[1])


@rule("RoiAlign", since=10)
def roi_align(node: Node) -> Value:
    """Of images (b, c, h, w), boxes (n, 4) and the image of each (n,): (n, c, rows, columns), means of samples between
    elements, as many along each axis of a cell."""
    g, samples = node.graph, node.integer("sampling_ratio", 0)
    if samples < 1 or node.string("mode", "avg") != "avg" or node.rank() != 4 or node.rank(1) != 2:
        node.unsupported("sampling_ratio 0, mode 'max' or other inputs than images and boxes")
    frame = node.string("coordinate_transformation_mode", "half_pixel" if node.version >= 16 else "output_half_pixel")
    boxes = c.shift(g, c.scale(g, node[1], node.number("spatial_scale", 1.0)), -0.5 if frame == "half_pixel" else 0.0)
    sizes = [node.integer(name, 1) for name in ("output_height", "output_width")]
    cells, lengths = [], []
    for k, size in enumerate(sizes):
        lengths.append(c.reshape(g, c.dimension(g, node[0], 2 + k), []))
        begin, end = (c.part(g, boxes, 2, 1, column, column + 1) for column in (1 - k, 3 - k))
        span = c.subtract(g, end, begin)
        span = span if frame == "half_pixel" else c.maximum(g, span, c.like(1.0, span))
        cells.append(_between(g, begin, span, lengths[k], size * samples))
    rows = c.reshape_to(g, c.channels_last(g, node[0]), c.concatenate(g, [c.integers([-1]), c.dims(g, node[0], 1, 2)]))
    image, total = c.unsqueeze(g, c.cast(g, node[2], DType.INT64), [1]), None
    for row, row_share in cells[0]:
        line = c.multiply(g, c.add(g, c.multiply(g, image, lengths[0]), row), lengths[1])
        for column, share in cells[1]:
            place = c.add(g, c.unsqueeze(g, line, [2]), c.unsqueeze(g, column, [1]))
            weight = c.multiply(g, c.unsqueeze(g, row_share, [2]), c.unsqueeze(g, share, [1]))
            found = c.multiply(g, c.gather(g, rows, place, 0), c.unsqueeze(g, weight, [3]))
            total = found if total is None else c.add(g, total, found)
    assert total is not None, "there are four corners"
    split = [c.dims(g, node[1], 0, 1), c.integers([sizes[0], samples, sizes[1], samples]), c.dims(g, node[0], 1, 2)]
    means = c.mean(g, c.reshape_to(g, total, c.concatenate(g, split)), [2, 4], keep=False)
    return c.transpose(g, means, (0, 3, 1, 2))


def _between(g: Graph, begin: Value, span: Value, length: Value, count: int) -> list[tuple[Value, Value]]:
    """Places along an axis, evenly spaced in a span, as two neighbours each and what these count: (n, count).

    Args:
        g: the graph.
        begin, span: where the span begins and how long it is, (n, 1).
        length: of the axis; what is more than one element outside counts nothing.
        count: of places.
    """
    middles = constant(((np.arange(count) + 0.5) / count).astype(np.float32))
    place, most = c.add(g, begin, c.multiply(g, span, middles)), c.cast(g, length, DType.FLOAT32)
    outside = g.apply(comparison.LogicalOr(), c.less(g, place, c.like(-1.0, place)), c.greater(g, place, most))
    last = c.shift(g, most, -1.0)
    inner = c.minimum(g, c.maximum(g, place, c.like(0.0, place)), last)
    low = c.floor(g, inner)
    share = c.subtract(g, inner, low)
    shares = (c.subtract(g, c.like(1.0, share), share), share)
    return [(c.cast(g, each, DType.INT64), c.select(g, outside, c.like(0.0, part), part))
            for each, part in zip((low, c.minimum(g, c.shift(g, low, 1.0), last)), shares, strict=True)]
