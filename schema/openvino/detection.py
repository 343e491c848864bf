"""Layers of detectors, and samples of images."""

from __future__ import annotations

from circlet.runtime.ops import detection, index, resample, sample
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
    return node.graph.apply(op, *node.exactly(2))


@layer("NonMaxSuppression", since=9)
def non_max_suppression(node: Node) -> tuple[Value, Value, Value]:
    """Batch, class and place of the boxes that are selected, in order; batch, class and score of each; and how many
    there are."""
    g, dtype = node.graph, node.dtype("output_type", "i64")
    if node.flag("sort_result_descending", True):
        raise node.refusal("boxes sorted by their scores")
    decay = node.get(5)
    if decay is not None and (decay.data is None or decay.data.any()):
        raise node.refusal("scores that decay")
    op = detection.SelectBoxes(node.choice("box_encoding", {"corner": False, "center": True}, "corner"))
    found = g.apply(op, node[0], node[1], *map(node.get, (2, 3, 4)))
    scores = c.reshape(g, g.apply(index.GatherNd(), node[1], found), [-1, 1])
    count = c.cast(g, c.dimension(g, found, 0), dtype)
    at = c.cast(g, c.part(g, found, 2, 1, 0, 2), node[1].dtype)
    return c.cast(g, found, dtype), c.concatenate(g, [at, scores], 1), count
