"""What TensorFlow's detectors end with. Results are LiteRT's, but that it leaves what is not selected as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from circlet.runtime.ir.types import Array
from circlet.runtime.ops.detection import DetectionPostProcess
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

BOXES = np.zeros((1, 5, 4), np.float32)
BOXES[0, 2] = [5, -2.5, 0, 0]
SCORES = np.array([[[0.9, 0.5, 0.25], [0, 0.75, 0.5], [0.1, 0.25, 0.5], [0, 0.375, 0], [0, 0.625, 0.625]]], np.float32)
ANCHORS = np.array([[0.5, 0.5, 1, 1], [0.5, 0.75, 1, 1], [2.5, 0.5, 1, 1], [0.5, 0.5, 1, 0.25], [9, 9, 0, 1]],
                   np.float32)
BACKGROUND = DetectionPostProcess(
    max_detections=4, max_classes_per_detection=1, num_classes=2, nms_score_threshold=0.375, nms_iou_threshold=0.5,
    y_scale=10.0, x_scale=5.0, h_scale=5.0, w_scale=5.0)
ALIKE, EMPTY, SHIFTED = [0, 0.25, 1, 1.25], [9, 8.5, 9, 9.5], [2.5, -0.5, 3.5, 0.5]
THIN, NONE = [0, 0.375, 1, 0.625], [0] * 4


def detected(boxes: Sequence[Sequence[float]], classes: list[int], scores: list[float], count: int) -> list[Array]:
    """What is selected."""
    return [np.array(each, np.float32) for each in ([boxes], [classes], [scores], [count])]


def stored(values: Array, scale: float, zero_point: int) -> T:
    """Values as uint8."""
    return T((np.round(values / scale) + zero_point).astype(np.uint8), q=q(scale, zero_point))


BEST = detected([ALIKE, EMPTY, SHIFTED, THIN], [0, 0, 1, 0], [0.75, 0.625, 0.5, 0.375], 4)
DETECTED = [
    Case("best-class", BACKGROUND, [BOXES, SCORES, ANCHORS], BEST),
    Case("uint8", BACKGROUND, [stored(BOXES, 0.5, 128), stored(SCORES, 1 / 128, 0), stored(ANCHORS, 0.0625, 3)], BEST),
    Case("no-background", replace(BACKGROUND, num_classes=3), [BOXES, SCORES, ANCHORS],
         detected([[0, 0, 1, 1], EMPTY, SHIFTED, THIN], [0, 1, 2, 1], [0.9, 0.625, 0.5, 0.375], 4)),
    Case("few", replace(BACKGROUND, max_detections=2), [BOXES, SCORES, ANCHORS],
         detected([ALIKE, EMPTY], [0, 0], [0.75, 0.625], 2)),
    Case("score", replace(BACKGROUND, nms_score_threshold=0.65), [BOXES, SCORES, ANCHORS],
         detected([ALIKE, NONE, NONE, NONE], [0] * 4, [0.75, 0, 0, 0], 1)),
    Case("more-classes", replace(BACKGROUND, max_classes_per_detection=3, max_detections=2), [BOXES, SCORES, ANCHORS],
         detected([ALIKE, ALIKE, NONE, EMPTY, EMPTY, NONE], [0, 1, 0, 0, 1, 0], [0.75, 0.5, 0, 0.625, 0.625, 0], 2)),
    Case("regular", replace(BACKGROUND, use_regular_nms=True), [BOXES, SCORES, ANCHORS],
         detected([ALIKE, EMPTY, EMPTY, ALIKE], [0, 0, 1, 1], [0.75, 0.625, 0.625, 0.5], 4)),
    Case("regular-one-each", replace(BACKGROUND, use_regular_nms=True, detections_per_class=1),
         [BOXES, SCORES, ANCHORS],
         detected([ALIKE, EMPTY, NONE, NONE], [0, 1, 0, 0], [0.75, 0.625, 0, 0], 2)),
    Case("no-boxes", BACKGROUND, [BOXES[:, :0], SCORES[:, :0], ANCHORS[:0]],
         detected([NONE] * 4, [0] * 4, [0] * 4, 0)),
    Case("negative-side", BACKGROUND, [BOXES, SCORES, -ANCHORS], BEST, error="of which no side is negative"),
    Case("classes", replace(BACKGROUND, num_classes=1), [BOXES, SCORES, ANCHORS], BEST,
         error=r"scores of 1 classes for each of 5 boxes, found shape \(1, 5, 3\)"),
    Case("anchors", BACKGROUND, [BOXES, SCORES, ANCHORS[:4]], BEST, error=r"anchors of shape \(5, 4\), found \(4, 4\)"),
    Case("corners", BACKGROUND, [BOXES[..., :3], SCORES, ANCHORS], BEST, error=r"boxes of shape \(1, n, 4\)"),
    Case("overlap", replace(BACKGROUND, nms_iou_threshold=0.0), [BOXES, SCORES, ANCHORS], BEST, error="IoU threshold"),
    Case("count", replace(BACKGROUND, max_detections=-1), [BOXES, SCORES, ANCHORS], BEST, error="found -1 detections"),
]

test_detection = case_test(DETECTED)
