"""What single-shot detectors end with: boxes are decoded, and the best ones that do not overlap are selected."""

from __future__ import annotations

from math import inf

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import detection, elements, elementwise, index, sort
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.rules import Node, layer

_FIELDS = 7
"""Of each detection: image, class, score and the corners of its box."""


@dataclass(frozen=True, eq=False)
class Sizes:
    """How many there are of what; each (1,), int64."""

    images: Value
    classes: Value
    boxes: Value


@layer("DetectionOutput")
def detection_output(node: Node) -> Value:
    """Of offsets (n, boxes sets 4), scores (n, boxes classes) and prior boxes with their variances: the detections
    (1, 1, rows, 7) by image, class and score; behind them a row whose image is -1, and zeros."""
    if len(node) != 3 or node.flag("decrease_label_id", False):
        raise node.refusal("an objectness score, or decrease_label_id")
    return c.in_float32(node.graph, lambda *given: _detections(node, *given), *node.exactly(3))


def _detections(node: Node, offsets: Value, scores: Value, priors: Value) -> Value:
    g = node.graph
    count = c.floor_divided(g, c.dimension(g, priors, 2), 4 if node.flag("normalized", False) else 5)
    images = c.dimension(g, scores, 0)
    by_class = c.transpose(g, c.reshape_to(g, scores, c.concatenate(g, [images, count, c.integers([-1])])), (0, 2, 1))
    sizes = Sizes(images, c.dimension(g, by_class, 1), count)
    boxes = _decoded(node, offsets, priors, sizes)
    kept = _kept(node, boxes, _candidates(node, by_class, sizes), sizes)
    return _rows(node, boxes, kept, sizes)


def _decoded(node: Node, offsets: Value, priors: Value, sizes: Sizes) -> Value:
    """The boxes (n, sets, boxes, 4), a set for each class unless these share it."""
    g, sets = node.graph, c.integers([1]) if node.flag("share_location", True) else sizes.classes
    shape = c.concatenate(g, [sizes.images, sizes.boxes, sets, c.integers([4])])
    moved = c.transpose(g, c.reshape_to(g, offsets, shape), (0, 2, 1, 3))
    corners, variances = _priors(node, priors, sizes.boxes)
    if variances is not None:
        moved = c.multiply(g, moved, variances)
    code = node.text("code_type", "caffe.PriorBoxParameter.CORNER").rpartition(".")[2].lower()
    if code not in ("corner", "center_size"):
        raise node.refusal(f"code_type {code!r}")
    found = c.add(g, corners, moved) if code == "corner" else _centered(g, corners, moved)
    return c.clip(g, found, 0, 1) if node.flag("clip_before_nms", False) else found


def _priors(node: Node, priors: Value, count: Value) -> tuple[Value, Value | None]:
    """Prior boxes and, unless offsets are multiplied by them already, variances; (n, 1, boxes, 4)."""
    g, is_normal = node.graph, node.flag("normalized", False)
    has_rows = not node.flag("variance_encoded_in_target", False)
    if has_rows and not is_normal:
        raise node.refusal("variances of boxes that are not normalized")
    shape = c.concatenate(g, [c.dimension(g, priors, 0), c.integers([1 + has_rows]), count,
                              c.integers([4 if is_normal else 5])])
    each = c.reshape_to(g, priors, shape)
    corners = c.part(g, each, 4, 1, 0, 1)
    if not is_normal:
        width, height = (float(node.integer(f"input_{name}", 1)) for name in ("width", "height"))
        corners = c.divide(g, c.part(g, corners, 4, 3, 1, 5), constant(np.array([width, height] * 2, np.float32)))
    return corners, c.part(g, each, 4, 1, 1, 2) if has_rows else None


def _centered(g: Graph, corners: Value, moved: Value) -> Value:
    """Boxes whose centres and logarithms of sizes are relative to others."""
    low, high = (c.part(g, corners, 4, 3, first, first + 2) for first in (0, 2))
    size = c.subtract(g, high, low)
    center = c.add(g, c.multiply(g, c.part(g, moved, 4, 3, 0, 2), size), c.scale(g, c.add(g, low, high), 0.5))
    half = c.scale(g, c.multiply(g, c.exp(g, c.part(g, moved, 4, 3, 2, 4)), size), 0.5)
    return c.concatenate(g, [c.subtract(g, center, half), c.add(g, center, half)], 3)


def _candidates(node: Node, scores: Value, sizes: Sizes) -> Value:
    """Scores (n, classes, boxes); minus infinity is that of the background, and of those but the `top_k` best."""
    g, background, most = node.graph, node.integer("background_label_id", 0), node.integer("top_k", -1)
    none = c.like(-inf, scores)
    if background >= 0:
        numbers = c.trailing(g, c.counted(g, c.reshape(g, sizes.classes, [])), 1)
        scores = c.select(g, c.equal(g, numbers, c.like(background, numbers)), none, scores)
    if most < 1:
        return scores
    best, places = _best(g, scores, c.minimum(g, sizes.boxes, c.integers([most])))
    return g.apply(elements.ScatterElements(2), c.fill(g, c.shape_of(g, scores), none), places, best)


def _best(g: Graph, x: Value, count: Value) -> tuple[Value, Value]:
    number = c.cast(g, c.reshape(g, count, []), DType.INT32)
    values, places = g.op(sort.TopKV2(), x, number, types=[None, DType.INT32])
    return values, places


def _kept(node: Node, boxes: Value, scores: Value, sizes: Sizes) -> Value:
    """The scores (n, classes boxes) of boxes that overlap no better one of their class; minus infinity elsewhere.

    Boxes whose corners are the other way round have no area and overlap nothing.
    """
    g, any_ = node.graph, c.integers([-1])
    whole = c.shape_of(g, scores)
    if not node.flag("share_location", True):
        scores = c.reshape_to(g, scores, c.concatenate(g, [any_, c.integers([1]), sizes.boxes]))
    low, high = (c.part(g, boxes, 4, 3, first, first + 2) for first in (0, 2))
    each = c.concatenate(g, [low, c.maximum(g, low, high)], 3)
    each = c.reshape_to(g, each, c.concatenate(g, [any_, sizes.boxes, c.integers([4])]))
    thresholds = (c.number(node.number(name, default), DType.FLOAT32)
                  for name, default in (("nms_threshold", None), ("confidence_threshold", -np.finfo(np.float32).max)))
    found = g.apply(detection.SelectBoxes(), each, scores, c.reshape(g, sizes.boxes, []), *thresholds)
    none = c.fill(g, c.shape_of(g, scores), c.like(-inf, scores))
    kept = g.apply(elements.ScatterSlices(), none, found, g.apply(index.GatherNd(), scores, found))
    return c.reshape_to(g, kept, c.concatenate(g, [c.part_of(g, whole, 0, 1), any_]))


def _rows(node: Node, boxes: Value, kept: Value, sizes: Sizes) -> Value:
    """The detections in order."""
    g, (most, *_) = node.graph, (*node.integers("keep_top_k", ()), -1)
    width = c.multiply(g, sizes.classes, sizes.boxes)
    per_class = node.integer("top_k", -1)
    wanted = c.integers([most]) if most > 0 else (
        c.scale(g, sizes.classes, per_class) if per_class > 0 else width)
    count = c.minimum(g, width, wanted)
    scores, places = _best(g, kept, count)
    images, total = (c.counted(g, c.cast(g, c.reshape(g, each, []), DType.INT32)) for each in (sizes.images, count))
    image = c.broadcast_to(g, c.trailing(g, images, 1), c.shape_of(g, places))
    classes, length, ranks = (c.cast(g, each, DType.INT32) for each in (sizes.classes, sizes.boxes, count))
    kind, box = (g.apply(op(), places, length) for op in (elementwise.FloorDiv, elementwise.FloorMod))
    key = c.add(g, c.multiply(g, c.add(g, c.multiply(g, image, classes), kind), ranks), total)
    is_valid = c.greater(g, scores, c.like(-inf, scores))
    last = c.number(np.iinfo(np.int32).max, DType.INT32)
    keys = c.reshape(g, c.select(g, is_valid, key, last), [-1])
    _, order = _best(g, c.negative(g, keys), c.dimension(g, keys, 0))
    sets = boxes if node.flag("share_location", True) else None
    place = image if sets is not None else c.add(g, c.multiply(g, image, classes), kind)
    corners = c.gather(g, c.reshape(g, boxes, [-1, 4]), c.add(g, c.multiply(g, place, length), box), 0)
    if node.flag("clip_after_nms", False):
        corners = c.clip(g, corners, 0, 1)
    numbers = [c.unsqueeze(g, c.cast(g, each, DType.FLOAT32), [2]) for each in (image, kind, scores)]
    rows = c.reshape(g, c.concatenate(g, [*numbers, corners], 2), [-1, _FIELDS])
    ordered, valid = c.gather(g, rows, order, 0), c.gather(g, c.reshape(g, is_valid, [-1]), order, 0)
    return _ended(g, ordered, valid, c.multiply(g, sizes.images, wanted))


def _ended(g: Graph, rows: Value, is_valid: Value, wanted: Value) -> Value:
    """As many rows as wanted: those that are valid, of which are the first ones, one of image -1, and zeros."""
    found = c.total(g, c.cast(g, is_valid, DType.INT32), (0,))
    kept = c.select(g, c.trailing(g, is_valid, 1), rows, c.like(0, rows))
    more = c.subtract(g, wanted, c.dimension(g, rows, 0))
    blank = c.fill(g, c.concatenate(g, [more, c.integers([_FIELDS])]), c.like(0, rows))
    all_ = c.concatenate(g, [kept, blank], 0)
    numbers = c.counted(g, c.cast(g, c.reshape(g, c.dimension(g, all_, 0), []), DType.INT32))
    end = c.trailing(g, c.equal(g, numbers, found), 1)
    mark = constant(np.array([-1, *[0] * (_FIELDS - 1)], np.float32))
    return c.unsqueeze(g, c.select(g, end, mark, all_), [0, 1])
