"""Numpy rules of the operators that select boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.backends.cpu.rule import Node, rule, store
from circlet.backends.cpu.steps import chain, promised
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import detection as ops


def _real(*inputs: int) -> Refusal:
    """Refuses all calls but those whose given inputs are real numbers."""
    return all_of(*(only({DType.FLOAT32}, each) for each in inputs))


@rule(ops.NonMaxSuppressionV4, accepts=_real(0, 1, 3, 4))
def non_max_suppression_v4(node: Node[ops.NonMaxSuppressionV4]) -> Step:
    indices, count = node.outputs
    return _suppression(node, indices, np.empty(indices.shape, np.float32), count, np.zeros(1, np.float32))


@rule(ops.NonMaxSuppressionV5, accepts=_real(0, 1, 3, 4, 5))
def non_max_suppression_v5(node: Node[ops.NonMaxSuppressionV5]) -> Step:
    indices, scores, count = node.outputs
    return _suppression(node, indices, scores, count, node.input(5))


def _chosen(node: Node[ops.SelectBoxes]) -> tuple[Array, ...]:
    """The result of the selection, whose length only the selection tells."""
    boxes, scores = node.input(0), node.input(1)
    given = [node.optional(k) for k in (2, 3, 4)]
    most, iou, least = (None if each is None else each.item() for each in given)
    rows: list[tuple[int, int, int]] = []
    for batch, name in np.ndindex(scores.shape[:2]):
        corners = boxes[batch]
        if node.op.centers:
            corners = np.concatenate([corners[:, :2] - corners[:, 2:] / 2, corners[:, :2] + corners[:, 2:] / 2], 1)
        # The threshold itself does not suppress.
        limit = np.nextafter(np.float32(0 if iou is None else iou), np.float32(np.inf))
        found, _ = _select(corners, scores[batch, name].copy(), most or 0, limit,
                           -np.inf if least is None else least, 0)
        rows += [(batch, name, box) for box in found]
    return (np.array(rows, np.int64).reshape(-1, 3),)


@rule(ops.SelectBoxes, accepts=_real(0, 1), evaluate=_chosen)
def select_boxes(node: Node[ops.SelectBoxes]) -> Step:
    return lambda: store(node.out, _chosen(node)[0])


_READS = frozenset({DType.FLOAT32, DType.UINT8})
"""What boxes, scores and anchors are; uint8 is dequantised."""


@rule(ops.DetectionPostProcess, accepts=all_of(*(only(_READS, each) for each in range(3))))
def detection_post_process(node: Node[ops.DetectionPostProcess]) -> Step:
    def step() -> None:
        given = [_dequantized(node, k) for k in range(3)]
        corners, found = _decoded(node.op, given[0][0], given[2]), given[1][0, :, -node.op.num_classes:]
        scores = np.where(np.isnan(found), -np.inf, found)
        groups = (_regular if node.op.use_regular_nms else _fast)(node.op, corners, scores)
        boxes, classes, kept, count = node.outputs
        for out in node.outputs:
            out.fill(0)
        step = 1 if node.op.use_regular_nms else node.op.max_classes_per_detection
        for number, (box, kinds) in enumerate(groups):
            for place, kind in enumerate(kinds, number * step):
                boxes[0, place], classes[0, place], kept[0, place] = corners[box], kind, scores[box, kind]
        count.fill(len(groups))

    return chain(promised(node), step)


def _dequantized(node: Node[Any], k: int) -> Array:
    """An input as float32."""
    value = node.input(k)
    if value.dtype == np.float32:
        return value
    given = node.quantization(k)
    real: Array = (value.astype(np.float32) - np.float32(given.zero_point)) * np.float32(given.scale)
    return real


def _decoded(op: ops.DetectionPostProcess, boxes: Array, anchors: Array) -> Array:
    """Corners (n, 4), computed in double precision, of boxes (n, 4 or more) relative to anchors (n, 4)."""
    one, other = boxes[:, :4].astype(np.float64), anchors.astype(np.float64)
    scales = np.array([op.y_scale, op.x_scale, op.h_scale, op.w_scale], np.float32).astype(np.float64)
    center = (one[:, :2] / scales[:2] * other[:, 2:] + other[:, :2]).astype(np.float32)
    half = (0.5 * np.exp(one[:, 2:] / scales[2:]) * other[:, 2:]).astype(np.float32)
    if (half < 0).any():
        raise ExecutionError("expected boxes of which no side is negative")
    corners: Array = np.concatenate([center - half, center + half], axis=1)
    return corners


def _picked(op: ops.DetectionPostProcess, corners: Array, scores: Array, most: int) -> list[int]:
    """The boxes selected by one score of each. Both thresholds are on the other side than those of `_select`."""
    limit = np.nextafter(np.float32(op.nms_iou_threshold), np.float32(np.inf))
    least = np.nextafter(np.float32(op.nms_score_threshold), np.float32(-np.inf))
    return _select(corners, scores.copy(), most, limit.item(), least.item(), 0)[0]


def _fast(op: ops.DetectionPostProcess, corners: Array, scores: Array) -> list[tuple[int, list[int]]]:
    """Boxes by their best scores, and the best classes of each."""
    best, count = np.argsort(-scores, axis=1, kind="stable"), op.max_classes_per_detection
    chosen = _picked(op, corners, scores.max(axis=1, initial=-np.inf), op.max_detections)
    return [(box, best[box, :count].tolist()) for box in chosen]


def _regular(op: ops.DetectionPostProcess, corners: Array, scores: Array) -> list[tuple[int, list[int]]]:
    """Boxes by each class, of which the best are kept."""
    most = min(op.detections_per_class, op.max_detections)
    found = [(box, [kind]) for kind in range(op.num_classes) for box in _picked(op, corners, scores[:, kind], most)]
    return sorted(found, key=lambda pair: -float(scores[pair[0], pair[1][0]]))[:op.max_detections]


def _suppression(node: Node[Any], indices: Array, scores: Array, count: Array, sigma: Array) -> Step:
    boxes, given, iou_limit, score_limit = node.input(0), node.input(1), node.input(3), node.input(4)

    def step() -> None:
        if sigma.item() < 0:
            raise ExecutionError(f"input 5 is sigma: expected no negative number, found {sigma.item():g}")
        found, kept = _select(boxes, given.copy(), len(indices), iou_limit.item(), score_limit.item(), sigma.item())
        for target, values in ((indices, found), (scores, kept)):
            target.fill(0)
            target[:len(values)] = values
        count.fill(len(found))

    return chain(promised(node), step)


def _select(boxes: Array, scores: Array, most: int, iou_limit: float, score_limit: float,
            sigma: float) -> tuple[list[int], list[float]]:
    """The selected boxes and their scores. Changes `scores`: -inf takes a box out."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    found: list[int] = []
    kept: list[float] = []
    scores[~(scores > score_limit)] = -np.inf
    while len(found) < most and scores.size:
        best = int(np.argmax(scores))
        if scores[best] == -np.inf:
            break
        found.append(best)
        kept.append(float(scores[best]))
        iou = _intersection_over_union(low, high, best)
        if sigma > 0:
            scores *= np.exp(np.float32(-0.5 / sigma) * iou * iou)
            scores[~(scores > score_limit)] = -np.inf
        scores[(iou >= iou_limit) | (np.arange(len(scores)) == best)] = -np.inf
    return found, kept


def _intersection_over_union(low: Array, high: Array, box: int) -> Array:
    """Of all boxes, given by their least and greatest corners, with one of them; 0 where one is empty."""
    areas = np.prod(high - low, axis=1)
    shared = np.prod(np.maximum(np.minimum(high, high[box]) - np.maximum(low, low[box]), 0), axis=1)
    ratio = shared / (areas + areas[box] - shared)
    overlap: Array = np.where((areas > 0) & (areas[box] > 0), ratio, 0)
    return overlap
