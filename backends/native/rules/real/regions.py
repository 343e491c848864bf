"""Native rule of means of samples in boxes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Lanes
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.move import expect, extended
from circlet.backends.native.rules.real.sample import expect_elements
from circlet.backends.native.rules.refusals import plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.sample import RoiAlign
from circlet.runtime.records import dataclass

_FLOAT = DType.FLOAT32


@nest(RoiAlign, all_of(plain, only((_FLOAT,)), only((_FLOAT,), 1)), frozenset({0, 1, 2}), is_last=True)
def roi_align(node: Node[RoiAlign], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (b, h, w, c), boxes (n, 4) and numbers (n,), float32: (n, rows, columns, c). Loops over boxes and cells,
    shared out, begin with zeros, and add for each sample four elements of each channel."""
    op, x, boxes, numbers, home = node.op, node.input(0), node.input(1), node.input(2), sinks[0].memory
    assert home is not None, "what is last has its memory"
    images, height, width, channels = x.shape
    with rolled(e, node.shape[0]) as box:
        image = Whole(e, extended(e, numbers.element(e, [box]), numbers.dtype))
        expect(node, image.is_in(0, images - 1), f"input 2: expected numbers of {images} images, found {{}}", image)
    expect_elements(node, (height, width))
    with parallel_nest(e, node.shape[:3], 64 * prod(node.shape)) as (box, row, column):
        image = extended(e, numbers.element(e, [box]), numbers.dtype)
        left, top, right, bottom = (Lanes(e, boxes.element(e, [box, e.number(k)])) for k in range(4))
        down = _Along.of(op, (op.rows, row), (top, bottom), height)
        across = _Along.of(op, (op.columns, column), (left, right), width)
        begin = e.linear([box, row, column, e.number(0)], node.shape)
        with independent(e, channels) as channel:
            e.store(e.constant(0, _FLOAT), home, _FLOAT, e.builder.add(begin, channel))
        with down.samples() as lines, across.samples() as columns:
            corners = [(line, at, (one * other).value) for line, one in lines for at, other in columns]
            with independent(e, channels) as channel:
                place = e.builder.add(begin, channel)
                total = e.load(home, _FLOAT, place)
                for line, at, weight in corners:
                    total = e.intrinsic("fmuladd", x.element(e, [image, line, at, channel]), weight, total)
                e.store(total, home, _FLOAT, place)


@dataclass(frozen=True, eq=False)
class _Along:
    """The samples of a cell along an axis.

    Attributes:
        begin: of the cell, a float32.
        size: of the cell.
        count: of samples, a float32.
        first: the first of the samples that are looked at, beyond which none is inside: an index.
        turns: how many there are.
        length: of the axis.
    """

    begin: Lanes
    size: Lanes
    count: Lanes
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
        return cls(first, size, count, _index(is_some.where(low, 0.0)), _index(turns), length)

    @contextmanager
    def samples(self) -> Iterator[tuple[tuple[ir.Value, Lanes], ...]]:
        """A loop over those that are inside: the two elements that each lies between, and what they count."""
        e = self.begin.e
        with rolled(e, self.turns) as number:
            turn = Lanes(e, e.builder.add(self.first, number)).to_real(SINGLE)
            place = self.begin + (turn + 0.5) * self.size / self.count
            length = Lanes(e, e.number(self.length)).to_real(SINGLE)
            with e.builder.if_then(((place >= -1.0) & (length >= place)).value):
                last = length - 1.0
                inner = place.at_least(0.0)
                inner = (inner > last).where(last, inner)
                low = inner.unary("floor")
                share, beyond = inner - low, low + 1.0
                above = (beyond > last).where(last, beyond)
                yield (_index(low), (-share + 1.0) / self.count), (_index(above), share / self.count)


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
