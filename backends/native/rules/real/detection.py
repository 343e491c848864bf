"""Native rules of the operators that select boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.lanes import Lanes
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.emit.math import exp, exp2_parts
from circlet.backends.native.emit.value import Value, in_memory
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.figures.figure import quantization
from circlet.backends.native.rules.moving.index import counts
from circlet.backends.native.rules.moving.move import extended
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.reduce import Register, extreme, is_extreme
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.row_vectors import RowVectors
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import detection as ops

FLOAT = DType.FLOAT32
"""What boxes and scores are."""
Change: TypeAlias = "Callable[[ir.Value, ir.Value], tuple[ir.Value, ir.Value]]"
"""From a score and how much its box overlaps with the one selected to the next score, and whether it is enough."""
FEWEST_TURNS, SHARE = 64, 8
"""Boxes are closed up after so many turns at least, and after a turn for each so many of them: to move one takes about
as long as to compare ten."""


class Boxes:
    """Boxes (n, 4) in scratch memory, by their least and greatest corners and areas; and, one behind the other, the
    numbers, corners, areas and scores of those that may be selected. What is taken out of these has a score of -inf, so
    that vectors of neighbours are looked at."""

    def __init__(self, node: Node[Any], e: Emitter, count: int) -> None:
        """
        Args:
            node: the operator.
            e: writes it.
            count: of the boxes.
        """
        self._e, self._count = e, count
        self._all, self._kept = ([self._row(node) for _ in range(5)] for _ in range(2))
        self._scores = self._row(node)
        self._numbers = node.function.reserve(count * e.index_dtype.numpy.itemsize)
        self.best, self.score = Register(e, e.index), Register(e, ir.FloatType())
        self._place, self._left, self._turns = (Register(e, e.index) for _ in range(3))

    def _row(self, node: Node[Any]) -> Value:
        """Scratch memory for a number of each box, with room for a vector behind it."""
        memory = node.function.reserve(self._count * FLOAT.numpy.itemsize + self._e.target.vector_bytes)
        self._e.roomy.add(memory)
        return in_memory(memory, (self._count,), FLOAT)

    def _put(self, row: Value, k: ir.Value, value: ir.Value) -> None:
        assert row.memory is not None, "rows are written"
        self._e.store(value, row.memory, FLOAT, k)

    def _number(self, value: float) -> ir.Value:
        return self._e.constant(value, FLOAT)

    def take(self, k: ir.Value, one: list[ir.Value], other: list[ir.Value]) -> None:
        """Takes a box by two opposite corners."""
        b = self._e.builder
        low, high = ([self._either(relation, *each) for each in zip(one, other, strict=True)] for relation in "<>")
        sides = [b.fsub(*each) for each in zip(high, low, strict=True)]
        for row, value in zip(self._all, [*low, *high, b.fmul(*sides)], strict=True):
            self._put(row, k, value)

    def _either(self, relation: str, one: ir.Value, other: ir.Value) -> ir.Value:
        """The one of two numbers to which a relation holds; NaN where one is NaN."""
        e, b = self._e, self._e.builder
        found = e.select(b.fcmp_ordered(relation, one, other), one, other)
        return e.select(b.fcmp_unordered("uno", one, other), self._number(np.nan), found)

    def begin(self, scores: Any, least: ir.Value) -> None:
        """Takes the scores, as a function of the number of a box, that are above a threshold; finds the best one."""
        e, b = self._e, self._e.builder
        self._left.set(e.number(0))
        self._turns.set(e.number(0))
        with e.loop(self._count) as k:
            score = scores(k)
            self._keep(self._all, score, k, k, b.fcmp_ordered(">", score, least))
        self._find()

    def _keep(self, rows: Sequence[Value], score: ir.Value, k: ir.Value, number: ir.Value, stays: ir.Value) -> None:
        """Puts row k, which is a box's of a number, behind those that may be selected; the next one takes its place
        unless it stays."""
        e, b, place = self._e, self._e.builder, self._left.get()
        for row, kept in zip(rows, self._kept, strict=True):
            self._put(kept, place, row.linear(e, k))
        self._put(self._scores, place, score)
        e.store(number, self._numbers, e.index_dtype, place)
        self._left.set(b.add(place, b.zext(stays, e.index)))

    def _close_up(self) -> None:
        """Now and then moves the boxes that are left to where others were taken out, in their order."""
        e, b, left = self._e, self._e.builder, self._left.get()
        turns = b.add(self._turns.get(), e.number(1))
        self._turns.set(turns)
        is_worth = b.icmp_signed(">=", b.mul(turns, e.number(SHARE)), left)
        with b.if_then(b.and_(is_worth, b.icmp_signed(">=", turns, e.number(FEWEST_TURNS)))):
            self._left.set(e.number(0))
            self._turns.set(e.number(0))
            with e.loop(left) as k:
                score, number = self._scores.linear(e, k), e.load(self._numbers, e.index_dtype, k)
                self._keep(self._kept, score, k, number, b.fcmp_unordered("!=", score, self._number(-np.inf)))

    def _find(self) -> None:
        """Finds the first of the best boxes."""
        e, b, rows = self._e, self._e.builder, RowVectors.of(self._e, self._scores)
        if rows is None:
            self._find_by_turns()
        else:
            begin, count = e.number(0), Whole(e, self._left.get())
            self.score.set(rows.combined(e, extreme(">", FLOAT).combine, -np.inf, begin, count))
            self._place.set(rows.place_of(e, partial(is_extreme, ">", FLOAT, self.score.get()), begin, count))
        with b.if_then(self.is_left):
            self.best.set(e.load(self._numbers, e.index_dtype, self._place.get()))

    def _find_by_turns(self) -> None:
        e, b = self._e, self._e.builder
        self._place.set(e.number(0))
        self.score.set(self._number(-np.inf))
        with e.loop(self._left.get()) as place:
            score = self._scores.linear(e, place)
            is_better = b.fcmp_ordered(">", score, self.score.get())
            self._place.set(e.select(is_better, place, self._place.get()))
            self.score.set(e.select(is_better, score, self.score.get()))

    @property
    def is_left(self) -> ir.Value:
        """Whether there is a box to select."""
        return self._e.builder.fcmp_ordered(">", self.score.get(), self._number(-np.inf))

    def suppress(self, limit: ir.Value, change: Change | None = None, relation: str = ">=") -> None:
        """Takes the best box out, and those to whose intersection over union with it and a limit a relation holds;
        finds the next best one. `change` says what becomes of the scores of the others, by that, and whether they
        stay."""
        e, b, out = self._e, self._e.builder, self._number(-np.inf)
        chosen = [row.linear(e, self._place.get()) for row in self._kept]
        self._put(self._scores, self._place.get(), out)
        with independent(e, self._left.get()) as place:
            ratio = self._ratio(place, chosen)
            score, stays = self._scores.linear(e, place), b.not_(b.fcmp_ordered(relation, ratio, limit))
            if change is not None:
                score, is_above = change(score, ratio)
                stays = b.and_(stays, is_above)
            self._put(self._scores, place, e.select(stays, score, out))
        self._close_up()
        self._find()

    def _ratio(self, place: ir.Value, chosen: Sequence[ir.Value]) -> ir.Value:
        """The intersection over union of a box with the chosen one; 0 where one is empty."""
        e, b, zero = self._e, self._e.builder, self._number(0)
        *corners, own = (row.linear(e, place) for row in self._kept)
        area, sides = chosen[4], []
        for axis in range(2):
            top, bottom, high, low = corners[2 + axis], corners[axis], chosen[2 + axis], chosen[axis]
            end = e.select(b.fcmp_ordered("<", high, top), high, top)
            begin = e.select(b.fcmp_ordered(">", low, bottom), low, bottom)
            side = b.fsub(end, begin)
            sides.append(e.select(b.fcmp_ordered(">", side, zero), side, zero))
        shared = b.fmul(*sides)
        ratio = b.fdiv(shared, b.fsub(b.fadd(own, area), shared))
        is_there = b.and_(b.fcmp_ordered(">", own, zero), b.fcmp_ordered(">", area, zero))
        return e.select(is_there, ratio, zero)


def _real(*inputs: int) -> Refusal:
    """Refuses all calls but those of which these inputs, where they are there, are float32."""
    def each_real(call: Call) -> str | None:
        return all_of(*(only({FLOAT}, each) for each in inputs if call.has(each)))(call)

    return all_of(movable, each_real)


def _known_sigma(call: Call) -> str | None:
    """Refuses a sigma that only the run tells, or that is none."""
    sigma = call.input(5).data
    return None if sigma is not None and sigma.size == 1 and sigma.item() >= 0 else "sigma is not constant, or below 0"


@nest(ops.NonMaxSuppressionV4, _real(0, 1, 3, 4), parameters=frozenset({2}), is_last=True)
def non_max_suppression_v4(node: Node[ops.NonMaxSuppressionV4], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of boxes (n, 4), scores (n,), and limits: the indices (k,) of those selected, and their count ()."""
    indices, count = sinks
    _select(node, e, indices, None, count)


@nest(ops.NonMaxSuppressionV5, all_of(_real(0, 1, 3, 4, 5), _known_sigma), parameters=frozenset({2}), is_last=True)
def non_max_suppression_v5(node: Node[ops.NonMaxSuppressionV5], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """As `non_max_suppression_v4`, with the scores (k,) of those selected, which a sigma above 0 makes smaller by how
    much boxes overlap with those selected before them."""
    (indices, scores, count), sigma = sinks, node.call.input(5).data
    assert sigma is not None, "others are refused"
    least = node.input(4).linear(e, e.number(0))

    def decayed(score: ir.Value, ratio: ir.Value) -> tuple[ir.Value, ir.Value]:
        b, factor = e.builder, e.constant(np.float32(-0.5 / sigma.item()), FLOAT)
        found = b.fmul(score, exp(e, b.fmul(b.fmul(factor, ratio), ratio)))
        return found, b.fcmp_ordered(">", found, least)

    _select(node, e, indices, scores, count, decayed if sigma.item() > 0 else None)


def _select(node: Node[Any], e: Emitter, indices: Sink, kept: Sink | None, count: Sink,
            change: Change | None = None) -> None:
    """One loop takes the boxes, then one selects as many as there may be: each turn goes through all boxes to take out
    those that overlap and to find the next one. What is left of the results is zero."""
    corners, scores, b = node.input(0), node.input(1), e.builder
    boxes = Boxes(node, e, corners.shape[0])
    with e.loop(corners.shape[0]) as k:
        values = [corners.element(e, [k, e.number(each)]) for each in range(4)]
        boxes.take(k, values[:2], values[2:])
    boxes.begin(lambda k: scores.element(e, [k]), node.input(4).linear(e, e.number(0)))
    limit, found = node.input(3).linear(e, e.number(0)), Register(e, e.index)
    found.set(e.number(0))
    with e.loop(node.shape[0]) as place:
        is_left = boxes.is_left
        index = e.select(is_left, boxes.best.get(), e.number(0))
        indices(e, [place], convert(e, index, e.index_dtype, DType.INT32))
        if kept is not None:
            kept(e, [place], e.select(is_left, boxes.score.get(), e.constant(0, FLOAT)))
        found.set(b.add(found.get(), b.zext(is_left, e.index)))
        with b.if_then(is_left):
            boxes.suppress(limit, change)
    count(e, [], convert(e, found.get(), e.index_dtype, DType.INT32))


def _one_class(call: Call) -> str | None:
    """Refuses selection by each class, and of several classes for a box."""
    op = call.op
    assert isinstance(op, ops.DetectionPostProcess)
    if op.use_regular_nms:
        return "boxes are selected by each class"
    return None if op.max_classes_per_detection == 1 else "several classes of a box"


_READS = frozenset({FLOAT, DType.UINT8})
"""What boxes, scores and anchors are."""


@nest(ops.DetectionPostProcess, all_of(movable, *(only(_READS, each) for each in range(3)), _one_class),
      frozenset({1}), is_last=True)
def detection_post_process(node: Node[ops.DetectionPostProcess], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of boxes (1, n, 4), scores (1, n, classes), and anchors (n, 4): the corners (1, k, 4), classes (1, k) and scores
    (1, k) of boxes selected by their best scores, and their count (1,). Loops over n decode boxes and find these
    scores."""
    op, b, (_, count, width) = node.op, e.builder, node.input(1).shape
    boxes, first = Boxes(node, e, count), width - op.num_classes
    limit, least = (e.constant(np.nextafter(np.float32(value), np.float32(side)), FLOAT)
                    for value, side in ((op.nms_iou_threshold, np.inf), (op.nms_score_threshold, -np.inf)))
    with e.loop(count) as k:
        boxes.take(k, *_decoded(node, e, k))

    def best(k: ir.Value) -> tuple[ir.Value, ir.Value]:
        kind, score = Register(e, e.index), Register(e, ir.FloatType())
        kind.set(e.number(0))
        score.set(e.constant(-np.inf, FLOAT))
        with e.loop(op.num_classes) as each:
            found = _real_input(node, e, 1, [e.number(0), k, b.add(each, e.number(first))])
            is_better = b.fcmp_ordered(">", found, score.get())
            kind.set(e.select(is_better, each, kind.get()))
            score.set(e.select(is_better, found, score.get()))
        return kind.get(), score.get()

    boxes.begin(lambda k: best(k)[1], least)
    zero, found = e.number(0), Register(e, e.index)
    found.set(zero)
    with e.loop(op.max_detections) as place:
        for axis in range(4):
            sinks[0](e, [zero, place, e.number(axis)], e.constant(0, FLOAT))
        for sink in sinks[1:3]:
            sink(e, [zero, place], e.constant(0, FLOAT))
        with b.if_then(boxes.is_left):
            chosen = boxes.best.get()
            low, high = _decoded(node, e, chosen)
            for axis, corner in enumerate([*low, *high]):
                sinks[0](e, [zero, place, e.number(axis)], corner)
            sinks[1](e, [zero, place], convert(e, best(chosen)[0], e.index_dtype, FLOAT))
            sinks[2](e, [zero, place], boxes.score.get())
            found.set(b.add(found.get(), e.number(1)))
            boxes.suppress(limit)
    sinks[3](e, [zero], convert(e, found.get(), e.index_dtype, FLOAT))


def _real_input(node: Node[Any], e: Emitter, k: int, index: list[ir.Value]) -> ir.Value:
    """An element of an input as float32."""
    value, b = node.input(k), e.builder
    found = value.element(e, index)
    if value.dtype is FLOAT:
        return found
    given = quantization(node.call.input(k))
    centred = b.fsub(convert(e, found, value.dtype, FLOAT), e.constant(given.zero_point, FLOAT))
    return b.fmul(centred, e.constant(given.scale, FLOAT))


def _decoded(node: Node[ops.DetectionPostProcess], e: Emitter, k: ir.Value) -> tuple[list[ir.Value], list[ir.Value]]:
    """Two opposite corners of a box that is relative to an anchor, whose centre and sides are computed in double
    precision; fails where a side is negative."""
    op, b, zero, real = node.op, e.builder, e.number(0), ir.FloatType()

    def wide_input(number: int, index: list[ir.Value]) -> ir.Value:
        return b.fpext(_real_input(node, e, number, index), ir.DoubleType())

    def scale(value: float) -> ir.Value:
        return e.constant(float(np.float32(value)), DType.FLOAT64)

    y, x, tall, wide = (wide_input(0, [zero, k, e.number(axis)]) for axis in range(4))
    v, u, height, width = (wide_input(2, [k, e.number(axis)]) for axis in range(4))
    low, high = [], []
    for place, size, begin, side, scales in ((y, tall, v, height, (op.y_scale, op.h_scale)),
                                             (x, wide, u, width, (op.x_scale, op.w_scale))):
        center = b.fptrunc(b.fadd(b.fmul(b.fdiv(place, scale(scales[0])), side), begin), real)
        grown = _grown(e, b.fdiv(size, scale(scales[1])))
        half = b.fptrunc(b.fmul(b.fmul(grown, scale(0.5)), side), real)
        node.function.fail_unless(b.not_(b.fcmp_ordered("<", half, e.constant(0, FLOAT))), node.place,
                                  "expected boxes of which no side is negative")
        low.append(b.fsub(center, half))
        high.append(b.fadd(center, half))
    return low, high


_SMALLEST, _GREATEST = -745.1332191019412, 709.782712893384
"""Doubles beyond which the power of e is 0, or infinite."""


def _grown(e: Emitter, x: ir.Value) -> ir.Value:
    """e to the power of a double, to 4e-14; beyond 2 ** 999, which no side makes a float32 of, what is beyond it."""
    b = e.builder
    p, s = exp2_parts((Lanes(e, x) * (1 / math.log(2))).clamp(-999.0, 999.0))
    found = p.fma(s, s).value
    for relation, bound, beyond in ((">", _GREATEST, np.inf), ("<", _SMALLEST, 0.0)):
        is_beyond = b.fcmp_ordered(relation, x, e.constant(bound, DType.FLOAT64))
        found = e.select(is_beyond, e.constant(beyond, DType.FLOAT64), found)
    return e.select(b.fcmp_unordered("uno", x, x), x, found)


@nest(ops.SelectBoxes, all_of(_real(0, 1, 3, 4), counts), is_last=True)
def select_boxes(node: Node[ops.SelectBoxes], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of boxes (m, n, 4) and scores (m, c, n): the batch, class and box (k, 3), i64, of those selected. Loops over m,
    which take the boxes, and over c, which select from them, one after the other."""
    home, found, boxes = sinks[0].memory, Register(e, e.index), Boxes(node, e, node.input(0).shape[1])
    assert home is not None, "what is last has its memory"
    found.set(e.number(0))
    b, (batches, classes, count), scores = e.builder, node.input(1).shape, node.input(1)
    given = [node.optional(k) for k in (2, 3, 4)]
    most = e.number(0) if given[0] is None else extended(e, given[0].linear(e, e.number(0)), given[0].dtype)
    limit, least = (e.constant(number, FLOAT) if each is None else each.linear(e, e.number(0))
                    for each, number in zip(given[1:], (0, -np.inf), strict=True))
    with e.loop(batches) as batch:
        with e.loop(count) as k:
            boxes.take(k, *_corners(node, e, batch, k))
        with e.loop(classes) as kind:
            boxes.begin(lambda k: scores.element(e, [batch, kind, k]), least)
            with e.loop(count) as turn:
                is_left = b.and_(boxes.is_left, b.icmp_signed("<", turn, most))
                with b.if_then(is_left):
                    first = b.mul(found.get(), e.number(3))
                    for axis, value in enumerate((batch, kind, boxes.best.get())):
                        e.store(convert(e, value, e.index_dtype, DType.INT64), home, DType.INT64,
                                b.add(first, e.number(axis)))
                    found.set(b.add(found.get(), e.number(1)))
                    boxes.suppress(limit, relation=">")
    e.define(node.shape[0], found.get())


def _corners(node: Node[ops.SelectBoxes], e: Emitter, batch: ir.Value, k: ir.Value
             ) -> tuple[list[ir.Value], list[ir.Value]]:
    """Two opposite corners of a box."""
    b, values = e.builder, [node.input(0).element(e, [batch, k, e.number(each)]) for each in range(4)]
    if not node.op.centers:
        return values[:2], values[2:]
    half = [b.fmul(each, e.constant(0.5, FLOAT)) for each in values[2:]]
    pairs = list(zip(values[:2], half, strict=True))
    return [b.fsub(*each) for each in pairs], [b.fadd(*each) for each in pairs]
