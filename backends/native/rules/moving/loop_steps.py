"""Native rules of what lowered loops are made of."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter
from circlet.backends.native.emit.value import Value, in_register
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.move import expect, expect_shape, filled, overwrite, part, unreached, wholes
from circlet.backends.native.rules.moving.shape import view
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.refusals import movable
from circlet.backends.native.rules.rule import Node, Sink, fused, nest
from circlet.runtime.ir.length import is_late
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.loop_options import TripPolicy
from circlet.runtime.ops.loop_steps import (
    ENDLESS,
    LEAST_ROOM,
    TAKEN_AS_ENDLESS,
    LoopBuffer,
    LoopCount,
    LoopGrow,
    LoopKeep,
    LoopRoom,
    LoopScalar,
    LoopStore,
    LoopTake,
    LoopZeros,
)

SECOND = frozenset({1})
"""Inputs by position, as `memory_inputs` and `parameters` names them."""

fused(LoopScalar, movable, is_free=True)(view)
fused(LoopKeep, movable, is_free=True, parameters=SECOND)(view)


@fused(LoopCount, movable)
def loop_count(node: Node[LoopCount]) -> tuple[Value]:
    """Of a scalar, how many turns it asks for, in the count's type."""
    e, x, op = node.function.e, node.input(0), node.op
    given, zero = convert(e, x.scalar(e), x.dtype, op.dtype), e.constant(0, op.dtype)
    if op.policy is TripPolicy.NEGATIVE_IS_INFINITE:
        is_odd = e.builder.icmp_signed("<", given, e.constant(ENDLESS, op.dtype))
        node.function.warn_where(is_odd, node.call.place, TAKEN_AS_ENDLESS, given)
    is_negative = e.builder.icmp_signed("<", given, zero)
    return (in_register(e.select(is_negative, e.constant(op.resolve(ENDLESS), op.dtype), given), (), op.dtype),)


@fused(LoopRoom, movable)
def loop_room(node: Node[LoopRoom]) -> tuple[Value]:
    """Of a scalar: the next power of two."""
    e, b, x = node.function.e, node.function.e.builder, node.input(0)
    found = b.sub(convert(e, x.scalar(e), x.dtype, DType.INT64), ir.Constant(I64, 1))
    found = e.intrinsic("smax", found, ir.Constant(I64, LEAST_ROOM - 1))
    for shift in (1, 2, 4, 8, 16, 32):
        found = b.or_(found, b.lshr(found, ir.Constant(I64, shift)))
    room = convert(e, b.add(found, ir.Constant(I64, 1)), DType.INT64, node.call.outputs[0].dtype)
    return (in_register(room, (), node.call.outputs[0].dtype),)


def _zeros(node: Node[Any], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Fills the result with zeros, in place."""
    home, dtype = sinks[0].memory, node.call.outputs[0].dtype
    assert home is not None
    filled(node.shape, dtype, e.constant(0, dtype)).write(e, home)


# Last, and without members that give their operands: their shapes depend on values, and on shapes of other subgraphs.
nest(LoopZeros, movable, is_last=True)(_zeros)
nest(LoopBuffer, movable, is_last=True)(_zeros)


@nest(LoopStore, movable, memory_inputs=frozenset({2}), is_last=True)
def loop_store(node: Node[LoopStore], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of an array of scan outputs, a slice and the number of a turn: the array, copied unless it lies there, with the
    slice written at the turn's place along its axis; the number is checked."""
    op, home, x = node.op, sinks[0].memory, node.input(0)
    assert home is not None
    axis, slices = op.axis(len(node.shape)), node.input(1).reshaped(op.slices(node.input(1).shape))
    (number,) = wholes(e, node.input(2))
    length, size = node.shape[axis], op.scan.part
    place = Whole(e, length - size) - number * size if op.backwards else number * size
    expect(node, place.is_in(0, length - size),
           f"iteration {{}} makes an element, the scan output has room for {length // size}", number)
    if x.shape != node.shape:
        filled(node.shape, x.dtype, e.constant(0, x.dtype)).write(e, home)
    elif x.memory is not home:
        x.write(e, home)
    overwrite(e, home, node.shape, slices, [place if each == axis else Whole(e, 0) for each in range(len(node.shape))])


@nest(LoopGrow, movable, memory_inputs=frozenset({1}), is_last=True)
def loop_grow(node: Node[LoopGrow], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of an array: a larger one, filled with zeros, with the elements at the end that they count from. Where there is
    no room for another element, the function is left, to be entered anew with more."""
    x, home = node.input(0), sinks[0].memory
    assert home is not None
    axis = node.op.axis(len(node.shape))
    if is_late(x.shape[axis]):
        (number,) = wholes(e, node.input(1)) if len(node.call.inputs) > 1 else (Whole(e, x.shape[axis]),)
        node.function.expect_capacity(((number + 1) * node.op.scan.part).register, node.shape[axis])
    filled(node.shape, x.dtype, e.constant(0, x.dtype)).write(e, home)
    overwrite(e, home, node.shape, x, _starts(node, node.shape, x.shape))


@fused(LoopTake, movable, is_free=True, memory_inputs=SECOND)
def loop_take(node: Node[LoopTake]) -> tuple[Value]:
    """Of an array and how many turns there were: the elements that these made; their number is checked against the
    declared one."""
    x, e, op = node.input(0), node.function.e, node.op
    axis = op.axis(len(x.shape))
    (number,) = wholes(e, node.input(1))
    sizes = [number * op.scan.part if each == axis else Whole(e, size) for each, size in enumerate(x.shape)]
    if not expect_shape(node, sizes):
        return (unreached(node),)
    return (x if x.shape == node.shape else part(e, x, _starts(node, x.shape, node.shape), node.shape),)


def _starts(node: Node[Any], shape: tuple[int, ...], sizes: tuple[int, ...]) -> list[Whole]:
    """Where the part of a tensor of `shape` that has elements begins."""
    op, e = node.op, node.function.e
    axis = op.axis(len(shape))
    begin = shape[axis] - sizes[axis] if op.backwards else 0
    return [Whole(e, begin if each == axis else 0) for each in range(len(shape))]
