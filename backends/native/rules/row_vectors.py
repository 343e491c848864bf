"""Combines rows in memory of an open length a vector at a time, down to the last element.

LLVM leaves up to a vector's worth of elements of such a row to scalar code, which takes most of the time of a short
one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, Emitter, register_type
from circlet.backends.native.emit.loops import Carried, carry
from circlet.backends.native.emit.value import Value
from circlet.backends.native.targets.constants import Uniform
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass

_BESIDE = 4
"""Vectors that are combined side by side: an addition takes four cycles. A choice."""
_RUN = 4096
"""Elements that are combined in a lane before the outcome joins that of the others, as `real.reduce.RUN` has it."""
Combine: TypeAlias = Callable[[Emitter, ir.Value, ir.Value], ir.Value]
"""Emits two vectors, or two elements, combined."""


@dataclass(frozen=True, eq=False)
class RowVectors:
    """Vectors of the elements of a tensor in memory."""

    memory: ir.Value
    dtype: DType
    lanes: int

    @classmethod
    def of(cls, e: Emitter, x: Value) -> RowVectors | None:
        """As wide as registers are; None where elements have no memory, or the processor no masks."""
        if x.memory is None or x.dtype is DType.BOOL or not e.target.has_masks:
            return None
        return cls(x.memory, x.dtype, e.target.vector_bytes // x.dtype.numpy.itemsize)

    @property
    def _kind(self) -> ir.Type:
        return ir.VectorType(register_type(self.dtype), self.lanes)

    def combined(self, e: Emitter, combine: Combine, start: float | int, begin: ir.Value, count: ir.Value) -> ir.Value:
        """`count` elements from a position on: whole vectors side by side, then what is left with masks, then the
        lanes by halves. `start` is what changes nothing."""
        b, nothing, block = e.builder, Uniform(self._kind, start), e.number(_BESIDE * self.lanes)
        blocks = b.udiv(count, block)
        done = b.mul(blocks, block)
        rest = b.sub(count, done)

        def run(number: ir.Value, totals: Carried) -> Carried:
            first = b.mul(number, e.number(_RUN))
            some = e.intrinsic("smin", b.sub(blocks, first), e.number(_RUN))
            found = carry(e, some, [nothing] * _BESIDE, lambda k, sums: whole(b.add(first, k), sums))
            return [combine(e, *each) for each in zip(totals, found, strict=True)]

        def whole(number: ir.Value, totals: Carried) -> Carried:
            first = b.add(begin, b.mul(number, block))
            return [combine(e, total, self._load(e, b.add(first, e.number(k * self.lanes))))
                    for k, total in enumerate(totals)]

        def masked(number: ir.Value, totals: Carried) -> Carried:
            offset = b.mul(number, e.number(self.lanes))
            place = b.add(begin, b.add(done, offset))
            return [combine(e, totals[0], self._first(e, place, b.sub(rest, offset), nothing))]

        with nullcontext() if e.meter is None else e.meter.turn(None):
            runs = b.udiv(b.add(blocks, e.number(_RUN - 1)), e.number(_RUN))
            totals = carry(e, runs, [nothing] * _BESIDE, run)
            while len(totals) > 1:
                totals = [combine(e, *totals[k:k + 2]) for k in range(0, len(totals), 2)]
            turns = b.udiv(b.add(rest, e.number(self.lanes - 1)), e.number(self.lanes))
            (total,) = carry(e, turns, totals, masked)
        return self._by_halves(e, combine, total)

    def _load(self, e: Emitter, position: ir.Value) -> ir.Value:
        place = e.address(self.memory, register_type(self.dtype), position)
        return e.builder.load(place, typ=self._kind, align=self.dtype.numpy.itemsize)

    def _first(self, e: Emitter, position: ir.Value, count: ir.Value, other: ir.Value) -> ir.Value:
        """The first `count` elements from a position on, and `other` in the lanes behind."""
        b, numbers = e.builder, ir.VectorType(I32, self.lanes)
        left = b.trunc(e.intrinsic("smin", count, e.number(self.lanes)), I32)
        empty = ir.Constant(numbers, ir.Undefined)
        every = b.shuffle_vector(b.insert_element(empty, left, I32(0)), empty, Uniform(numbers, 0))
        mask = b.icmp_signed("<", ir.Constant(numbers, list(range(self.lanes))), every)
        place = e.address(self.memory, register_type(self.dtype), position)
        return e.load_masked(place, mask, other, self.dtype.numpy.itemsize)

    def _by_halves(self, e: Emitter, combine: Combine, total: ir.Value) -> ir.Value:
        """All lanes combined."""
        width = self.lanes
        while width > 1:
            width //= 2
            low, high = (ir.Constant(ir.VectorType(I32, width), list(range(k, k + width))) for k in (0, width))
            total = combine(e, *(e.builder.shuffle_vector(total, total, each) for each in (low, high)))
        return e.builder.extract_element(total, I32(0))
