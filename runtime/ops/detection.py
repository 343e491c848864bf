"""Operators that select boxes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import ClassVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, Unknown, between, exactly
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import count, expect_one
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
        if scores != boxes[:1]:
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
