"""Native rules of the operators that enlarge a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, memory_type
from circlet.backends.native.emit.layout.transpose import SHORTEST_COPY
from circlet.backends.native.emit.loops import Turn, branch, by_length, choose, every, independent, rolled, spread
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.emit.whole import Truth, Whole, both, either
from circlet.backends.native.rules.moving.move import expect, parameter
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest, nothing
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import certain, is_known, is_length, larger, may_differ
from circlet.runtime.ir.types import QUANTIZABLE, DType, Shape
from circlet.runtime.ops.pad import (
    Continuation,
    ContinuedPad,
    Dilate,
    MirrorPad,
    MirrorPadMode,
    Pad,
    PadV2,
    StablehloPad,
    Tile,
)
from circlet.runtime.records import dataclass

SECOND = frozenset({1})
"""Inputs by position, as `parameters` names them."""


def _around(call: Call) -> int:
    """What stands for zero."""
    out = call.outputs[0]
    return out.quantization.zero_point if out.quantization is not None and out.dtype in QUANTIZABLE else 0


@nest(Pad, movable, memory_inputs=frozenset(), parameters=SECOND, quantized_as=lambda call, target: _around(call))
def pad(node: Node[Pad], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x and paddings (rank, 2): x surrounded by zeros, or by the zero point."""
    _surround(node, e, sinks[0], e.constant(_around(node.call), node.call.outputs[0].dtype))


@nest(PadV2, movable, memory_inputs=frozenset(), parameters=SECOND, quantized_as=nothing)
def padv2(node: Node[PadV2], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x, paddings (rank, 2) and a value: x surrounded by it."""
    _surround(node, e, sinks[0], node.input(2).reshaped(()).scalar(e))


def _surround(node: Node[Any], e: Emitter, sink: Sink, value: ir.Value) -> None:
    """The output, of which axes behind those that grow are made one with the last of these where it lies in memory;
    not where elements are computed by their index, and the last axis is a vector long, as its place would be found by
    divisions."""
    x, paddings, shape, memory = node.input(0), _paddings(node), node.shape, sink.memory
    last = max((axis for axis, pair in enumerate(paddings) if any(may_differ(each, 0) for each in pair)), default=0)
    lanes = e.target.vector_bytes // x.dtype.numpy.itemsize
    is_apart = x.memory is None and not x.flat and certain(shape[-1] if shape[last + 1:] else 1, ">=", lanes)
    if memory is None or not shape or is_apart:
        _Surrounding(e, x, shape, paddings, sink, value).emit()
        return
    run, whole = prod(shape[last + 1:]), _joined(shape, last)
    paddings = [*paddings[:last], (paddings[last][0] * run, paddings[last][1] * run)]
    put = Sink(lambda e, index, value: e.store(value, memory, x.dtype, e.linear(index, whole)), memory)
    _Surrounding(e, x.reshaped(_joined(x.shape, last)), whole, paddings, put, value, is_long=may_differ(run, 1)).emit()


@dataclass(frozen=True, eq=False)
class _Surrounding:
    """A tensor between equal numbers, on its way to a sink."""

    e: Emitter
    x: Value
    shape: Shape
    """Of the result."""
    paddings: Sequence[tuple[int, int]]
    sink: Sink
    value: ir.Value
    is_long: bool = False
    """Whether the last axis has runs, which are filled and copied as a whole where it is not known how long it is."""

    def emit(self) -> None:
        """Goes through the output in order, along each axis through what is before, inside and after the input; for
        some lengths of the last axis by loops of their own."""
        if self._is_copied:
            self._go(None, [], [])
        else:
            by_length(self.e, self.x.shape[-1] if self.shape else 1, lambda most: self._go(most, [], []))

    @property
    def _is_copied(self) -> bool:
        """Whether the innermost axis of the input is copied by a call."""
        if not self.shape or self.x.memory is None or self.sink.memory is None:
            return False
        return self.is_long if is_length(self.x.shape[-1]) else \
            self.x.shape[-1] * self.x.dtype.numpy.itemsize >= SHORTEST_COPY

    def _go(self, most: int | None, outer: list[ir.Value], inner: list[ir.Value]) -> None:
        e, axis = self.e, len(outer)
        if axis == len(self.shape):
            self.sink(e, outer, self.x.element(e, inner))
            return
        (before, after), size, is_last = self.paddings[axis], self.x.shape[axis], axis == len(self.shape) - 1
        self._margin(outer, 0, before)
        if is_last and self._is_copied:
            self._copy([*outer, e.number(before)], [*inner, e.number(0)])
        elif size:
            _loop(e, size, is_last, most, lambda index: self._go(
                most, [*outer, e.builder.add(index, e.number(before))], [*inner, index]))
        self._margin(outer, before + size, after)

    def _margin(self, outer: list[ir.Value], first: int, count: int) -> None:
        """`count` slices of the first axis behind `outer`."""
        e, rest = self.e, self.shape[len(outer) + 1:]
        if not may_differ(count, 0):
            return
        size, byte, memory = count * prod(rest), _byte(self.value), self.sink.memory
        if memory is not None and byte is not None and (self.is_long or is_length(size)):
            begin = [*outer, e.number(first), *(e.number(0) for _ in rest)]
            e.fill(self._address(memory, begin, self.shape), byte, size * self.x.dtype.numpy.itemsize)
            return
        with every(e, (count, *rest)) as (layer, *others):
            self.sink(e, [*outer, e.builder.add(layer, e.number(first)), *others], self.value)

    def _copy(self, target: list[ir.Value], source: list[ir.Value]) -> None:
        """A run of the input, given where it begins in the output and in the input."""
        memories = [each for each in (self.sink.memory, self.x.memory) if each is not None]
        to, origin = (self._address(memory, index, shape) for memory, index, shape in zip(
            memories, (target, source), (self.shape, self.x.shape), strict=True))
        self.e.copy(to, origin, self.x.shape[-1] * self.x.dtype.numpy.itemsize)

    def _address(self, memory: ir.Value, index: list[ir.Value], shape: Shape) -> ir.Value:
        return self.e.address(memory, memory_type(self.x.dtype), self.e.linear(index, shape))


def _joined(shape: Shape, axis: int) -> Shape:
    """A shape with all axes from one on made one."""
    return (*shape[:axis], prod(shape[axis:]))


def _byte(value: ir.Value) -> int | None:
    """The byte of which all bytes of a constant are, as far as that is seen at once."""
    if not isinstance(value, ir.Constant):
        return None
    if isinstance(value.type, ir.IntType):
        return int(value.constant) & 255 if value.type.width in (1, 8) or not value.constant else None
    return 0 if str(value.constant) == "0.0" else None


def _loop(e: Emitter, size: int, is_last: bool, most: int | None, turn: Turn) -> None:
    """A loop over an axis; for the last one as `spread` has it."""
    if is_last:
        spread(e, size, turn, most)
        return
    with e.loop(size) as index:
        turn(index)


def _paddings(node: Node[Any]) -> list[tuple[int, int]]:
    """How much comes before and behind each axis; leaves the function where that turns out to be negative."""
    found: list[tuple[int, int]] = parameter(node, 1).tolist()
    for count in (Whole(node.function.e, each) for pair in found for each in pair):
        expect(node, count.compare(">=", 0), "paddings: expected counts that are not negative, found {}", count)
    return found


@nest(StablehloPad, movable, memory_inputs=frozenset())
def stablehlo_pad(node: Node[StablehloPad], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x and a value: the elements of x apart from each other, in between and around them the value."""
    steps = [gap + 1 for gap in node.op.interior_padding]
    _spread(node, e, sinks[0], node.op.edge_padding_low, steps, node.input(1).reshaped(()).scalar(e))


@nest(Dilate, movable, memory_inputs=frozenset(), parameters=SECOND)
def dilate(node: Node[Dilate], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x, steps (rank,) and a value: the elements of x so many steps apart, in between the value."""
    steps = parameter(node, 1).tolist()
    _spread(node, e, sinks[0], [0] * len(steps), steps, node.input(2).reshaped(()).scalar(e))


def _spread(node: Node[Any], e: Emitter, sink: Sink, starts: Sequence[int], steps: Sequence[int],
            value: ir.Value) -> None:
    """Goes through the output in order: gives the element of x that lies at a place, as they begin at `starts` and are
    `steps` apart, or a value where none does."""
    x, b = node.input(0), e.builder
    with parallel_nest(e, node.shape, 4 * node.call.outputs[0].dtype.numpy.itemsize * prod(node.shape)) as index:
        is_there: Truth = True
        places = []
        for each, start, step, size in zip(index, starts, steps, x.shape, strict=True):
            distance = b.sub(each, e.number(start))
            place = distance if step == 1 else b.udiv(distance, e.number(step))
            places.append(place)
            is_there = both(e, is_there, b.icmp_unsigned("<", place, e.number(size)))
            if step > 1:
                is_there = both(e, is_there, b.icmp_signed("==", b.mul(place, e.number(step)), distance))
        sink(e, index, choose(e, is_there, partial(x.element, e, places), lambda: value))


@fused(MirrorPad, movable, parameters=SECOND, quantized_as=nothing)
def mirror_pad(node: Node[MirrorPad]) -> tuple[Value]:
    """Of x and paddings (rank, 2): x surrounded by its reflection; a value that reads x by another index."""
    x, paddings = node.input(0), _paddings(node)
    edge = int(node.op.mode is MirrorPadMode.SYMMETRIC)
    for axis, (size, (before, after)) in enumerate(zip(x.shape, paddings, strict=True)):
        wanted, most = Whole(node.function.e, larger(before, after)), larger(size - 1 + edge, 0)
        expect(node, wanted.compare("<=", most),
               f"paddings: expected at most {most} for axis {axis}, found {{}}", wanted)

    def element(e: Emitter, index: Index) -> ir.Value:
        return x.element(e, [_mirrored(e, each, size, before, after, edge)
                             for each, size, (before, after) in zip(index, x.shape, paddings, strict=True)])

    return (computed(node.shape, x.dtype, element),)


def _mirrored(e: Emitter, index: ir.Value, size: int, before: int, after: int, edge: int) -> ir.Value:
    """The place of the input that an index along a padded axis shows."""
    b = e.builder
    if may_differ(before, 0):
        index = b.sub(index, e.number(before))
        index = b.select(b.icmp_signed("<", index, e.number(0)), b.sub(e.number(-edge), index), index)
    if may_differ(after, 0):
        mirrored = b.sub(e.number(2 * size - 2 + edge), index)
        index = b.select(b.icmp_signed(">=", index, e.number(size)), mirrored, index)
    return index


@nest(ContinuedPad, movable, frozenset({0}), SECOND, is_last=True, quantized_as=nothing)
def continued_pad(node: Node[ContinuedPad], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x and paddings (rank, 2): x, which goes on beyond its ends. Axes behind the last one that grows are one with
    it; for each index of those before it, shared out, a run of x is copied, and what is before and behind it found."""
    x, memory, shape, amounts = node.input(0), sinks[0].memory, node.shape, parameter(node, 1).tolist()
    assert memory is not None, "what is last has its memory"
    source = node.function.pointer(x)
    is_blank, is_filled = Whole(e, prod(shape)).compare("==", 0), Whole(e, prod(x.shape)).compare(">", 0)
    expect(node, either(e, is_blank, is_filled), "input 0 has no elements to go on with")
    last = max((axis for axis, pair in enumerate(amounts) if any(may_differ(each, 0) for each in pair)), default=0)
    axes = [_Continued(e, node.op.continuation, size, before, long) for size, (before, _), long in zip(
        x.shape, amounts, shape, strict=True)]
    run = prod(shape[last + 1:])
    with parallel_nest(e, shape[:last], 2 * prod(shape) * x.dtype.numpy.itemsize) as index:
        found = [axis.place(Whole(e, each)).register for axis, each in zip(axes, index, strict=False)]
        to, origin = (_address(e, x.dtype, base, e.linear([*at, e.number(0)], (*sizes[:last], prod(sizes[last:]))))
                      for base, at, sizes in ((memory, index, shape), (source, found, x.shape)))
        if shape:
            axes[last].write(to, origin, run, x.dtype)
        else:
            e.copy(to, origin, x.dtype.numpy.itemsize)


def _address(e: Emitter, dtype: DType, base: ir.Value, index: ir.Value) -> ir.Value:
    """Where an element is of a tensor in memory."""
    return e.address(base, memory_type(dtype), index)


@dataclass(frozen=True, eq=False)
class _Continued:
    """An axis that goes on beyond its ends."""

    e: Emitter
    continuation: Continuation
    size: int
    before: int
    """How many places come before the first element, less than 0 where some elements are left out."""
    long: int
    """Its places in all."""

    def place(self, index: Whole) -> Whole:
        """The element that a place of an index shows."""
        is_whole = not may_differ(self.before, 0) and not may_differ(self.size, self.long)
        return index if is_whole else self._beyond(index - self.before)

    def _beyond(self, place: Whole) -> Whole:
        """The element that is shown so many places behind the first one, or before it."""
        last = Whole(self.e, self.size) - 1
        if self.continuation is Continuation.EDGE:
            return place.at_most(last).at_least(0)
        if self.continuation is Continuation.WRAP:
            return self._remainder(place, Whole(self.e, self.size))
        period = (last + last).at_least(1)
        within = self._remainder(place, period)
        return within.at_most(period - within)

    def _remainder(self, place: Whole, by: Whole) -> Whole:
        """That of a division which is rounded down."""
        found = Whole(self.e, self.e.builder.srem(place.register, by.register))
        return (found + by).where(found.compare("<", 0), found)

    def _once(self, place: Whole, is_before: bool) -> Whole:
        """As `_beyond`, of places that are no further away than the axis has elements."""
        if self.continuation is Continuation.EDGE:
            return Whole(self.e, 0) if is_before else Whole(self.e, self.size) - 1
        if self.continuation is Continuation.WRAP:
            return place + self.size if is_before else place - self.size
        return Whole(self.e, 0) - place if is_before else Whole(self.e, 2 * self.size - 2) - place

    def write(self, to: ir.Value, origin: ir.Value, run: int, dtype: DType) -> None:
        """Writes all places, runs of elements each: a copy, and loops before and behind it, for places further away
        than there are elements by divisions."""
        e, first = self.e, Whole(self.e, self.before).at_least(0).at_most(self.long)
        end = (Whole(e, self.before) + self.size).at_most(self.long).at_least(first)
        beyond = Whole(e, self.long) - end
        margins = ((Whole(e, 0), first, True, Whole(e, self.before)),
                   (end, beyond, False, Whole(e, self.long) - self.before - self.size))
        for begin, count, is_before, reach in margins:
            if not count.is_zero:
                fits = True if self.continuation is Continuation.EDGE else reach.compare("<", self.size)
                branch(e, fits, partial(self._margin, to, origin, run, dtype, begin, count, partial(
                    self._once, is_before=is_before)), partial(
                        self._margin, to, origin, run, dtype, begin, count, self._beyond))
        source = (first - self.before) * run
        e.copy(_address(e, dtype, to, (first * run).register), _address(e, dtype, origin, source.register),
               ((end - first) * run * dtype.numpy.itemsize).register)

    def _margin(self, to: ir.Value, origin: ir.Value, run: int, dtype: DType, begin: Whole, count: Whole,
                shown: Callable[[Whole], Whole]) -> None:
        """So many places from one on."""
        e = self.e

        def put(index: ir.Value, inner: Whole) -> None:
            target = begin + Whole(e, index)
            source = shown(target - self.before)
            value = e.load(origin, dtype, (source * run + inner).register)
            e.store(value, to, dtype, (target * run + inner).register)

        if not may_differ(run, 1):
            with independent(e, count.register) as index:
                put(index, Whole(e, 0))
            return
        with rolled(e, count.register) as index, independent(e, run) as inner:
            put(index, Whole(e, inner))


def _repeats_elements(call: Call) -> str | None:
    """Refuses to tile other axes than those of size 1, where that is a broadcast."""
    multiples, shape = call.input(1).data, call.input(0).signature
    if multiples is None:
        return "multiples are not constant"
    if multiples.size != len(shape):
        return "the rank of input 0 is not declared"
    repeated = [axis for axis, (size, count) in enumerate(zip(shape, multiples.reshape(-1).tolist(), strict=False))
                if count != 1 and size != 1]
    return f"axes {repeated} are no broadcasts" if repeated else None


@fused(Tile, all_of(movable, _repeats_elements), is_free=True, parameters=SECOND, name="broadcast",
       quantized_as=nothing)
def broadcast_tile(node: Node[Tile]) -> tuple[Value]:
    """Of x and multiples, where only axes of size 1 are repeated: a value that reads x by another index."""
    x = node.input(0)

    def element(e: Emitter, index: Index) -> ir.Value:
        return x.element(e, [_wrapped(e, *each) for each in zip(index, x.shape, node.shape, strict=True)])

    return (computed(node.shape, x.dtype, element),)


def _wrapped(e: Emitter, index: ir.Value, size: int, length: int) -> ir.Value:
    """The place along an axis that an index along its repetitions stands for."""
    if not may_differ(size, length):
        return index
    return e.number(0) if is_known(size, 1) else e.builder.urem(index, e.number(size))


@nest(Tile, movable, parameters=SECOND, quantized_as=nothing)
def tile(node: Node[Tile], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (n...) and multiples (m...): (n m...). Loops over copies and the elements of a copy apart, so that no index
    is divided."""
    x, counts = node.input(0), parameter(node, 1).reshape(-1).tolist()
    if not x.size:
        return
    rank, b = len(x.shape), e.builder

    def go(most: int | None, outer: list[ir.Value], inner: list[ir.Value]) -> None:
        axis = len(outer)
        if axis == rank:
            sinks[0](e, outer, x.element(e, inner))
            return
        size = x.shape[axis]
        if axis == rank - 1 and is_known(size, 1):  # LLVM takes seconds for the turns of a loop around its one turn
            spread(e, counts[axis], lambda copy: go(most, [*outer, copy], [*inner, e.number(0)]), most)
            return
        with e.loop(counts[axis]) as copy:
            _loop(e, size, axis == rank - 1, most, lambda index: go(
                most, [*outer, b.add(b.mul(copy, e.number(size)), index)], [*inner, index]))

    by_length(e, x.shape[-1] if rank else 1, lambda most: go(most, [], []))
