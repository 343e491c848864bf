"""Vectors of words in memory of any alignment."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from circlet.backends.native.emit.emitter import I8, I32, POINTER, Emitter
from circlet.backends.native.targets.constants import Uniform, shuffle_mask, splat, undefined

WORD = 4
"""Bytes that are broadcast from a row at a time, and that one lane of a panel's vector takes."""


class Vectors:
    """Loads and stores of vectors in memory of any alignment, distances in bytes."""

    def __init__(self, e: Emitter, element: ir.Type, count: int) -> None:
        self._e = e
        self.kind = ir.VectorType(element, count)
        self._mask = ir.VectorType(ir.IntType(1), count)

    def address(self, base: ir.Value, *offsets: ir.Value | int) -> ir.Value:
        """The sum of an address and some distances."""
        for each in offsets:
            if not isinstance(each, int) or each:
                base = self._e.address(base, I8, each)
        return base

    def load(self, address: ir.Value, align: int = WORD) -> ir.Value:
        """The vector at an address that is a multiple of a word, or of less."""
        return self._e.builder.load(address, typ=self.kind, align=align)

    def store(self, value: ir.Value, address: ir.Value) -> None:
        """Writes a vector to an address that is a multiple of a word."""
        self._e.builder.store(value, address, align=WORD)

    def store_some(self, value: ir.Value, address: ir.Value, count: ir.Value) -> None:
        """Stores as many lanes as `count` says, an index: none if it is negative, all if it exceeds them."""
        self.store_where(value, address, self.first(count))

    def store_where(self, value: ir.Value, address: ir.Value, mask: ir.Value) -> None:
        """Stores the lanes for which an i1 is true."""
        name = f"llvm.masked.store.v{self.kind.count}{'f' if isinstance(self.kind.element, ir.FloatType) else 'i'}32.p0"
        kind = ir.FunctionType(ir.VoidType(), [self.kind, POINTER, I32, self._mask])
        function = self._e.declare(name, kind)
        self._e.builder.call(function, [value, address, ir.Constant(I32, WORD), mask])

    def store_first(self, values: Sequence[ir.Value], addresses: Sequence[ir.Value], count: ir.Value) -> None:
        """Stores of each vector, at its address, as many lanes as `count` says, an index: none if it is negative, all
        if it exceeds them. What is less than all are halves, quarters and so on, each chosen once for all vectors:
        without masks a store of some lanes is one for each lane, and AMD's take some 18 cycles for one of AVX2."""
        b, lanes = self._e.builder, self.kind.count
        with b.if_else(b.icmp_signed(">=", count, self._e.number(lanes))) as (whole, partial):
            with whole:
                for value, address in zip(values, addresses, strict=True):
                    self.store(value, address)
            with partial:
                self._store_halves(values, addresses, self._e.intrinsic("smax", count, self._e.number(0)))

    def _store_halves(self, values: Sequence[ir.Value], addresses: Sequence[ir.Value], count: ir.Value) -> None:
        """The same for a count from 0 to less than all lanes: the first half where the count has it, after which the
        other half is what is left, else the first half is."""
        b, half = self._e.builder, values[0].type.count // 2
        if not half:
            return
        low, high = ([_lanes(self._e, each, begin, half) for each in values] for begin in (0, half))
        before = b.block
        with b.if_then(b.icmp_signed("!=", b.and_(count, self._e.number(half)), self._e.number(0))):
            for value, address in zip(low, addresses, strict=True):
                self.store(value, address)
            further = [self.address(each, half * WORD) for each in addresses]
            inside = b.block
        left, places = (
            [_either(self._e, (one, before), (other, inside)) for one, other in zip(first, second, strict=True)]
            for first, second in ((low, high), (addresses, further)))
        self._store_halves(left, places, count)

    def load_some(self, address: ir.Value, count: ir.Value) -> ir.Value:
        """Loads as many lanes as `count` says; the others are zero, and their memory is not touched."""
        return self.load_where(address, self.first(count))

    def load_where(self, address: ir.Value, mask: ir.Value, align: int = WORD) -> ir.Value:
        """Loads the lanes for which an i1 is true; the others are zero, and their memory is not touched."""
        name = f"llvm.masked.load.v{self.kind.count}{'f' if isinstance(self.kind.element, ir.FloatType) else 'i'}32.p0"
        kind = ir.FunctionType(self.kind, [POINTER, I32, self._mask, self.kind])
        function = self._e.declare(name, kind)
        return self._e.builder.call(function, [address, ir.Constant(I32, align), mask, self.splat(0)])

    def load_first(self, address: ir.Value, count: int) -> ir.Value:
        """Loads so many lanes, or all if they are fewer; the others are zero, and their memory is not touched."""
        if count >= self.kind.count:
            return self.load(address)
        if count <= 0:
            return self.splat(0)
        some = ir.VectorType(self.kind.element, count)
        loaded = self._e.builder.load(address, typ=some, align=WORD)
        order = [min(lane, count) for lane in range(self.kind.count)]
        return self._e.builder.shuffle_vector(
            loaded, Uniform(some, 0), ir.Constant(ir.VectorType(I32, len(order)), order))

    def first(self, count: ir.Value) -> ir.Value:
        """An i1 a lane, true for as many lanes as `count` says."""
        wide = ir.VectorType(self._e.index, self.kind.count)
        number = ir.Constant(wide, list(range(self.kind.count)))
        return self._e.builder.icmp_signed("<", number, broadcast(self._e, count, self.kind.count))

    def splat(self, value: float) -> ir.Value:
        """A constant in every lane."""
        return Uniform(self.kind, value)


def fetch(e: Emitter, address: ir.Value) -> None:
    """Brings memory into the second-level cache; the address need not be valid."""
    function = e.declare("llvm.prefetch.p0", ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32]))
    e.builder.call(function, [address, *(ir.Constant(I32, each) for each in (0, 2, 1))])


def _lanes(e: Emitter, value: ir.Value, begin: int, count: int) -> ir.Value:
    """So many lanes of a vector."""
    order = shuffle_mask(*range(begin, begin + count))
    return e.builder.shuffle_vector(value, undefined(value.type.element, value.type.count), order)


def _either(e: Emitter, *choices: tuple[ir.Value, ir.Block]) -> ir.Value:
    """The value of the block that was left last."""
    found = e.builder.phi(choices[0][0].type)
    for value, block in choices:
        found.add_incoming(value, block)
    return found


def broadcast(e: Emitter, value: ir.Value, count: int) -> ir.Value:
    """A vector of one value."""
    empty = undefined(value.type, count)
    first = e.builder.insert_element(empty, value, ir.Constant(I32, 0))
    return e.builder.shuffle_vector(first, empty, splat(0, I32, count))


def limited(e: Emitter, values: Sequence[ir.Value], limits: Sequence[ir.Value]) -> list[ir.Value]:
    """Vectors of real numbers limited to an interval, if one is given; NaN stays."""
    found = list(values)
    for relation, limit in zip("<>", limits, strict=False):
        bound = broadcast(e, limit, found[0].type.count)
        found = [e.builder.select(e.builder.fcmp_ordered(relation, each, bound), bound, each) for each in found]
    return found
