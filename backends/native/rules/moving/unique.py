"""Native rules of the operators that find distinct elements and slices: by a hash table, and in order by merging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import I1, I64, UNSIGNED, Emitter, is_real
from circlet.backends.native.emit.loops import every, search
from circlet.backends.native.emit.value import Value
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.index import counts
from circlet.backends.native.rules.moving.merge import Merge
from circlet.backends.native.rules.moving.move import expect
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.elementwise import compare
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import bound, is_length, is_open, larger, may_differ
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.operands import normalize_axis
from circlet.runtime.ops.sort import Unique, UniqueSlices
from circlet.runtime.records import dataclass

PLACE = DType.INT32
"""What items are numbered by in scratch memory."""
MIX = -0x61C8864680B583EB
"""What bits are multiplied by, so that those of items which are near each other differ in the upper half: 2 ** 64 over
the golden ratio."""


MOST = (1 << 31) - 1
"""How many items there can be."""


def _too_many(call: Call) -> str | None:
    """Refuses more elements than can be numbered."""
    shape = call.input(0).shape
    is_known = call.input(0).is_static and not is_open(shape)
    return f"{prod(shape)} elements" if is_known and prod(shape) > MOST else None


@dataclass(frozen=True, eq=False)
class _Items:
    """What is looked up: the slices of a tensor along an axis."""

    e: Emitter
    x: Value
    axis: int
    are_nans_equal: bool

    @property
    def count(self) -> int:
        """Of the slices."""
        return self.x.shape[self.axis]

    @property
    def rest(self) -> Shape:
        """The shape of a slice."""
        return (*self.x.shape[:self.axis], *self.x.shape[self.axis + 1:])

    def element(self, item: ir.Value, position: ir.Value) -> ir.Value:
        """An element of a slice, by its position in row-major order."""
        index = self.e.delinear(position, self.rest)
        return self.x.element(self.e, [*index[:self.axis], item, *index[self.axis:]])

    def hash(self, item: ir.Value) -> ir.Value:
        """An i64 whose upper half is the same for equal slices, and mostly another one for others."""
        found = Register(self.e, I64)
        found.set(ir.Constant(I64, 0))
        with self.e.loop(prod(self.rest)) as position:
            bits = self.e.builder.xor(found.get(), self._bits(item, self.element(item, position)))
            found.set(self.e.builder.mul(bits, ir.Constant(I64, MIX)))
        return found.get()

    def _bits(self, item: ir.Value, value: ir.Value) -> ir.Value:
        """An i64 that is the same for equal elements; where no NaN equals another, each has one of its own."""
        e, b, dtype = self.e, self.e.builder, self.x.dtype
        if not is_real(dtype):
            widen = b.zext if dtype in UNSIGNED or dtype is DType.BOOL else b.sext
            return value if value.type == I64 else widen(value, I64)
        positive = b.fadd(value, e.constant(0.0, dtype))
        bits = b.bitcast(positive, ir.IntType(dtype.numpy.itemsize * 8))
        is_nan = b.fcmp_unordered("uno", value, value)
        number = ir.Constant(I64, 1) if self.are_nans_equal else b.sext(item, I64)
        return b.select(is_nan, number, bits if bits.type == I64 else b.zext(bits, I64))

    def are_equal(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """Whether two slices have the same elements."""
        if not may_differ(prod(self.rest), 1):
            return self._matches(*self._both(one, other, self.e.number(0)))
        length = self.e.number(prod(self.rest))
        return self.e.builder.icmp_signed("==", self._difference(one, other), length)

    def precedes(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """Whether a slice comes before another one: by the first element that differs; NaN after all numbers."""
        if not may_differ(prod(self.rest), 1):
            return self._less(*self._both(one, other, self.e.number(0)))
        b, found = self.e.builder, Register(self.e, I1)
        place = self._difference(one, other)
        found.set(ir.Constant(I1, False))
        with b.if_then(b.icmp_signed("<", place, self.e.number(prod(self.rest)))):
            found.set(self._less(*self._both(one, other, place)))
        return found.get()

    def _both(self, one: ir.Value, other: ir.Value, position: ir.Value) -> tuple[ir.Value, ir.Value]:
        return self.element(one, position), self.element(other, position)

    def _difference(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """Where two slices differ first."""
        return search(self.e, self.e.number(prod(self.rest)), lambda position: self.e.builder.not_(
            self._matches(*self._both(one, other, position))))

    def _matches(self, one: ir.Value, other: ir.Value) -> ir.Value:
        b, found = self.e.builder, compare(self.e, self.x.dtype, "==", one, other)
        if not is_real(self.x.dtype) or not self.are_nans_equal:
            return found
        return b.or_(found, b.and_(*(b.fcmp_unordered("uno", each, each) for each in (one, other))))

    def _less(self, one: ir.Value, other: ir.Value) -> ir.Value:
        b, found = self.e.builder, compare(self.e, self.x.dtype, "<", one, other)
        if not is_real(self.x.dtype):
            return found
        return b.or_(found, b.and_(b.fcmp_ordered("ord", one, one), b.fcmp_unordered("uno", other, other)))


@dataclass(frozen=True, eq=False)
class _Table:
    """A hash table in scratch memory, of the first ones of equal items; -1 stands for none."""

    items: _Items
    memory: ir.Value
    last: ir.Value
    """How many slots there are, less one, as an i64."""

    @classmethod
    def made(cls, node: Node[Any], items: _Items) -> _Table:
        """An empty one, with at least twice as many slots as there are items."""
        e, most = items.e, 4 * larger(bound(items.count), 1)
        table = cls(items, node.function.reserve(most * PLACE.numpy.itemsize), _last_slot(e, items.count))
        e.fill(table.memory, 255, e.builder.mul(table.size, e.number(PLACE.numpy.itemsize)))
        return table

    @property
    def size(self) -> ir.Value:
        """How many slots there are."""
        b = self.items.e.builder
        return b.trunc(b.add(self.last, ir.Constant(I64, 1)), self.items.e.index)

    def look_up(self, item: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Whether there is no item yet that equals one, which then is added, and the first one that does, or else 0."""
        e, b = self.items.e, self.items.e.builder
        start = b.lshr(self.items.hash(item), ir.Constant(I64, 32))

        def slot(step: ir.Value) -> ir.Value:
            return b.trunc(b.and_(b.add(start, b.sext(step, I64)), self.last), e.index)

        def held(step: ir.Value) -> tuple[ir.Value, ir.Value]:
            first = b.sext(e.load(self.memory, PLACE, slot(step)), e.index)
            is_free = b.icmp_signed("<", first, e.number(0))
            return is_free, b.select(is_free, e.number(0), first)

        def is_found(step: ir.Value) -> ir.Value:
            is_free, first = held(step)
            return b.or_(is_free, self.items.are_equal(item, first))

        step = search(e, self.size, is_found)
        is_new, first = held(step)
        e.store(convert(e, b.select(is_new, item, first), e.index_dtype, PLACE), self.memory, PLACE, slot(step))
        return is_new, first


def _last_slot(e: Emitter, count: int) -> ir.Value:
    """The greatest number of a slot of a table for so many items: all its bits are set."""
    if not is_length(count):
        return ir.Constant(I64, (1 << max(2 * count - 1, 1).bit_length()) - 1)
    b = e.builder
    found = b.sext(e.number(larger(2 * count - 1, 1)), I64)
    for shift in (1, 2, 4, 8, 16):
        found = b.or_(found, b.lshr(found, ir.Constant(I64, shift)))
    return found


def _numbered(node: Node[Any], items: _Items, numbers: ir.Value, dtype: DType,
              take: Callable[[ir.Value, ir.Value, ir.Value], None]) -> ir.Value:
    """Numbers equal items alike, in the order in which they come first; gives how many numbers there are.

    Args:
        node: the operator.
        items: what is numbered.
        numbers: memory for the number of each item.
        dtype: of the numbers.
        take: called with an item, its number, and whether it is the first one that has it.
    """
    e, b, count = items.e, items.e.builder, Whole(items.e, items.count)
    expect(node, count.compare("<=", MOST), "{} elements are more than can be numbered", count)
    table, found = _Table.made(node, items), Register(e, e.index)
    found.set(e.number(0))
    with e.loop(items.count) as item:
        is_new, first = table.look_up(item)
        known = convert(e, e.load(numbers, dtype, first), dtype, e.index_dtype)
        number = b.select(is_new, found.get(), known)
        e.store(convert(e, number, e.index_dtype, dtype), numbers, dtype, item)
        found.set(b.add(found.get(), b.zext(is_new, e.index)))
        take(item, number, is_new)
    return found.get()


def _memory(sink: Sink) -> ir.Value:
    """Where one of several results lies."""
    assert sink.memory is not None, "nothing is computed from several results"
    return sink.memory


@nest(Unique, all_of(movable, counts, _too_many))
def unique(node: Node[Unique], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (n,): the distinct elements in the order in which they come first, and the number of each element among
    them. One loop over the elements, each of which is looked up."""
    items = _Items(e, node.input(0), 0, are_nans_equal=False)

    def take(item: ir.Value, number: ir.Value, is_new: ir.Value) -> None:
        with e.builder.if_then(is_new):
            e.store(items.x.linear(e, item), _memory(sinks[0]), items.x.dtype, number)

    e.define_once(node.shape[0], _numbered(node, items, _memory(sinks[1]), node.call.outputs[1].dtype, take))


def _slices_of_reals(call: Call) -> str | None:
    """Refuses slices of real numbers."""
    assert isinstance(call.op, UniqueSlices)
    x = call.input(0)
    return "slices of real numbers" if is_real(x.dtype) and call.op.axis is not None and len(x.shape) != 1 else None


@nest(UniqueSlices, all_of(movable, counts, _too_many, _slices_of_reals))
def unique_slices(node: Node[UniqueSlices], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x, its elements or slices along an axis: the distinct ones, where each comes first, the number of each given
    one among them, and how often each occurs. They are numbered by first occurrence, then put in order."""
    b, x = e.builder, node.input(0)
    flat = x.reshaped((x.size,)) if node.op.axis is None else x
    items = _Items(e, flat, 0 if node.op.axis is None else normalize_axis(node.op.axis, len(x.shape)), True)
    _, firsts, numbers, repetitions = map(_memory, sinks)
    most = bound(items.count)
    places, ranks, counted = (node.function.reserve(times * most * PLACE.numpy.itemsize) for times in (2, 1, 1))

    def take(item: ir.Value, number: ir.Value, is_new: ir.Value) -> None:
        with b.if_then(is_new):
            e.store(convert(e, item, e.index_dtype, PLACE), places, PLACE, number)
            e.store(e.constant(0, PLACE), counted, PLACE, number)
        e.store(b.add(e.load(counted, PLACE, number), e.constant(1, PLACE)), counted, PLACE, number)

    found = _numbered(node, items, numbers, DType.INT64, take)
    for axis, size in enumerate(node.shape):
        if e.is_undefined(size):
            assert axis == items.axis, "only how many there are is computed"
            e.define(size, found)
    begin = _in_order(items, places, found) if node.op.ascending else e.number(0)
    with e.loop(found) as rank:
        place = e.load(places, PLACE, b.add(begin, rank))
        first = b.sext(place, e.index)
        number = b.trunc(e.load(numbers, DType.INT64, first), e.index)
        e.store(convert(e, rank, e.index_dtype, PLACE), ranks, PLACE, number)
        e.store(b.sext(place, I64), firsts, DType.INT64, rank)
        e.store(b.sext(e.load(counted, PLACE, number), I64), repetitions, DType.INT64, rank)
        with every(e, items.rest) as rest:
            cut = items.axis
            sinks[0](e, [*rest[:cut], rank, *rest[cut:]], flat.element(e, [*rest[:cut], first, *rest[cut:]]))
    with e.loop(items.count) as item:
        number = b.trunc(e.load(numbers, DType.INT64, item), e.index)
        e.store(b.sext(e.load(ranks, PLACE, number), I64), numbers, DType.INT64, item)


def _in_order(items: _Items, places: ir.Value, count: ir.Value) -> ir.Value:
    """Sorts items by their places; gives where the sorted ones begin."""
    e = items.e

    def precedes(one: Sequence[ir.Value], other: Sequence[ir.Value]) -> ir.Value:
        return items.precedes(*(e.builder.sext(each[0], e.index) for each in (one, other)))

    return Merge(e, ((places, PLACE),), precedes).sort(count)
