"""Rules for operators that select or sample parts of images."""

from __future__ import annotations

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import detection, sample, unary
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
    """Of coordinates that are NaN ONNX does not tell; ONNX Runtime and PyTorch take -1."""
    mode = node.string("mode", "linear")
    if mode not in _MODES:
        raise ModelError(f"mode: expected {', '.join(_MODES)}, found {mode!r}")
    op = sample.GridSample(_MODES[mode], node.member("padding_mode", sample.Outside, "zeros"),
                           bool(node.integer("align_corners", 0)), nan_is_first=True)
    rank = c.rank_of(node[0])
    return c.channels_first(node.graph, node.apply(op, c.channels_last(node.graph, node[0]), node[1]), rank)


@rule("RoiAlign", since=10)
def roi_align(node: Node) -> Value:
    mode = node.string("mode", "avg")
    if mode not in ("avg", "max"):
        raise ModelError(f"mode: expected avg or max, found {mode!r}")
    if node.rank() != 4 or node.rank(1) != 2:
        node.unsupported("other inputs than images and boxes")
    frame = node.string("coordinate_transformation_mode", "half_pixel" if node.version >= 16 else "output_half_pixel")
    rows, columns = (node.integer(name, 1) for name in ("output_height", "output_width"))
    op = sample.RoiAlign(rows, columns, node.integer("sampling_ratio", 0), node.number("spatial_scale", 1.0),
                         frame == "half_pixel", mode == "max")
    g = node.graph
    return c.channels_first(g, g.apply(op, c.channels_last(g, node[0]), node[1], node[2]), 4)


@rule("MaxRoiPool")
def max_roi_pool(node: Node) -> Value:
    """The greatest elements of cells of boxes (n, 5), each the number of an image and its corners, those at the end
    inside; where cells lie is computed in float32, as ONNX Runtime does."""
    g, (x, boxes), sizes, scale = node.graph, (node[0], node[1]), node.integers("pooled_shape"), node.number(
        "spatial_scale", 1.0)
    if node.rank() != 4 or node.dtype() is not DType.FLOAT32 or len(sizes) != 2:
        node.unsupported("other than images of float32")
    bounds = []
    for axis, count in enumerate(sizes):
        first, last = (c.rounded(g, c.scale(g, c.part(g, boxes, 2, 1, column, column + 1), scale))
                       for column in (2 - axis, 4 - axis))
        length = c.maximum(g, c.shift(g, c.subtract(g, last, first), 1), c.like(1, first))
        size, cells = c.divide(g, length, c.like(count, length)), np.arange(count, dtype=np.float32)
        begin, end = c.floor(g, c.multiply(g, constant(cells), size)), g.apply(
            unary.Ceil(), c.multiply(g, constant(cells + 1), size))
        bounds.append(c.concatenate(g, [c.unsqueeze(g, c.cast(g, c.add(g, each, first), DType.INT32), [2])
                                        for each in (begin, end)], 2))
    image = c.cast(g, c.reshape(g, c.part(g, boxes, 2, 1, 0, 1), [-1]), DType.INT32)
    return c.channels_first(g, g.apply(sample.RegionMax(), c.channels_last(g, x), image, *bounds), 4)
