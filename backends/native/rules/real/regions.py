"""Native rules of means of samples, and of what is greatest, in boxes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Lanes
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.value import Value
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.move import expect, extended
from circlet.backends.native.rules.real.resize import at_most_last
from circlet.backends.native.rules.real.sample import expect_elements
from circlet.backends.native.rules.refusals import plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.sample import RegionMax, RoiAlign
from circlet.runtime.records import dataclass

_FLOAT = DType.FLOAT32
_WHOLE = (DType.INT32, DType.INT64)


@nest(RoiAlign, all_of(plain, only((_FLOAT,)), only((_FLOAT,), 1)), frozenset({0, 1, 2}), is_last=True)
def roi_align(node: Node[RoiAlign], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (b, h, w, c), boxes (n, 4) and numbers (n,), float32: (n, rows, columns, c). Loops over boxes and cells,
    shared out, begin with zeros, and add for each sample four elements of each channel, or take the greatest, of what
    nothing is below where all samples are inside."""
    op, x, boxes, numbers, home = node.op, node.input(0), node.input(1), node.input(2), sinks[0].memory
    assert home is not None, "what is last has its memory"
    images, height, width, channels = x.shape
    _expect_images(node, numbers, images, 2)
    expect_elements(node, (height, width))
    with parallel_nest(e, node.shape[:3], 64 * prod(node.shape)) as (box, row, column):
        image = extended(e, numbers.element(e, [box]), numbers.dtype)
        left, top, right, bottom = (Lanes(e, boxes.element(e, [box, e.number(k)])) for k in range(4))
        down = _Along.of(op, (op.rows, row), (top, bottom), height)
        across = _Along.of(op, (op.columns, column), (left, right), width)
        begin = e.linear([box, row, column, e.number(0)], node.shape)
        first = e.constant(0, _FLOAT)
        if op.is_max:
            first = (down.is_inside & across.is_inside).where(Lanes(e, e.constant(-inf, _FLOAT)), 0.0).value
        with independent(e, channels) as channel:
            e.store(first, home, _FLOAT, e.builder.add(begin, channel))
        with down.samples() as lines, across.samples() as columns:
            corners = [(line, at, (one * other).value) for line, one in lines for at, other in columns]
            with independent(e, channels) as channel:
                place = e.builder.add(begin, channel)
                total = e.load(home, _FLOAT, place)
                for line, at, weight in corners:
                    each = x.element(e, [image, line, at, channel])
                    total = e.intrinsic("fmuladd", each, weight, total) if not op.is_max else e.intrinsic(
                        "maximum", total, e.builder.fmul(each, weight), flags=("nsz",))
                e.store(total, home, _FLOAT, place)


@nest(RegionMax, all_of(plain, only((_FLOAT,)), *(only(_WHOLE, k) for k in (1, 2, 3))), frozenset({0, 1, 2, 3}),
      is_last=True)
def region_max(node: Node[RegionMax], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (b, h, w, c), float32, numbers (n,), rows (n, r, 2) and columns (n, k, 2): (n, r, k, c). Loops over boxes
    and cells, shared out, begin with what nothing is below, and compare the channels of each element."""
    x, numbers, home = node.input(0), node.input(1), sinks[0].memory
    assert home is not None, "what is last has its memory"
    images, height, width, channels = x.shape
    _expect_images(node, numbers, images, 1)
    with parallel_nest(e, node.shape[:3], 16 * prod(node.shape)) as (box, row, column):
        image = extended(e, numbers.element(e, [box]), numbers.dtype)
        top, lines = _bounds(node, 2, [box, row], height)
        left, places = _bounds(node, 3, [box, column], width)
        count = (lines * places).register
        begin = e.linear([box, row, column, e.number(0)], node.shape)
        none = e.select(e.builder.icmp_signed(">", count, e.register(0)), e.constant(-inf, _FLOAT),
                        e.constant(0, _FLOAT))
        with independent(e, channels) as channel:
            e.store(none, home, _FLOAT, e.builder.add(begin, channel))
        with rolled(e, lines.register) as line, rolled(e, places.register) as place:
            at = [image, e.builder.add(top.register, line), e.builder.add(left.register, place)]
            with independent(e, channels) as channel:
                own = e.builder.add(begin, channel)
                so_far, each = e.load(home, _FLOAT, own), x.element(e, [*at, channel])
                e.store(e.intrinsic("maximum", so_far, each, flags=("nsz",)), home, _FLOAT, own)


def _bounds(node: Node[RegionMax], number: int, place: list[ir.Value], length: int) -> tuple[Whole, Whole]:
    """Where a cell begins inside of an axis, and how many of its elements it has."""
    e, given = node.function.e, node.input(number)
    begin, end = (Whole(e, extended(e, given.element(e, [*place, e.number(k)]), given.dtype)) for k in range(2))
    begin, end = (each.at_least(0).at_most(length) for each in (begin, end))
    return begin, (end - begin).at_least(0)


def _expect_images(node: Node[Any], numbers: Value, images: int, place: int) -> None:
    """Leaves the function unless each number is that of an image."""
    e = node.function.e
    with rolled(e, node.shape[0]) as box:
        image = Whole(e, extended(e, numbers.element(e, [box]), numbers.dtype))
        expect(node, image.is_in(0, images - 1), f"input {place}: expected numbers of {images} images, found {{}}",
               image)


@dataclass(frozen=True, eq=False)
class _Along:
    """The samples of a cell along an axis.

    Attributes:
        begin: of the cell, a float32.
        size: of the cell.
        count: of samples, a float32.
        over: what the weights of a sample are divided by.
        first: the first of the samples that are looked at, beyond which none is inside: an index.
        turns: how many there are.
        length: of the axis.
    """

    begin: Lanes
    size: Lanes
    count: Lanes
    over: Lanes
    first: ir.Value
    turns: ir.Value
    length: int

    @classmethod
    def of(cls, op: RoiAlign, cell: tuple[int, ir.Value], box: tuple[Lanes, Lanes], length: int) -> _Along:
        """Those of one of so many cells of a box, as `backends/cpu/sample.py` has it."""
        e, (cells, number) = box[0].e, cell
        begin, end = (each * op.scale - (0.5 if op.is_half_pixel else 0.0) for each in box)
        span = end - begin if op.is_half_pixel else (end - begin).at_least(1.0)
        size = span / float(cells)
        count = size.constant(float(op.samples)) if op.samples else size.unary("ceil")
        first = begin + Lanes(e, number).to_real(SINGLE) * size
        low, high = _near(first, size / count, count, length)
        is_some = _is_finite(begin) & _is_finite(size) & (count >= 1.0)
        turns = is_some.where(high - low, 0.0).at_least(0.0)
        over = size.constant(1.0) if op.is_max else count
        return cls(first, size, count, over, _index(is_some.where(low, 0.0)), _index(turns), length)

    def _place(self, turn: Lanes) -> tuple[Lanes, Lanes]:
        """Where a sample lies, and whether that is inside."""
        place = self.begin + (turn + 0.5) * self.size / self.count
        return place, (place >= -1.0) & (Lanes(turn.e, turn.e.number(self.length)).to_real(SINGLE) >= place)

    @property
    def is_inside(self) -> Lanes:
        """Whether there are samples, and all of them are inside."""
        ends = [self._place(each)[1] for each in (self.count.constant(0.0), self.count - 1.0)]
        return ends[0] & ends[1] & (self.count >= 1.0)

    @contextmanager
    def samples(self) -> Iterator[tuple[tuple[ir.Value, Lanes], ...]]:
        """A loop over those that are inside: the two elements that each lies between, and what they count."""
        e = self.begin.e
        with rolled(e, self.turns) as number:
            turn = Lanes(e, e.builder.add(self.first, number)).to_real(SINGLE)
            place, is_inside = self._place(turn)
            with e.builder.if_then(is_inside.value):
                last = Lanes(e, e.number(self.length)).to_real(SINGLE) - 1.0
                inner = place.at_least(0.0)
                inner = (inner > last).where(last, inner)
                low = inner.unary("floor")
                share, beyond = inner - low, low + 1.0
                above = (beyond > last).where(last, beyond)
                at, beside = (at_most_last(e, _index(each), self.length) for each in (low, above))
                yield (at, (-share + 1.0) / self.over), (beside, share / self.over)


def _near(first: Lanes, step: Lanes, count: Lanes, length: int) -> tuple[Lanes, Lanes]:
    """The samples of a cell among which all are that may be inside, however large the box is: doubles."""
    e, start, apart, most = first.e, first.widen(DOUBLE), step.widen(DOUBLE), count.widen(DOUBLE)
    end = Lanes(e, e.number(length)).to_real(DOUBLE)
    one, other = ((edge - start) / apart for edge in (end.constant(-1.0), end))
    is_upward = one < other
    low = is_upward.where(one, other).unary("floor") - 1.0
    high = is_upward.where(other, one).unary("ceil") + 1.0
    is_point = apart.equals(0.0)
    low = is_point.where(low.constant(0.0), (low > 0.0).where(low, 0.0))
    return low, is_point.where(most, (high < most).where(high, most))


def _is_finite(x: Lanes) -> Lanes:
    """Whether a number is neither infinite nor NaN."""
    return x.unary("fabs") < float("inf")


def _index(x: Lanes) -> ir.Value:
    """A whole number that is not negative, as an index."""
    return x.e.builder.fptosi(x.value, x.e.index)
