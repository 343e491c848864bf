"""Native rules of complex numbers and of Fourier transforms of real rows and matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, prod
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, Emitter
from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Lanes
from circlet.backends.native.emit.loops import rolled
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.fourier import (
    Complex,
    Numbers,
    Table,
    lanes_of,
    parts_of,
    radices,
    roots,
    transform,
)
from circlet.backends.native.rules.function import Function
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import certain, is_length
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.spectral import ComplexAbs, ComplexToReal, Dft, Imag, Real, Rfft2D

_LONG, _LONGEST, _MANY = 1 << 13, 1 << 15, 8
"""Numbers along an axis that are transformed where there may be few rows, and where there are as many as this. A vector
takes no less time for one row than for several: for one of 8192 numbers 0.9 of what numpy does, for one of 16384 a half
more; for 8 and more 0.5 to 0.9 of it up to 32768, which take 16 MB of scratch memory."""
OfParts: TypeAlias = Callable[[Lanes, Lanes], Lanes]
"""From the parts of a complex number to a real one."""


def _magnitude(real: Lanes, imag: Lanes) -> Lanes:
    """Infinite if a part is, as that of hypot(inf, nan)."""
    x, y = (each.unary("fabs") for each in (real, imag))
    found = _root(*(each.widen(DOUBLE) for each in (x, y))).narrow(SINGLE) if x.e.target.has_doubles else _scaled(x, y)
    return found.unless(x.equals(inf), inf).unless(y.equals(inf), inf)


def _root(x: Lanes, y: Lanes) -> Lanes:
    """Of numbers whose squares do not overflow."""
    return (x * x + y * y).unary("sqrt")


def _scaled(x: Lanes, y: Lanes) -> Lanes:
    """Of any numbers that are not negative."""
    most, least = (x > y).where(x, y), (x > y).where(y, x)
    return (most * _root(least / most, most.constant(1))).unless(most.equals(0), 0)


def _of_parts(of: OfParts, node: Node[ComplexToReal]) -> tuple[Value]:
    """Of x, complex64, a number for each element: float32, the same shape."""
    x = node.input(0)

    def found(e: Emitter, bits: ir.Value) -> ir.Value:
        both = Lanes(e, bits)
        return of(*(each.narrow(I32).real() for each in (both, both.shift_right(I32.width)))).value

    return (computed(node.shape, DType.FLOAT32, lambda e, index: found(e, x.element(e, index)),
                     (lambda e, position: found(e, x.linear(e, position))) if x.flat else None),)


_OF_PARTS: dict[type[ComplexToReal], OfParts] = {
    Real: lambda real, imag: real,
    Imag: lambda real, imag: imag,
    ComplexAbs: _magnitude,
}
for _op, _of in _OF_PARTS.items():
    fused(_op, only({DType.COMPLEX64}))(partial(_of_parts, _of))


def _lengths(call: Call) -> str | None:
    """Refuses transforms of lengths without `radices`."""
    given = call.input(1).data
    if given is None or given.shape != (2,):
        return "input 1 is not two constants"
    height, width = given.tolist()
    wrong = [each for each, count in ((height, height), (width, _count(width))) if each < 1 or radices(count) is None]
    return f"length {wrong[0]} (supported: products of 2, 3 and 5)" if wrong else None


def _count(width: int) -> int:
    """How many complex numbers are transformed for a row: of an even length half as many, each of two real ones."""
    return width if width % 2 else width // 2


@nest(Rfft2D, all_of(only({DType.FLOAT32}), _lengths), memory_inputs=frozenset({0}), parameters=frozenset({1}))
def rfft2d(node: Node[Rfft2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., m, n), float32, and lengths (1, w): of the first row of each matrix, cut or filled up with zeros,
    (..., 1, w // 2 + 1), complex64. As many rows at a time as a vector has lanes, shared out. Of several rows each is
    transformed, and then what has become of all in one place."""
    x, (height, width) = node.input(0), _known(node)
    if height > 1:
        _of_matrices(node, e, sinks[0], height, width)
        return
    outer, bins, count = x.shape[:-2], width // 2 + 1, _count(width)
    rows, room = prod(outer), max(count, bins)
    lanes = lanes_of(e)
    with parallel(e, -(-rows // lanes), 4 * rows * width * (len(radices(count) or ()) + 1)) as block:
        given, spare = (Numbers.reserved(e, node.function, count, room) for _ in range(2))
        first = Whole(e, block) * lanes
        here = (Whole(e, rows) - first).at_most(lanes)

        def row(lane: ir.Value) -> list[ir.Value]:
            return [*e.delinear(e.builder.add(first.register, lane), outer), e.number(0)]

        given.clear(e)
        parts, there = 2 if width % 2 else 1, Whole(e, x.shape[-1]).at_most(width) * Whole(e, x.shape[-2]).at_most(1)
        with rolled(e, here.register) as lane, rolled(e, there.register) as k:
            place = e.builder.add(e.builder.mul(k, e.number(parts * lanes)), lane)
            given.put(e, place, x.element(e, [*row(lane), k]))
        found = transform(e, node.function, given, spare)
        other = spare if found is given else given
        _each_bin(e, node.function, found, width, partial(other.store_bits, e))
        bits = other.memory
        with rolled(e, here.register) as lane, rolled(e, bins) as k:
            place = e.builder.add(e.builder.mul(k, e.number(lanes)), lane)
            sinks[0](e, [*row(lane), k], e.load(bits, DType.COMPLEX64, place))


def _known(node: Node[Rfft2D]) -> tuple[int, int]:
    """The lengths of a transform."""
    known = node.input(1).known
    assert known is not None, "parameters are known"
    height, width = known.tolist()
    return height, width


def _of_matrices(node: Node[Rfft2D], e: Emitter, sink: Sink, height: int, width: int) -> None:
    """Of x (..., m, n) the transforms (..., h, w // 2 + 1), matrix by matrix, shared out. What becomes of the rows lies
    in scratch memory, of the type that is computed with; then as many columns are transformed at a time as a vector has
    lanes."""
    x, b, function, bins, count = node.input(0), e.builder, node.function, width // 2 + 1, _count(width)
    outer, lanes, dtype = x.shape[:-2], lanes_of(e), parts_of(e)
    rows, columns = ([Numbers.reserved(e, function, each, max(each, room)) for _ in range(2)]
                     for each, room in ((count, bins), (height, height)))
    middle = function.scratch(2 * height * bins * dtype.numpy.itemsize)
    parts, passes = 2 if width % 2 else 1, len((*(radices(count) or ()), *(radices(height) or ()))) + 1

    def copied(numbers: Numbers, number: ir.Value, lane: ir.Value, place: list[ir.Value], reads: bool) -> None:
        """Takes a number of a lane from the memory in between, or puts it there."""
        at = b.mul(e.linear(place, (height, bins)), e.number(2))
        for part in range(2):
            inside = b.add(b.mul(b.add(b.mul(number, e.number(2)), e.number(part)), e.number(lanes)), lane)
            beside = b.add(at, e.number(part))
            source, target = ((middle, beside), (numbers.memory, inside))[::1 if reads else -1]
            e.store(e.load(source[0], dtype, source[1]), target[0], dtype, target[1])

    with parallel(e, prod(outer), 4 * height * width * passes) as matrix:
        index = e.delinear(matrix, outer)
        with rolled(e, -(-height // lanes)) as block:
            first, (given, spare) = Whole(e, block) * lanes, rows
            given.clear(e)
            there = (Whole(e, x.shape[-2]).at_most(height) - first).at_least(0).at_most(lanes)
            with rolled(e, there.register) as lane, rolled(e, Whole(e, x.shape[-1]).at_most(width).register) as k:
                value = x.element(e, [*index, b.add(first.register, lane), k])
                given.put(e, b.add(b.mul(k, e.number(parts * lanes)), lane), value)
            found = transform(e, function, given, spare)
            other = spare if found is given else given
            _each_bin(e, function, found, width, partial(other.store, e))
            with rolled(e, (Whole(e, height) - first).at_most(lanes).register) as lane, rolled(e, bins) as k:
                copied(other, k, lane, [b.add(first.register, lane), k], reads=False)
        with rolled(e, -(-bins // lanes)) as block:
            first, (given, spare) = Whole(e, block) * lanes, columns
            given.clear(e)
            here = (Whole(e, bins) - first).at_most(lanes).register
            with rolled(e, height) as row, rolled(e, here) as lane:
                copied(given, row, lane, [row, b.add(first.register, lane)], reads=True)
            found = transform(e, function, given, spare)
            other = spare if found is given else given
            with rolled(e, height) as row:
                other.store_bits(e, row, found.load(e, row))
            with rolled(e, height) as row, rolled(e, here) as lane:
                bits = e.load(other.memory, DType.COMPLEX64, b.add(b.mul(row, e.number(lanes)), lane))
                sink(e, [*index, row, b.add(first.register, lane)], bits)


def _each_bin(e: Emitter, function: Function, found: Numbers, width: int,
              give: Callable[[ir.Value, Complex], None]) -> None:
    """Gives the first half of the transforms of rows, by number. Of an even length they follow from the transform of
    half as many numbers x[2 k] + i x[2 k + 1]: the sum and the difference of a number and the conjugate of the one as
    far from the end are those of the even elements and of the odd ones."""
    b, count = e.builder, found.count
    is_even = width % 2 == 0
    table = Table.of(function, -0.5j * roots(width, np.arange(count + 1)), found) if is_even else None
    with rolled(e, width // 2 + 1) as k:
        if table is None:
            value = found.load(e, k)
        else:
            here = found.load(e, b.select(b.icmp_signed("==", k, e.number(count)), e.number(0), k))
            is_first = b.icmp_signed("==", k, e.number(0))
            mirrored = found.load(e, b.select(is_first, e.number(0), b.sub(e.number(count), k))).conjugate()
            value = (here + mirrored).scaled(0.5) + (here - mirrored) * table.load(e, k)
        give(k, value)


def _length(call: Call) -> int | None:
    """How many numbers a transform along an axis is of; None where only a run tells."""
    op, given = call.op, call.inputs[1]
    assert isinstance(op, Dft)
    if given is not None:
        return None if given.data is None or given.data.size != 1 else int(given.data.item())
    shape, axis = call.input(0).shape, call.input(2).data
    if axis is None or len(shape) < 2:
        return None
    size = shape[int(axis.item()) % len(shape)]
    return None if is_length(size) else 2 * size - 2 if op.inverse and op.onesided else size


def _refuses_along(call: Call) -> str | None:
    """Refuses axes, parts and lengths that are not known, and lengths without `radices`."""
    length, axis, shape = _length(call), call.input(2).data, call.input(0).shape
    if axis is None or length is None or is_length(prod(shape[-1:])):
        return "an axis or a length that only a run tells"
    if length < 1 or radices(_numbers(call.op, prod(shape[-1:]), length)) is None:
        return f"length {length} (supported: products of 2, 3 and 5)"
    place = int(axis.item()) % len(shape)
    most = _LONGEST if certain(prod((*shape[:place], *shape[place + 1:-1])), ">=", _MANY) else _LONG
    return None if length <= most else f"length {length} (supported: up to {most})"


def _numbers(op: Op, parts: int, length: int) -> int:
    """How many complex numbers are transformed for a row."""
    assert isinstance(op, Dft)
    return _count(length) if op.onesided and not op.inverse and parts == 1 else length


@nest(Dft, all_of(only({DType.FLOAT32}), _refuses_along), memory_inputs=frozenset({0}))
def dft(node: Node[Dft], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n, ..., 1 or 2), float32, the transforms along an axis, of which rows are cut or filled up with zeros.
    As many rows at a time as a vector has lanes, shared out. An inverse one is the conjugate of that of conjugates."""
    length, axis = _length(node.call), node.call.input(2).data
    assert length is not None, "a length that is not known is refused"
    assert axis is not None, "so is an axis"
    _Rows(node, e, length, int(axis.item()) % len(node.shape)).emit(sinks[0])


class _Rows:
    """Those that are transformed along an axis."""

    def __init__(self, node: Node[Dft], e: Emitter, length: int, axis: int) -> None:
        self._node, self._e, self._length, self._axis = node, e, length, axis
        self._x, self._op, self._lanes = node.input(0), node.op, lanes_of(e)
        shape = self._x.shape
        self._outer = (*shape[:axis], *shape[axis + 1:-1])
        self._parts = shape[-1]
        self._count = _numbers(node.op, self._parts, length)
        self._is_folded = node.op.onesided and not node.op.inverse and self._parts == 1
        """Whether real rows are taken for half as many complex numbers, where they can be."""

    def emit(self, sink: Sink) -> None:
        e, lanes, rows, bins = self._e, self._lanes, prod(self._outer), self._length // 2 + 1
        passes = len(radices(self._count) or ()) + 1
        with parallel(e, -(-rows // lanes), 4 * rows * self._length * passes) as block:
            given, spare = (Numbers.reserved(e, self._node.function, self._count, max(self._count, bins))
                            for _ in range(2))
            first = Whole(e, block) * lanes
            here = (Whole(e, rows) - first).at_most(lanes).register
            given.clear(e)
            with rolled(e, here) as lane:
                self._read(given, e.builder.add(first.register, lane), lane)
            found = transform(e, self._node.function, given, spare)
            if self._is_folded:
                other = spare if found is given else given
                _each_bin(e, self._node.function, found, self._length, partial(other.store, e))
                found = other
            with rolled(e, here) as lane, rolled(e, self._node.shape[self._axis]) as k:
                for part in range(self._node.shape[-1]):
                    place = self._place(e.builder.add(first.register, lane), k, part)
                    sink(e, place, self._result(found, k, part, lane))

    def _place(self, row: ir.Value, k: ir.Value, part: int) -> list[ir.Value]:
        """The index of a part of a number of a row."""
        index = self._e.delinear(row, self._outer)
        return [*index[:self._axis], k, *index[self._axis:], self._e.number(part)]

    def _inside(self, number: ir.Value, part: int, lane: ir.Value) -> ir.Value:
        """Where a part of a number lies of the row of a lane."""
        b, e = self._e.builder, self._e
        vector = b.add(b.mul(number, e.number(2)), e.number(part))
        return b.add(b.mul(vector, e.number(self._lanes)), lane)

    def _read(self, given: Numbers, row: ir.Value, lane: ir.Value) -> None:
        """Takes the numbers of a row; of one of which there is half, the others are conjugates."""
        e, b, op = self._e, self._e.builder, self._op
        is_half = op.inverse and op.onesided
        most = self._length // 2 + 1 if is_half else self._length
        with rolled(e, Whole(e, self._x.shape[self._axis]).at_most(most).register) as k:
            parts = [self._x.element(e, self._place(row, k, part)) for part in range(self._parts)]
            if self._is_folded and self._length % 2 == 0:
                given.put(e, b.add(b.mul(k, e.number(self._lanes)), lane), parts[0])
            else:
                if is_half:
                    mirrored = b.select(b.icmp_signed("==", k, e.number(0)), k, b.sub(e.number(self._length), k))
                    self._put(given, mirrored, parts, lane)
                self._put(given, k, [b.fneg(each) if part and op.inverse else each
                                     for part, each in enumerate(parts)], lane)

    def _put(self, given: Numbers, number: ir.Value, parts: Sequence[ir.Value], lane: ir.Value) -> None:
        for part, each in enumerate(parts):
            given.put(self._e, self._inside(number, part, lane), each)

    def _result(self, found: Numbers, k: ir.Value, part: int, lane: ir.Value) -> ir.Value:
        """A part of a result, a float32."""
        e, b = self._e, self._e.builder
        value = e.load(found.memory, found.dtype, self._inside(k, part, lane))
        if self._op.inverse:
            value = b.fmul(value, e.constant((-1.0 if part else 1.0) / self._length, found.dtype))
        return b.fptrunc(value, SINGLE) if found.dtype is DType.FLOAT64 else value
