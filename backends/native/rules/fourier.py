"""Discrete Fourier transforms of as many rows at a time as a vector has lanes, in double precision where there is."""

from __future__ import annotations

from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, I64, Emitter, register_type
from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Lanes
from circlet.backends.native.emit.loops import rolled
from circlet.backends.native.rules.function import Function
from circlet.backends.native.rules.row_vectors import in_every_lane
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.records import dataclass

_WORD = 2 * DType.FLOAT64.numpy.itemsize
"""Bytes of a complex number, at the most."""
_RADICES = (4, 2, 3, 5)
"""How many numbers a pass may combine. Four first: a pass of four takes hardly longer than one of two."""

_QUARTERS = np.array([1, -1j, -1, 1j])


def radices(length: int) -> tuple[int, ...] | None:
    """How many numbers each pass of a transform combines, the product of which is its length; None where a prime
    factor of the length is none of them."""
    found = []
    for each in _RADICES:
        while length % each == 0:
            found.append(each)
            length //= each
    return tuple(found) if length == 1 else None


def roots(length: int, powers: Array) -> Array:
    """exp(-2 pi i k / length) for powers k of any shape: complex128, of their shape, exact at quarters of a turn."""
    turns = powers % length
    return np.where(4 * turns % length == 0, _QUARTERS[4 * turns // length], np.exp(-2j * np.pi * turns / length))


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex number of each row."""

    real: Lanes
    imag: Lanes

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: Complex) -> Complex:
        return Complex(self.real * other.real - self.imag * other.imag, self.real * other.imag + self.imag * other.real)

    def scaled(self, factor: float) -> Complex:
        """Times a real number."""
        return Complex(self.real * factor, self.imag * factor)

    def turned(self) -> Complex:
        """Times -i."""
        return Complex(self.imag, -self.real)

    def conjugate(self) -> Complex:
        return Complex(self.real, -self.imag)


def parts_of(e: Emitter) -> DType:
    """The type of the parts that are computed with."""
    return DType.FLOAT64 if e.target.has_doubles else DType.FLOAT32


def lanes_of(e: Emitter) -> int:
    """How many rows are transformed at a time."""
    return max(e.target.vector_bytes // parts_of(e).numpy.itemsize, 1)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Complex numbers of as many rows as there are lanes, in memory: of each number the real parts of all rows, then
    the imaginary ones."""

    memory: ir.Value
    count: int
    lanes: int
    dtype: DType
    """Of a part."""

    @classmethod
    def reserved(cls, e: Emitter, function: Function, count: int, room: int) -> Numbers:
        """So many in scratch memory that has room for more."""
        lanes, dtype = lanes_of(e), parts_of(e)
        return cls(function.scratch(room * lanes * _WORD), count, lanes, dtype)

    @property
    def kind(self) -> ir.Type:
        """Of a part of one number of all rows."""
        return ir.VectorType(register_type(self.dtype), self.lanes)

    @property
    def _alignment(self) -> int:
        return self.dtype.numpy.itemsize

    def put(self, e: Emitter, position: ir.Value, value: ir.Value) -> None:
        """Stores one part of one row, a float32, at a position."""
        wide = e.builder.fpext(value, DOUBLE) if self.dtype is DType.FLOAT64 else value
        e.store(wide, self.memory, self.dtype, position)

    def clear(self, e: Emitter) -> None:
        """Makes all numbers 0."""
        e.fill(self.memory, 0, 2 * self.count * self.lanes * self.dtype.numpy.itemsize)

    def _place(self, e: Emitter, number: ir.Value, part: int) -> ir.Value:
        """Where a part of a number begins."""
        vector = e.builder.add(e.builder.mul(number, e.number(2)), e.number(part))
        return e.address(self.memory, register_type(self.dtype), e.builder.mul(vector, e.number(self.lanes)))

    def load(self, e: Emitter, number: ir.Value) -> Complex:
        parts = [e.builder.load(self._place(e, number, part), typ=self.kind, align=self._alignment) for part in (0, 1)]
        return Complex(*(Lanes(e, each) for each in parts))

    def store(self, e: Emitter, number: ir.Value, value: Complex) -> None:
        for part, each in enumerate((value.real, value.imag)):
            e.builder.store(each.value, self._place(e, number, part), align=self._alignment)

    def store_bits(self, e: Emitter, number: ir.Value, value: Complex) -> None:
        """Writes elements of type complex64, of each number those of all rows."""
        parts = (each if each.element == SINGLE else each.narrow(SINGLE) for each in (value.real, value.imag))
        low, high = (each.bits().widen(I64) for each in parts)
        position = e.builder.mul(number, e.number(self.lanes))
        e.builder.store((low | high << I32.width).value, e.address(self.memory, I64, position), align=_WORD // 2)


@dataclass(frozen=True, eq=False)
class Table:
    """Complex constants, the same for all rows, that loops read by number."""

    memory: ir.Value
    numbers: Numbers
    """What they are factors of."""

    @classmethod
    def of(cls, function: Function, values: Array, numbers: Numbers) -> Table:
        """Of values of any shape, in row-major order."""
        parts = np.ascontiguousarray(values).reshape(-1).view(np.float64)
        return cls(function.external(parts.astype(numbers.dtype.numpy)), numbers)

    def load(self, e: Emitter, number: ir.Value) -> Complex:
        first = e.builder.mul(number, e.number(2))
        parts = [e.load(self.memory, self.numbers.dtype, e.builder.add(first, e.number(part))) for part in (0, 1)]
        return Complex(*(Lanes(e, in_every_lane(e, each, self.numbers.kind)) for each in parts))


def transform(e: Emitter, function: Function, given: Numbers, spare: Numbers) -> Numbers:
    """Transforms rows, without a factor: a pass for each of the `radices`, by Stockham's method, which leaves numbers
    in order. The result is in one of the two memories."""
    passes = radices(given.count)
    assert passes is not None, f"no passes for {given.count} numbers"
    source, target = given, spare
    for k, radix in enumerate(passes):
        _pass(e, function, source, target, radix, prod(passes[:k]))
        source, target = target, source
    return source


def _pass(e: Emitter, function: Function, source: Numbers, target: Numbers, radix: int, stride: int) -> None:
    """Combines numbers that are a `radix`-th of a transform apart, for `stride` transforms side by side."""
    length = source.count // stride
    turns = length // radix
    table = None
    if turns > 1:
        powers = np.arange(turns)[:, None] * np.arange(1, radix)
        table = Table.of(function, roots(length, powers), source)
    b = e.builder
    with rolled(e, turns) as turn:
        factors = [] if table is None else [
            table.load(e, b.add(b.mul(turn, e.number(radix - 1)), e.number(k))) for k in range(radix - 1)]
        first = b.mul(turn, e.number(stride))
        with rolled(e, stride) as k:
            place = b.add(first, k)
            found = _combined([source.load(e, b.add(place, e.number(stride * turns * each))) for each in range(radix)])
            place = b.add(b.mul(first, e.number(radix)), k)
            for number, each in enumerate(found):
                factor = factors[number - 1] if factors and number else None
                target.store(e, b.add(place, e.number(stride * number)), each if factor is None else each * factor)


def _combined(x: list[Complex]) -> list[Complex]:
    """The transform of a few numbers."""
    if len(x) == 2:
        return [x[0] + x[1], x[0] - x[1]]
    if len(x) == 4:
        (even, odd), (low, high) = _combined(x[::2]), _combined(x[1::2])
        high = high.turned()
        return [even + low, odd + high, even - low, odd - high]
    return _of_odd(x)


def _of_odd(x: list[Complex]) -> list[Complex]:
    """The transform of an odd count of numbers, by sums and differences of those at the same distance from the first
    one, whose factors are conjugate."""
    count, half = len(x), len(x) // 2
    pairs = [(x[k] + x[count - k], (x[k] - x[count - k]).turned()) for k in range(1, half + 1)]
    found = {0: x[0]}
    for both, _ in pairs:
        found[0] = found[0] + both
    for number in range(1, half + 1):
        factors = roots(count, number * np.arange(1, half + 1))
        even, odd = x[0], None
        for (both, apart), factor in zip(pairs, factors.tolist(), strict=True):
            even = even + both.scaled(factor.real)
            term = apart.scaled(-factor.imag)
            odd = term if odd is None else odd + term
        assert odd is not None, "one number is its own transform"
        found[number], found[count - number] = even + odd, even - odd
    return [found[k] for k in range(count)]
