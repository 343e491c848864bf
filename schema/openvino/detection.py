"""Layers of detectors, and samples of images."""

from __future__ import annotations

from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops import detection, index, pool, resample, sample, sort
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Value
from circlet.schema.openvino.rules import Node, layer

_MODES = {"bilinear": resample.Interpolation.LINEAR, "bicubic": resample.Interpolation.CUBIC,
          "nearest": resample.Interpolation.NEAREST}
_BORDERS = {each.value: each for each in sample.Outside}


@layer("GridSample", since=9)
def grid_sample(node: Node) -> Value:
    """Images in input 0 at the places in input 1."""
    op = sample.GridSample(node.choice("mode", _MODES, "bilinear"), node.choice("padding_mode", _BORDERS, "zeros"),
                           node.flag("align_corners", False))
    g, (images, places) = node.graph, node.exactly(2)
    return c.channels_first(g, g.apply(op, c.channels_last(g, images), places), 4)


@layer("ROIAlign", since=3)
def roi_align(node: Node) -> Value:
    """The mode `half_pixel` has boxes moved by half an element of what they are relative to."""
    samples, mode = node.integer("sampling_ratio"), node.choice(
        "aligned_mode", {each: each for each in ("asymmetric", "half_pixel_for_nn", "half_pixel")}, "asymmetric")
    is_max = node.choice("mode", {"avg": False, "max": True})
    if is_max and samples < 1:
        raise node.refusal("the greatest of as many samples as a box has")
    if (node.rank(0), node.rank(1)) != (4, 2):
        raise node.error(f"expected images and boxes, found shapes {node.shape(0)} and {node.shape(1)}")
    rows, columns = (node.integer(name) * (samples if is_max else 1) for name in ("pooled_h", "pooled_w"))
    op = sample.RoiAlign(rows, columns, 1 if is_max else samples, node.number("spatial_scale"), mode != "asymmetric")

    def aligned(images: Value, boxes: Value) -> Value:
        g, placed = node.graph, c.shift(node.graph, boxes, 0.5 if mode == "half_pixel" else 0.0)
        found = g.apply(op, c.channels_last(g, images), placed, node[2])
        return c.channels_first(g, _greatest(node, found, samples) if is_max else found, 4)

    return c.in_float32(node.graph, aligned, node[0], node[1])


def _greatest(node: Node, found: Value, samples: int) -> Value:
    """The greatest of the samples of each cell of a box, where each is a cell of its own, and of 0."""
    g, size = node.graph, samples
    greatest = g.apply(pool.MaxPool2D(Padding.VALID, size, size, filter_width=size, filter_height=size), found)
    return c.maximum(g, greatest, c.like(0, greatest))


@layer("NonMaxSuppression", since=9)
def non_max_suppression(node: Node) -> tuple[Value, Value, Value]:
    """Batch, class and place of the boxes that are selected, in order; batch, class and score of each; and how many
    there are."""
    g, dtype = node.graph, node.dtype("output_type", "i64")
    decay = node.get(5)
    if decay is not None and (decay.data is None or decay.data.any()):
        raise node.refusal("scores that decay")
    op = detection.SelectBoxes(node.choice("box_encoding", {"corner": False, "center": True}, "corner"))
    found = g.apply(op, node[0], node[1], *map(node.get, (2, 3, 4)))
    scores = g.apply(index.GatherNd(), node[1], found)
    if node.flag("sort_result_descending", True):
        length = c.cast(g, c.reshape(g, c.dimension(g, found, 0), []), DType.INT32)
        scores, order = g.op(sort.TopKV2(), scores, length, types=[scores.dtype, DType.INT32])
        found = c.gather(g, found, order, 0)
    scores, count = c.reshape(g, scores, [-1, 1]), c.cast(g, c.dimension(g, found, 0), dtype)
    at = c.cast(g, c.part(g, found, 2, 1, 0, 2), node[1].dtype)
    return c.cast(g, found, dtype), c.concatenate(g, [at, scores], 1), count
