"""Native rules of the operators that enlarge a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, Index
from circlet.backends.native.emit.loops import Turn, by_length, choose, every, spread
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.emit.whole import Truth, Whole, both
from circlet.backends.native.rules.moving.move import expect, parameter
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import is_known, larger, may_differ
from circlet.runtime.ir.types import QUANTIZABLE
from circlet.runtime.ops.pad import Dilate, MirrorPad, MirrorPadMode, Pad, PadV2, StablehloPad, Tile

SECOND = frozenset({1})
"""Inputs by position, as `parameters` names them."""


@nest(Pad, movable, memory_inputs=frozenset(), parameters=SECOND)
def pad(node: Node[Pad], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x and paddings (rank, 2): x surrounded by zeros, or by the zero point."""
    out = node.call.outputs[0]
    zero = out.quantization.zero_point if out.quantization is not None and out.dtype in QUANTIZABLE else 0
    _surround(node, e, sinks[0], e.constant(zero, out.dtype))


@nest(PadV2, movable, memory_inputs=frozenset(), parameters=SECOND)
def padv2(node: Node[PadV2], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x, paddings (rank, 2) and a value: x surrounded by it."""
    _surround(node, e, sinks[0], node.input(2).reshaped(()).scalar(e))


def _surround(node: Node[Any], e: Emitter, sink: Sink, value: ir.Value) -> None:
    """Goes through the output in order, along each axis through what is before, inside and after the input; for some
    lengths of the last axis by loops of their own."""
    x, paddings = node.input(0), _paddings(node)
    rank = len(node.shape)

    def margin(outer: list[ir.Value], first: int, count: int) -> None:
        """`count` slices of the first axis behind `outer`."""
        if may_differ(count, 0):
            with every(e, (count, *node.shape[len(outer) + 1:])) as (layer, *rest):
                sink(e, [*outer, e.builder.add(layer, e.number(first)), *rest], value)

    def go(most: int | None, outer: list[ir.Value], inner: list[ir.Value]) -> None:
        axis = len(outer)
        if axis == rank:
            sink(e, outer, x.element(e, inner))
            return
        (before, after), size = paddings[axis], x.shape[axis]
        margin(outer, 0, before)
        if size:
            _loop(e, size, axis == rank - 1, most, lambda index: go(
                most, [*outer, e.builder.add(index, e.number(before))], [*inner, index]))
        margin(outer, before + size, after)

    by_length(e, x.shape[-1] if rank else 1, lambda most: go(most, [], []))


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


@fused(MirrorPad, movable, parameters=SECOND)
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


@fused(Tile, all_of(movable, _repeats_elements), is_free=True, parameters=SECOND, name="broadcast")
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


@nest(Tile, movable, parameters=SECOND)
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
        with e.loop(counts[axis]) as copy:
            _loop(e, size, axis == rank - 1, most, lambda index: go(
                most, [*outer, b.add(b.mul(copy, e.number(size)), index)], [*inner, index]))

    by_length(e, x.shape[-1] if rank else 1, lambda most: go(most, [], []))
