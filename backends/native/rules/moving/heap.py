"""Heaps in native code: the greatest of many records, as they are found, and then in order."""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, UNSIGNED, Emitter, is_real
from circlet.backends.native.emit.loops import search
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.reduce import Register
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Records:
    """Elements and their places as integers, of which the greater leads: that of the greater element, where elements
    are equal of the one in front. NaN comes after all numbers."""

    dtype: DType

    @property
    def _key(self) -> ir.IntType:
        return ir.IntType(64 if self.dtype.numpy.itemsize == 8 else 32)

    @property
    def kind(self) -> ir.IntType:
        return ir.IntType(2 * self._key.width)

    def of(self, e: Emitter, element: ir.Value, place: ir.Value) -> ir.Value:
        """The record of an element at a place."""
        b = e.builder
        behind = b.zext(b.not_(b.trunc(place, I32) if place.type.width > I32.width else place), self.kind)
        return b.or_(b.shl(b.sext(self._ranked(e, element), self.kind), self.kind(self._key.width)), behind)

    def _ranked(self, e: Emitter, element: ir.Value) -> ir.Value:
        """A signed integer for an element, ordered as these are."""
        b, key, least = e.builder, self._key, ir.Constant(self._key, -1 << self._key.width - 1)
        if not is_real(self.dtype):
            narrow = element.type.width < key.width
            if self.dtype in UNSIGNED:
                return b.zext(element, key) if narrow else b.xor(element, least)
            return b.sext(element, key) if narrow else element
        real = DType.FLOAT32 if key.width == 32 else DType.FLOAT64
        number = b.fadd(convert(e, element, self.dtype, real), e.constant(0.0, real))  # -0.0 is 0.0
        bits = b.bitcast(number, key)
        turned = b.and_(b.ashr(bits, key(key.width - 1)), ir.Constant(key, (1 << key.width - 1) - 1))
        return e.select(b.fcmp_unordered("uno", number, number), least, b.xor(bits, turned))

    def place(self, e: Emitter, record: ir.Value) -> ir.Value:
        """Where the element is of a record."""
        place = e.builder.not_(e.builder.trunc(record, I32))
        return place if e.index == I32 else e.builder.zext(place, e.index)


@dataclass(frozen=True, eq=False)
class Heap:
    """Integers in memory, none of which is greater than those at twice its place plus 1 and 2."""

    e: Emitter
    memory: ir.Value
    kind: ir.IntType

    def get(self, place: ir.Value) -> ir.Value:
        """That at a place."""
        return self.e.builder.load(self.e.address(self.memory, self.kind, place), typ=self.kind, align=8)

    def put(self, value: ir.Value, place: ir.Value) -> None:
        """Writes one at a place."""
        self.e.builder.store(value, self.e.address(self.memory, self.kind, place), align=8)

    def sink(self, value: ir.Value, place: ir.Value, count: ir.Value) -> None:
        """Writes one at a place of a heap of `count`, or further down, where lesser ones move up."""
        e, b = self.e, self.e.builder
        hole, last = Register(e, e.index), b.sub(count, e.number(1))
        hole.set(place)

        def is_home(_: ir.Value) -> ir.Value:
            first = b.add(b.shl(hole.get(), e.number(1)), e.number(1))
            at = [e.intrinsic("smin", b.add(first, e.number(k)), last) for k in range(2)]
            one, other = map(self.get, at)
            is_other = b.icmp_signed("<", other, one)
            lesser, below = b.select(is_other, other, one), b.select(is_other, *reversed(at))
            ends = b.or_(b.icmp_signed(">=", first, count), b.icmp_signed("<=", value, lesser))
            with b.if_then(b.not_(ends)):
                self.put(lesser, hole.get())
                hole.set(below)
            return ends

        search(e, e.number(e.index.width), is_home)
        self.put(value, hole.get())

    def order(self, count: ir.Value) -> None:
        """Makes a heap of `count` integers in any order."""
        e, b = self.e, self.e.builder
        half = b.lshr(count, e.number(1))
        with e.loop(half) as turn:
            place = b.sub(b.sub(half, e.number(1)), turn)
            self.sink(self.get(place), place, count)

    def sort(self, count: ir.Value) -> None:
        """Puts a heap of `count` in order, the greatest first."""
        e, b = self.e, self.e.builder
        with e.loop(b.sub(count, e.number(1))) as turn:
            last = b.sub(b.sub(count, e.number(1)), turn)
            least, moved = self.get(e.number(0)), self.get(last)
            self.put(least, last)
            self.sink(moved, e.number(0), last)
