"""Combines rows in memory a vector at a time, down to the last element.

LLVM leaves up to a vector's worth of elements of such a row to scalar code, which takes most of the time of a short
one, or combines a row of a known length element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeAlias, cast

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, I32, Emitter, register_type
from circlet.backends.native.emit.loops import Carried, branch, carry, choose, search
from circlet.backends.native.emit.value import Value
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.targets.constants import Uniform, lane_numbers
from circlet.runtime.ir.length import is_length
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass

_BESIDE = 4
"""Vectors that are combined side by side: an addition takes four cycles. A choice."""
_RUN = 4096
"""Elements that are combined in a lane before the outcome joins that of the others, as `real.reduce.RUN` has it."""
_NARROW = (4, 2, 1)
"""What parts of a register few elements are taken for: 2000 sums of rows of 4 or 8 floats take 2 and 4 us so, of whole
registers with masks 5 and 6, on AVX-512."""
Combine: TypeAlias = Callable[[Emitter, ir.Value, ir.Value], ir.Value]
"""Emits two vectors, or two elements, combined."""
Of: TypeAlias = Callable[[ir.Value], ir.Value]
"""Emits a function of each element of a vector."""
Matches: TypeAlias = Callable[[Emitter, ir.Value], ir.Value]
"""Emits an i1 for each lane of a vector."""


@dataclass(frozen=True, eq=False)
class RowVectors:
    """Vectors of the elements of a tensor in memory."""

    memory: ir.Value
    dtype: DType
    lanes: int
    has_row: bool = False
    """Whether one holds a whole row."""

    @classmethod
    def of(cls, e: Emitter, x: Value) -> RowVectors | None:
        """As wide as registers are; None where elements have no memory, or the processor no masks for them."""
        size = x.dtype.numpy.itemsize
        if x.memory is None or x.dtype is DType.BOOL or not e.target.masks(size):
            return None
        return cls(x.memory, x.dtype, e.target.vector_bytes // size)

    @property
    def kind(self) -> ir.Type:
        return ir.VectorType(register_type(self.dtype), self.lanes)

    def by_length(self, e: Emitter, count: Whole, write: Callable[[RowVectors], None]) -> None:
        """Code for rows of `count` elements: of the narrowest vectors one of which holds a row, of these if none
        does."""
        chosen = partial(write, self)
        for parts in (each for each in _NARROW[::-1] if each < self.lanes):
            narrow = replace(self, lanes=self.lanes // parts, has_row=True)
            chosen = partial(branch, e, count.compare("<=", narrow.lanes), partial(write, narrow), chosen)
        chosen()

    def combined(self, e: Emitter, combine: Combine, start: float | int, begin: ir.Value, count: Whole,
                 of: Of = lambda value: value) -> ir.Value:
        """A function of `count` elements from a position on: whole vectors, then what is left with a mask, then the
        lanes by halves. The function of `start` is what changes nothing."""
        b, nothing = e.builder, Uniform(self.kind, start)
        if self.has_row:
            return self.over_lanes(e, combine, of(self.first(e, begin, count.register, nothing)))
        blocks = count // (_BESIDE * self.lanes)
        done = blocks * (_BESIDE * self.lanes)
        turns = (count - done) // self.lanes
        end = done + turns * self.lanes
        left = count - end

        def one(number: ir.Value, totals: Carried) -> Carried:
            place = b.add(begin, (done + Whole(e, number) * self.lanes).register)
            return [combine(e, totals[0], of(self.load(e, place)))]

        with nullcontext() if e.meter is None else e.meter.turn(self._turns(count)):
            total = choose(e, blocks.compare(">", 0), lambda: self._beside(e, combine, begin, blocks, of),
                           lambda: of(nothing))
            if self._is_known(count):
                for number in range(cast(int, turns.value)):
                    (total,) = one(e.number(number), [total])
            else:
                (total,) = carry(e, turns.register, [total], one)
            total = choose(e, left.compare(">", 0), lambda: combine(
                e, total, of(self.first(e, b.add(begin, end.register), left.register, nothing))), lambda: total)
        return self.over_lanes(e, combine, total)

    @staticmethod
    def _is_known(count: Whole) -> bool:
        """Whether a number is known when code is made."""
        return not isinstance(count.value, ir.Value) and not is_length(count.value)

    def _turns(self, count: Whole) -> int | None:
        """How many vectors there are, if that is known."""
        return -(-cast(int, count.value) // self.lanes) if self._is_known(count) else None

    def _beside(self, e: Emitter, combine: Combine, begin: ir.Value, blocks: Whole, of: Of) -> ir.Value:
        """Blocks of some vectors each, one at least, which are combined side by side, in runs."""
        b = e.builder

        def block(number: Whole) -> Carried:
            place = b.add(begin, (number * (_BESIDE * self.lanes)).register)
            return [of(self.load(e, b.add(place, e.number(k * self.lanes)))) for k in range(_BESIDE)]

        def several(first: Whole, some: Whole) -> Carried:
            return carry(e, (some - 1).register, block(first), lambda number, totals: [
                combine(e, *each) for each in zip(totals, block(first + 1 + Whole(e, number)), strict=True)],
                is_settled=self._is_known(blocks))

        def run(number: ir.Value, totals: Carried) -> Carried:
            first = Whole(e, number) * _RUN + _RUN
            found = several(first, (blocks - first).at_most(_RUN))
            return [combine(e, *each) for each in zip(totals, found, strict=True)]

        totals = several(Whole(e, 0), blocks.at_most(_RUN))
        further = (blocks - 1) // _RUN
        if not further.is_zero:
            totals = carry(e, further.register, totals, run)
        while len(totals) > 1:
            totals = [combine(e, *totals[k:k + 2]) for k in range(0, len(totals), 2)]
        return totals[0]

    def place_of(self, e: Emitter, is_found: Matches, begin: ir.Value, count: Whole) -> ir.Value:
        """The place of the first of `count` elements from a position on that are found; `count` if none is. Whole
        vectors are looked at until one has it."""
        b = e.builder

        def is_in(number: ir.Value) -> ir.Value:
            elements = self.load(e, b.add(begin, b.mul(number, e.number(self.lanes))))
            found = self._bits(e, is_found(e, elements))
            return b.icmp_unsigned("!=", found, ir.Constant(found.type, 0))

        if self.has_row:
            return self._place_in_vector(e, is_found, begin, count.register)
        whole = search(e, (count // self.lanes).register, is_in, self._turns(count))
        before = Whole(e, whole) * self.lanes
        place = self._place_in_vector(e, is_found, b.add(begin, before.register),
                                      (count - before).at_most(self.lanes).register)
        return b.add(before.register, place)

    def _place_in_vector(self, e: Emitter, is_found: Matches, begin: ir.Value, count: ir.Value) -> ir.Value:
        """Among as many elements as there are lanes at the most."""
        b = e.builder
        found = self._bits(e, is_found(e, self.first(e, begin, count, ir.Constant(self.kind, None))))
        zeros = e.declare(f"llvm.cttz.{found.type}", ir.FunctionType(found.type, [found.type, I1]))
        place = b.call(zeros, [found, I1(0)])
        return e.intrinsic("smin", place if self.lanes == e.index.width else b.zext(place, e.index), count)

    def _bits(self, e: Emitter, mask: ir.Value) -> ir.Value:
        """A bit for each lane."""
        return e.builder.bitcast(mask, ir.IntType(self.lanes))

    def load(self, e: Emitter, position: ir.Value) -> ir.Value:
        """The vector from a position on."""
        place = e.address(self.memory, register_type(self.dtype), position)
        return e.builder.load(place, typ=self.kind, align=self.dtype.numpy.itemsize)

    def first(self, e: Emitter, position: ir.Value, count: ir.Value, other: ir.Value) -> ir.Value:
        """The first `count` elements from a position on, as many as there are lanes at the most, and `other` in the
        lanes behind."""
        return self.load_masked(e, position, self.mask(e, count), other)

    def load_masked(self, e: Emitter, position: ir.Value, mask: ir.Value, other: ir.Value) -> ir.Value:
        """The elements from a position on in the lanes where a mask holds, `other` elsewhere."""
        place = e.address(self.memory, register_type(self.dtype), position)
        return e.load_masked(place, mask, other, self.dtype.numpy.itemsize)

    def store_masked(self, e: Emitter, value: ir.Value, position: ir.Value, mask: ir.Value) -> None:
        """Writes the lanes where a mask holds from a position on."""
        place = e.address(self.memory, register_type(self.dtype), position)
        e.store_masked(value, place, mask, self.dtype.numpy.itemsize)

    def mask(self, e: Emitter, count: ir.Value) -> ir.Value:
        """An i1 for each lane: whether it is one of the first `count`."""
        if e.target.has_masks:
            numbers = lane_numbers(self.lanes)
        else:
            kind = ir.VectorType(ir.IntType(8 * self.dtype.numpy.itemsize), self.lanes)
            numbers = ir.Constant(kind, list(range(self.lanes)))
        width = numbers.type.element.width
        count = e.builder.trunc(count, numbers.type.element) if width < e.index.width else count
        return e.builder.icmp_unsigned("<", numbers, in_every_lane(e, count, numbers.type))

    def over_lanes(self, e: Emitter, combine: Combine, total: ir.Value) -> ir.Value:
        """All lanes combined."""
        width = self.lanes
        while width > 1:
            width //= 2
            low, high = (ir.Constant(ir.VectorType(I32, width), list(range(k, k + width))) for k in (0, width))
            total = combine(e, *(e.builder.shuffle_vector(total, total, each) for each in (low, high)))
        return e.builder.extract_element(total, I32(0))


def in_every_lane(e: Emitter, value: ir.Value, kind: ir.Type) -> ir.Value:
    """A vector of equal elements."""
    empty = ir.Constant(kind, ir.Undefined)
    return e.builder.shuffle_vector(e.builder.insert_element(empty, value, I32(0)), empty,
                                    ir.Constant(ir.VectorType(I32, kind.count), None))
