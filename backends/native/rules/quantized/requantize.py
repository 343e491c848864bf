"""Fixed-point rescaling of sums of each channel as code, as `multiplier.py` does it of other numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import Int32s
from circlet.backends.native.emit.emitter import I8, I32, I64, POINTER, Emitter
from circlet.backends.native.emit.loops import rolled
from circlet.backends.native.gemm.finish import Finish, Rows, WriteRow
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.gemm.operands import words
from circlet.backends.native.targets.constants import Uniform, shuffle_mask, splat
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass

_SHIFTS = range(1, 21)
"""The right shifts of vectors of channels. The zero point, of 8 bits and a sign, is added above the fraction, beside a
sum of at most 2 ** 30 that is shifted as far; up to 20 that fits into 32 bits."""
_FIELD = 8
"""Bits of a word of `Requantization.table` that hold a shift."""
_PACKED = 4
"""Lanes from which on four vectors are packed as one."""
SUMS_BELOW = 1 << 31
"""The magnitude of sums, i32, that `Requantization` takes."""
SHORT_SUMS_BELOW = 1 << 30
"""The magnitude of sums that are rescaled without products of 64 bits being shifted."""


def rescale_by(e: Emitter, value: ir.Value, multiplier: ir.Value, shift: ir.Value) -> ir.Value:
    """`rescale` of `multiplier.py` where the mantissa and the shift, at most its `GREATEST_SHIFT`, both i32, are in
    registers."""
    b, zero = e.builder, ir.Constant(I32, 0)
    left, right = e.intrinsic("smax", shift, zero), e.intrinsic("smax", b.neg(shift), zero)
    moved = b.sext(b.shl(b.trunc(value, I32), left), I64)
    if value.type.width > 32:
        moved = b.select(b.icmp_signed(">", left, zero), moved, value)
    product = b.mul(moved, b.sext(multiplier, I64))
    nearest = b.ashr(b.add(product, e.wide(1 << 30)), e.wide(31))
    wide = b.zext(right, I64)
    half = b.ashr(b.shl(e.wide(1), wide), e.wide(1))
    is_below = b.and_(b.icmp_signed("<", nearest, e.wide(0)), b.icmp_signed(">", right, zero))
    return b.trunc(b.ashr(b.sub(b.add(nearest, half), b.zext(is_below, I64)), wide), I32)


def clamped(e: Emitter, value: ir.Value, low: int, high: int) -> ir.Value:
    """An integer or a vector of them limited to an interval, where its type has others."""
    kind = value.type
    half = 1 << (kind.element if isinstance(kind, ir.VectorType) else kind).width - 1
    bounds = [each for each in (("<", low), (">", high)) if each not in (("<", -half), (">", half - 1))]
    for relation, bound in bounds:
        limit = (Uniform if isinstance(kind, ir.VectorType) else ir.Constant)(kind, bound)
        value = e.builder.select(e.builder.icmp_signed(relation, value, limit), limit, value)
    return value


@dataclass(frozen=True, eq=False)
class Requantization:
    """How sums, below `SUMS_BELOW` in magnitude, become stored values of 8 bits: rescaled, then clamped.

    Attributes:
        multipliers: the mantissa for each channel.
        shifts: the shift for each channel.
        zero_point: of the result.
        low: the least result.
        high: the greatest result.
        is_small: whether tables are to be as small as they can be.
        reach: the greatest magnitude of a sum. Where all weights of a channel are nearly zero, converters make biases
            as large as 2 ** 30, and right shifts of up to 31.
    """

    multipliers: Int32s
    shifts: Int32s
    zero_point: int
    low: int
    high: int
    is_small: bool = False
    reach: int = 0

    @cached_property
    def is_wide(self) -> bool:
        """Whether sums or shifts are too large for anything but shifts of 64 bits."""
        return self.reach >= SHORT_SUMS_BELOW or bool(np.any(self._right >= _SHIFTS.stop))

    @cached_property
    def _right(self) -> Int32s:
        """The right shifts of channels whose results are not all alike."""
        found: Int32s = -self.shifts[self.multipliers != 0]
        return found

    @cached_property
    def is_compact(self) -> bool:
        """Whether what is added before the shift follows from the shift, and is not in the table."""
        return self.is_small and (not self.is_rectified or bool(np.all(self._right > _SHIFTS.start)))

    @cached_property
    def looks(self) -> Hashable:
        """All that the code which requantises is made of, but for what is in tables."""
        usual, *others = -_SHIFTS.start - 1, 1 - _SHIFTS.stop, -_SHIFTS.start, 1 - _SHIFTS.start
        ranges = np.digitize(np.where(self.multipliers == 0, usual, self.shifts), others)
        zero_point = None if self.has_vectors else self.zero_point
        return self.low, self.high, self.is_rectified, self.is_wide, zero_point, ranges.tobytes()

    @cached_property
    def has_words(self) -> bool:
        """Whether the table has a word for each channel beside its mantissa."""
        return self.is_wide or self.is_compact

    @cached_property
    def is_rectified(self) -> bool:
        """Whether no negative sum matters, so that all may be rounded as positive ones are."""
        return self.low >= self.zero_point

    @property
    def has_vectors(self) -> bool:
        """Whether `call` computes it."""
        return bool(np.all(self._right >= _SHIFTS.start))

    def part(self, channels: slice) -> Requantization:
        """That of some of the channels."""
        return replace(self, multipliers=self.multipliers[channels], shifts=self.shifts[channels])

    def element(self, e: Emitter, value: ir.Value, multipliers: ir.Value, shifts: ir.Value,
                channel: ir.Value) -> ir.Value:
        """One sum, an i32, of a channel, by the tables of multipliers and shifts in memory."""
        b = e.builder
        multiplier, shift = (b.load(e.address(each, I32, channel), typ=I32) for each in (multipliers, shifts))
        value = b.add(rescale_by(e, value, multiplier, shift), ir.Constant(I32, self.zero_point))
        return b.trunc(clamped(e, value, self.low, self.high), I8)

    def table(self, lanes: int, channels: int, order: Array | None = None) -> Array:
        """What `call` reads: vector by vector of `lanes` channels the mantissas, the shifts and what is added before
        the shift; for so many channels, a multiple of the lanes, and if need be in another order. A compact table has
        mantissas and words: a shift and, above it, twice the zero point and one. A wide one has them too, with the zero
        point alone."""
        missing = channels - len(self.multipliers)
        multipliers, shifts = (np.pad(each, (0, missing)).astype(np.int64) for each in (self.multipliers, self.shifts))
        if order is not None:
            multipliers, shifts = multipliers[order], shifts[order]
        right = np.where(multipliers == 0, 2, -shifts)
        if self.has_words:
            above = self.zero_point if self.is_wide else 2 * self.zero_point + 1
            words = (above << _FIELD) + right - (self.is_rectified and not self.is_wide)
            pairs = [each.astype(np.int32).reshape(-1, lanes) for each in (multipliers, words)]
            return np.ascontiguousarray(np.concatenate(pairs, axis=1))
        if self.is_rectified:
            last = right - 1
            added = (1 << 30) + (1 << (30 + right)) + (self.zero_point << (31 + right))
            if lanes > 1:
                added = added.reshape(-1, lanes // 2, 2).swapaxes(1, 2)
            terms = np.ascontiguousarray(added).view(np.int32).reshape(-1, 2 * lanes)
        else:
            last = right
            terms = ((1 << (right - 1)) + (self.zero_point << right)).astype(np.int32).reshape(-1, lanes)
        parts = [multipliers.astype(np.int32).reshape(-1, lanes), last.astype(np.int32).reshape(-1, lanes), terms]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def vector_bytes(self, lanes: int) -> int:
        """Of `table` for one vector."""
        return 4 * lanes * (2 if self.has_words else 4 if self.is_rectified else 3)

    def call(self, e: Emitter, lanes: int, columns: int, sums: Rows, table: ir.Value, out: Rows,
             rows: ir.Value) -> None:
        """Requantises some columns of rows of sums (rows, columns), i32, by `table` from some vector on, into rows of
        bytes: calls a function that loops over the vectors of a row, and for each over the rows."""
        rest = columns % lanes

        def write(e: Emitter, sums: Rows, table: ir.Value, out: Rows, rows: ir.Value, full: ir.Value) -> None:
            with rolled(e, full) as number:
                self._write_vector(e, lanes, sums, table, out, rows, number, lanes)
            if rest:
                self._write_vector(e, lanes, sums, table, out, rows, full, rest)

        self._call(e, f"{lanes}_{rest}", write, sums, table, out, rows, e.number(columns // lanes))

    def finish_packed(self, lanes: int, columns: int) -> Finish:
        """Requantises the four vectors of sums of each row, which packing brings into the order of channels; only some
        columns are written, in one store."""
        def begin(e: Emitter, table: ir.Value) -> WriteRow:
            vectors = self._vectors(e, table, lanes, 4)

            def write(sums: Sequence[ir.Value], place: ir.Value) -> None:
                values = [vector.rescaled(each) for vector, each in zip(vectors, sums, strict=True)]
                stored = clamped(e, _packed(e, values), self.low, self.high)
                e.builder.store(_first(e, stored, columns), place, align=1)

            return write

        return Finish(f"packed_{self._name(columns)}", begin)

    def finish(self, lanes: int, columns: int) -> Finish:
        """Requantises so many columns of the sums of a tile (rows, vectors) by `table`, from the tile's first vector
        on: each four vectors become one of bytes, which a shuffle puts in order, and which is stored."""
        def begin(e: Emitter, table: ir.Value) -> WriteRow:
            vectors = self._vectors(e, table, lanes, -(-columns // lanes))
            order = _Order(e, lanes) if lanes >= _PACKED else None

            def write(sums: Sequence[ir.Value], place: ir.Value) -> None:
                values = [vector.rescaled(each) for vector, each in zip(vectors, sums, strict=False)]
                if order is None:
                    self._write_each(e, values, place, columns)
                    return
                for first in range(0, len(values), 4):
                    packed = clamped(e, _packed(e, _four(values[first:first + 4])), self.low, self.high)
                    stored = _first(e, order.arranged(packed), min(columns - first * lanes, 4 * lanes))
                    e.builder.store(stored, e.address(place, I8, first * lanes), align=1)

            return write

        def apart(e: Emitter, sums: Rows, table: ir.Value, out: Rows, rows: ir.Value) -> None:
            self.call(e, lanes, columns, sums, table, out, rows)

        return Finish(self._name(columns), begin, apart)

    def _vectors(self, e: Emitter, table: ir.Value, lanes: int, count: int) -> list[_Vector]:
        """What rescales so many vectors of channels, by `table` from its first one on."""
        return [_Vector(e, e.address(table, I8, number * self.vector_bytes(lanes)), lanes, self)
                for number in range(count)]

    def _write_each(self, e: Emitter, vectors: Sequence[ir.Value], place: ir.Value, columns: int) -> None:
        """Stores vectors of results one by one."""
        for number, each in enumerate(vectors):
            lanes = each.type.count
            stored = self._narrowed(e, each)
            e.builder.store(_first(e, stored, columns - number * lanes), e.address(place, I8, number * lanes), align=1)

    def _narrowed(self, e: Emitter, values: ir.Value) -> ir.Value:
        """A vector of results, clamped, as bytes."""
        return e.builder.trunc(clamped(e, values, self.low, self.high), ir.VectorType(I8, values.type.count))

    def store(self, e: Emitter, sums: ir.Value, table: ir.Value, number: ir.Value, place: ir.Value) -> None:
        """Writes the results of a vector of sums, given the vector's number in the table."""
        lanes = sums.type.count
        terms = e.address(table, I8, e.builder.mul(number, e.number(self.vector_bytes(lanes))))
        e.builder.store(self._narrowed(e, _Vector(e, terms, lanes, self).rescaled(sums)), place, align=1)

    @property
    def name(self) -> str:
        """A name for code that requantises, which differs where the code does."""
        return self._name("each")

    def _name(self, kind: str | int) -> str:
        """A name for code that requantises, which differs where the code does."""
        sign = "rectified" if self.is_rectified else "signed"
        sign = "wide" if self.is_wide else f"{sign}{'_compact' * self.is_compact}"
        return f"{sign}_{kind}_{self.low}_{self.high}".replace("-", "m")

    @property
    def is_finishable(self) -> bool:
        """Whether `finish` computes it: packing saturates to int8."""
        return self.has_vectors and self.low >= -128 and self.high <= 127

    def _call(self, e: Emitter, kind: str, write: Callable[..., None], sums: Rows, table: ir.Value, out: Rows,
              rows: ir.Value, full: ir.Value) -> None:
        """Calls the function of a name, which `write` writes when it is first called."""
        name = f"requantise_{self._name(kind)}"
        function = e.module.globals.get(name)
        if function is None:
            kinds = [POINTER, e.index, POINTER, POINTER, e.index, e.index, e.index]
            function = internal_function(e, name, kinds, VectorLoop)
            for position in (0, 2, 3):
                function.args[position].add_attribute("noalias")
            inner = Emitter(e.module, function, e.target)
            memory, step, terms, results, results_step, count, vectors = function.args
            write(inner, Rows(memory, step), terms, Rows(results, results_step), count, vectors)
            inner.builder.ret_void()
        e.builder.call(function, [sums.memory, sums.step, table, out.memory, out.step, rows, full])

    def _write_vector(self, e: Emitter, lanes: int, sums: Rows, table: ir.Value, out: Rows, rows: ir.Value,
                      number: ir.Value, count: int) -> None:
        """One vector of channels, whose terms stay in registers, in a loop over the rows; some of the results are
        written."""
        b = e.builder
        terms = e.address(table, I8, b.mul(number, e.number(self.vector_bytes(lanes))))
        vector = _Vector(e, terms, lanes, self)
        column = b.mul(number, e.number(lanes))
        with rolled(e, rows) as row:
            value = vector.rescaled(_load(e, sums.memory, I32, lanes, b.add(b.mul(row, sums.step), column)))
            stored = self._narrowed(e, value)
            place = e.address(out.memory, I8, b.add(b.mul(row, out.step), column))
            b.store(_first(e, stored, count), place, align=1)


class _Vector:
    """The rescaling of as many channels as a vector has lanes."""

    def __init__(self, e: Emitter, table: ir.Value, lanes: int, by: Requantization) -> None:
        self._e = e
        self._lanes = lanes
        multipliers, self._shifts = (_load(e, table, I32, lanes, k * lanes) for k in range(2))
        self._multipliers = self._wide(multipliers)
        """As i64: those of the even and of the odd lanes, or of the only one."""
        self._is_rectified = by.is_rectified
        self._is_wide = by.is_wide
        terms = e.address(table, I32, 2 * lanes)
        if by.is_wide:
            self._take_apart()
        elif by.is_compact:
            self._compute()
        elif by.is_rectified:
            half = max(lanes // 2, 1)
            self._terms = [_load(e, terms, I64, half, k * half) for k in range(len(self._multipliers))]
        else:
            self._half = _load(e, terms, I32, lanes)
        if not by.is_rectified and not by.is_wide:
            self._terms = [splat(1 << 31, I64, max(lanes // 2, 1))] * len(self._multipliers)

    def _take_apart(self) -> None:
        """Takes the words of a wide table apart: shifts of whole products, halves of units, the zero point."""
        b, (field, mask) = self._e.builder, (splat(each, I32, self._lanes) for each in (_FIELD, (1 << _FIELD) - 1))
        self._zero = b.ashr(self._shifts, field)
        last, one = (splat(each, I64, max(self._lanes // 2, 1)) for each in (30, 1))
        before = [b.add(each, last) for each in self._wide(b.and_(self._shifts, mask))]
        self._terms = [b.shl(one, each) for each in before]
        self._places = [b.add(each, one) for each in before]

    def _compute(self) -> None:
        """Takes the words of a compact table apart, and computes what is added."""
        b, words = self._e.builder, self._shifts
        field, mask, one = (splat(each, I32, self._lanes) for each in (_FIELD, (1 << _FIELD) - 1, 1))
        self._shifts = b.and_(words, mask)
        self._half = b.shl(b.ashr(words, field), b.sub(self._shifts, one))
        if self._is_rectified:
            half = max(self._lanes // 2, 1)
            low, high = splat(1 << 30, I64, half), splat(32, I64, half)
            self._terms = [b.or_(b.shl(each, high), low) for each in self._wide(self._half)]

    def rescaled(self, sums: ir.Value) -> ir.Value:
        """With the zero point added, not clamped."""
        b = self._e.builder
        if self._is_wide:
            return b.add(self._rescaled_products(sums), self._zero)
        if self._is_rectified:
            return b.ashr(self._high_halves(sums), self._shifts)
        nearest = self._high_halves(b.add(sums, sums))
        sign = b.ashr(nearest, splat(31, I32, self._lanes))
        return b.ashr(b.add(b.add(nearest, self._half), sign), self._shifts)

    def _rescaled_products(self, sums: ir.Value) -> ir.Value:
        """The products of lanes, each shifted at once; even and odd lanes apart."""
        b, half = self._e.builder, self._lanes // 2
        nearest, up, sign = (splat(each, I64, max(half, 1)) for each in (1 << 30, 31, 63))
        results = []
        for one, other, term, place in zip(self._wide(sums), self._multipliers, self._terms, self._places, strict=True):
            product = b.add(b.mul(one, other), nearest)
            below = b.shl(b.ashr(product, sign), up)
            results.append(b.ashr(b.add(b.add(product, below), term), place))
        if not half:
            return b.trunc(results[0], sums.type)
        return b.shuffle_vector(*(b.bitcast(each, sums.type) for each in results), shuffle_mask(
            *(each for k in range(half) for each in (2 * k, self._lanes + 2 * k))))

    def _high_halves(self, sums: ir.Value) -> ir.Value:
        """The high halves of the products of lanes, to which the terms are added; even and odd lanes apart."""
        b, half = self._e.builder, self._lanes // 2
        factors = zip(self._wide(sums), self._multipliers, self._terms, strict=True)
        if not half:
            ((one, other, term),) = factors
            return b.trunc(b.ashr(b.add(b.mul(one, other), term), splat(32, I64, 1)), sums.type)
        products = [b.bitcast(b.add(b.mul(one, other), term), sums.type) for one, other, term in factors]
        return b.shuffle_vector(*products, shuffle_mask(*(each for k in range(half)
                                                   for each in (2 * k + 1, self._lanes + 2 * k + 1))))

    def _wide(self, values: ir.Value) -> tuple[ir.Value, ...]:
        """The even and the odd lanes as i64, in place: so LLVM finds the processor's instruction for such products; or
        the only one."""
        b, half = self._e.builder, self._lanes // 2
        if not half:
            return (b.sext(values, ir.VectorType(I64, 1)),)
        pairs, shift = b.bitcast(values, ir.VectorType(I64, half)), splat(32, I64, half)
        return b.ashr(b.shl(pairs, shift), shift), b.ashr(pairs, shift)


def _load(e: Emitter, base: ir.Value, kind: ir.Type, count: int, offset: ir.Value | int = 0) -> ir.Value:
    """The vector from an element of an array on, at words' alignment."""
    return e.builder.load(e.address(base, kind, offset), typ=ir.VectorType(kind, count), align=4)


def _first(e: Emitter, value: ir.Value, count: int) -> ir.Value:
    """The first lanes of a vector."""
    if count >= value.type.count:
        return value
    undefined = Uniform(value.type, ir.Undefined)
    return e.builder.shuffle_vector(value, undefined, shuffle_mask(*range(count)))


def _four(values: list[ir.Value]) -> list[ir.Value]:
    """Four vectors, of which only the first ones matter."""
    return [values[k % len(values)] for k in range(4)]


class _Order:
    """That of the lanes of four vectors that were packed: words of four bytes of each in turn."""

    def __init__(self, e: Emitter, lanes: int) -> None:
        self._e = e
        self._arrange = e.target.arrange(lanes)
        self._words = [k * 4 % lanes + k * 4 // lanes for k in range(lanes)]
        """The numbers of the words in order."""
        if self._arrange is not None:
            self._numbers = e.builder.load(words(e, self._words), typ=ir.VectorType(I32, lanes), align=4)

    def arranged(self, packed: ir.Value) -> ir.Value:
        """The bytes in order."""
        b, lanes = self._e.builder, len(self._words)
        if self._arrange is None:
            chosen = [4 * word + k for word in self._words for k in range(4)]
            return b.shuffle_vector(packed, Uniform(packed.type, ir.Undefined), shuffle_mask(*chosen))
        found = self._arrange(self._e, b.bitcast(packed, ir.VectorType(I32, lanes)), self._numbers)
        return b.bitcast(found, packed.type)


def _packed(e: Emitter, vectors: Sequence[ir.Value]) -> ir.Value:
    """Four vectors of i32 as bytes, saturated: the first four lanes of each, then the next four, and so on."""
    lanes = vectors[0].type.count
    pack = e.target.pack(lanes)
    if pack is not None:
        return pack(e, vectors)
    narrow = [e.builder.trunc(clamped(e, each, -128, 127), ir.VectorType(I8, lanes)) for each in vectors]
    low, high = (e.builder.shuffle_vector(narrow[k], narrow[k + 1], shuffle_mask(*range(2 * lanes))) for k in (0, 2))
    chosen = [vector * lanes + four + k for four in range(0, lanes, 4) for vector in range(4) for k in range(4)]
    return e.builder.shuffle_vector(low, high, shuffle_mask(*chosen))


def product_of_fractions(e: Emitter, one: ir.Value, other: ir.Value | int) -> ir.Value:
    """Of two fractions with 31 bits behind the point, as i64, halves rounded up: gemmlowp's arithmetic, as the numpy
    backend has it."""
    factor = e.wide(other) if isinstance(other, int) else other
    return e.builder.ashr(e.builder.add(e.builder.mul(one, factor), e.wide(1 << 30)), e.wide(31))


def saturated(e: Emitter, value: ir.Value) -> ir.Value:
    """An i64 limited to 32 bits."""
    return clamped(e, value, -(1 << 31), (1 << 31) - 1)


def shift_right(e: Emitter, value: ir.Value, bits: ir.Value) -> ir.Value:
    """`value / 2 ** bits` of an i64, halves rounded away from zero."""
    b = e.builder
    half = b.lshr(b.shl(e.wide(1), bits), e.wide(1))
    above = b.ashr(b.add(value, half), bits)
    below = b.neg(b.ashr(b.sub(half, value), bits))
    return e.select(b.icmp_signed("<", value, e.wide(0)), below, above)
