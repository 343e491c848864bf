"""Operators that select boxes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, Unknown, between, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import agreed_shape, count, expect_one
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class NonMaxSuppression(Op):
    """Base: greedy selection of boxes by score that skips those that overlap a selected one.

    Inputs: boxes of shape (n, 4), two opposite corners as (y, x, y, x); scores of shape (n,); then one element each:
    the length of the results, an IoU threshold and a score threshold. A box is skipped if its intersection over union
    with a selected one is not below the IoU threshold, or its score is not above the score threshold. The box of
    lower index goes first among equal scores. Results are padded with zeros.
    """

    sizes: ClassVar[frozenset[int]] = frozenset({2})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        boxes, scores = args[0].shape, args[1].shape
        if len(boxes) != 2 or boxes[1] != 4:
            raise ShapeError(f"input 0: expected boxes of shape (n, 4), found {boxes}")
        if agreed_shape(scores, boxes[:1]) is None:
            raise ShapeError(f"input 1: expected one score for each of {boxes[0]} boxes, found shape {scores}")
        for index in range(3, len(args)):
            expect_one(args[index], f"input {index}")
        length = count(args[2], "input 2")
        return (*((length,),) * (args.outputs - 1), ())


@operator
@dataclass(frozen=True)
class NonMaxSuppressionV4(NonMaxSuppression):
    """Gives the indices of the selected boxes and their count."""

    name: ClassVar[str] = "NON_MAX_SUPPRESSION_V4"
    table: ClassVar[str | None] = "NonMaxSuppressionV4Options"
    inputs: ClassVar[Count] = exactly(5)
    results: ClassVar[Count] = exactly(2)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT32, DType.INT32)


@operator
@dataclass(frozen=True)
class NonMaxSuppressionV5(NonMaxSuppression):
    """Gives the indices of the selected boxes, their scores and their count.

    Input 5 is sigma of soft suppression, 0 for none: for each selected box, the scores of the others are multiplied by
    exp(-iou ** 2 / (2 * sigma)).
    """

    name: ClassVar[str] = "NON_MAX_SUPPRESSION_V5"
    table: ClassVar[str | None] = "NonMaxSuppressionV5Options"
    inputs: ClassVar[Count] = exactly(6)
    results: ClassVar[Count] = exactly(3)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT32, DType.FLOAT32, DType.INT32)


@operator
@dataclass(frozen=True)
class DetectionPostProcess(Op):
    """What TensorFlow's detectors end with: decodes boxes, and selects the best ones that do not overlap.

    Inputs: boxes (1, n, 4 or more) as (y, x, height, width) relative to anchors, scores (1, n, classes, or one more of
    a background that comes first), and anchors (n, 4) as (y, x, height, width). For an anchor (v, u, h, w) a box (y, x,
    t, s) has its center at (y / y_scale h + v, x / x_scale w + u), height exp(t / h_scale) h, and width
    exp(s / w_scale) w.

    A box is skipped if its score is below the score threshold, or its intersection over union with a selected one is
    above the IoU threshold. Regular selection is by each class, then the best of all are kept; else it is by the best
    score of each box, of which the best classes are told. Results, float32: corners (1, k, 4) as (y, x, y, x), classes
    (1, k) and scores (1, k), for k = max_detections max_classes_per_detection, then how many were selected, (1,). What
    is left is zero. NaN is less than any other score.
    """

    name: ClassVar[str] = "CUSTOM:TFLite_Detection_PostProcess"
    inputs: ClassVar[Count] = exactly(3)
    results: ClassVar[Count] = exactly(4)
    max_detections: int = 0
    max_classes_per_detection: int = 0
    detections_per_class: int = 100
    use_regular_nms: bool = False
    nms_score_threshold: float = 0.0
    nms_iou_threshold: float = 0.0
    num_classes: int = 0
    y_scale: float = 0.0
    x_scale: float = 0.0
    h_scale: float = 0.0
    w_scale: float = 0.0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        boxes, scores, anchors = (args[k].shape for k in range(3))
        if len(boxes) != 3 or boxes[0] != 1 or boxes[2] < 4:
            raise ShapeError(f"input 0: expected boxes of shape (1, n, 4), found {boxes}")
        if len(scores) != 3 or scores[:2] != boxes[:2] or scores[2] - self.num_classes not in (0, 1):
            raise ShapeError(f"input 1: expected scores of {self.num_classes} classes for each of {boxes[1]} boxes, "
                             f"found shape {scores}")
        if anchors != (boxes[1], 4):
            raise ShapeError(f"input 2: expected anchors of shape ({boxes[1]}, 4), found {anchors}")
        if self.max_detections < 0 or self.max_classes_per_detection < 1 or self.num_classes < 1:
            raise ShapeError(f"expected at least no detections, and a class for each, found {self.max_detections} "
                             f"detections of {self.max_classes_per_detection} of {self.num_classes} classes")
        if not 0 < self.nms_iou_threshold <= 1 or self.detections_per_class < 1:
            raise ShapeError(f"expected an IoU threshold above 0, at most 1, and at least one detection of a class, "
                             f"found {self.nms_iou_threshold:g} and {self.detections_per_class}")
        count = self.max_detections * self.max_classes_per_detection
        return (1, count, 4), (1, count), (1, count), (1,)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.FLOAT32,) * 4


@dataclass(frozen=True)
class SelectBoxes(Op):
    """ONNX's greedy selection of boxes, for each batch and class by itself; no flatbuffer format has it.

    Inputs: boxes (batches, n, 4), scores (batches, classes, n), then, each optional and with one element, how many
    boxes to select for each class (none by default), an IoU threshold and a score threshold. A box is skipped if its
    intersection over union with a selected one is above the IoU threshold, or its score is not above the score
    threshold. The result (selected, 3), int64, has batch, class and box of each.
    """

    name: ClassVar[str] = "SELECT_BOXES"
    inputs: ClassVar[Count] = between(2, 5)
    optional: ClassVar[frozenset[int]] = frozenset({2, 3, 4})
    centers: bool = False
    """Boxes are (x, y, width, height) around a center, not two opposite corners (y, x, y, x)."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        boxes, scores = args[0].shape, args[1].shape
        if len(boxes) != 3 or boxes[2] != 4 or len(scores) != 3 or (scores[0], scores[2]) != boxes[:2]:
            raise ShapeError(f"expected boxes (batches, n, 4) and scores (batches, classes, n), found {boxes} and "
                             f"{scores}")
        raise Unknown

    def bounded(self, args: Operands, computed: Callable[[int | None], int]) -> tuple[Shape, ...] | None:
        return ((computed(prod(args[1].shape)), 3),)

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (DType.INT64,)
