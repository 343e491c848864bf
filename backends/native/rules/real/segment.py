"""Native rules of the operators that combine the slices that carry the same number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter, is_real
from circlet.backends.native.emit.loops import every
from circlet.backends.native.emit.whole import Whole
from circlet.backends.native.rules.moving.move import expect, expect_shape, extended, filled
from circlet.backends.native.rules.real.elementwise import add, mul
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.refusals import movable, plain
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import bound, is_length
from circlet.runtime.ir.types import INTEGERS, DType
from circlet.runtime.ops import segment as ops

_Combine: TypeAlias = "Callable[[Emitter, DType, Sequence[ir.Value]], ir.Value]"
_Nothing: TypeAlias = "Callable[[DType], float]"
_COMPUTED = (DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64)
"""The element types that are combined."""


def _greater(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The greater one; the other where one is NaN."""
    return e.intrinsic("maxnum" if is_real(dtype) else "smax", *values)


def _less(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The lesser one; the other where one is NaN."""
    return e.intrinsic("minnum" if is_real(dtype) else "smin", *values)


def _limits(dtype: DType) -> tuple[float, float]:
    """The least and the greatest finite number."""
    found = np.finfo(dtype.numpy) if is_real(dtype) else np.iinfo(dtype.numpy)
    return found.min, found.max


_COMBINE: Mapping[type[ops.UnsortedSegment], tuple[_Combine, _Nothing]] = {
    ops.UnsortedSegmentSum: (add, lambda dtype: 0),
    ops.UnsortedSegmentProd: (mul, lambda dtype: 1),
    ops.UnsortedSegmentMax: (_greater, lambda dtype: _limits(dtype)[0]),
    ops.UnsortedSegmentMin: (_less, lambda dtype: _limits(dtype)[1]),
}
"""How two elements are combined, and the result of combining nothing."""


_refuses = all_of(plain, only(_COMPUTED), only(INTEGERS - {DType.UINT64}, 1), movable)
"""Refuses what is not combined here, and numbers that no axis has room for."""


def unsorted_segment(node: Node[ops.UnsortedSegment], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (p..., b...) and numbers (p...): (count, b...). It is filled with the result for nothing; then a loop over p
    checks a number and combines a slice with what is there, in this order."""
    x, numbers, home, shape = node.input(0), node.input(1), sinks[0].memory, node.shape
    (combine, nothing), dtype = _COMBINE[type(node.op)], node.call.outputs[0].dtype
    assert home is not None, "what is last has its memory"
    filled(shape, dtype, e.constant(nothing(dtype), dtype)).write(e, home)
    with e.nest(numbers.shape) as place:
        number = extended(e, numbers.element(e, place), numbers.dtype)
        expect(node, Whole(e, number).compare("<", shape[0]),
               f"input 1: expected numbers below {shape[0]}, the count, found {{}}", Whole(e, number))
        is_named = e.builder.icmp_signed(">=", number, e.number(0))
        with e.builder.if_then(is_named), every(e, shape[1:]) as inner:
            position = e.linear([number, *inner], shape)
            combined = combine(e, dtype, [e.load(home, dtype, position), x.element(e, [*place, *inner])])
            e.store(combined, home, dtype, position)


def _expects_count(call: Call) -> str | None:
    """Refuses numbers that only the run tells where the count is declared: numpy says all of those that are wrong."""
    is_declared = any(not is_length(size) and size >= 0 for size in call.outputs[0].signature[:1])
    return "numbers that only the run tells, and a count that is declared" if is_declared and \
        call.input(1).data is None else None


@nest(ops.SegmentSum, all_of(_refuses, _expects_count), is_last=True)
def segment_sum(node: Node[ops.SegmentSum], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (n, b...) and ascending numbers (n,): (count, b...). It is filled with zeros; then a loop over n adds a row
    to what is there, in this order."""
    x, numbers, home, shape = node.input(0), node.input(1), sinks[0].memory, node.shape
    dtype = node.call.outputs[0].dtype
    assert home is not None, "what is last has its memory"
    if numbers.known is None and not expect_shape(node, [_count(node, e), *(Whole(e, each) for each in shape[1:])]):
        return
    filled(shape, dtype, e.constant(0, dtype)).write(e, home)
    with e.nest(numbers.shape) as place:
        number = extended(e, numbers.element(e, place), numbers.dtype)
        with every(e, shape[1:]) as inner:
            position = e.linear([number, *inner], shape)
            total = add(e, dtype, [e.load(home, dtype, position), x.element(e, [*place, *inner])])
            e.store(total, home, dtype, position)


def _count(node: Node[ops.SegmentSum], e: Emitter) -> Whole:
    """How many segments numbers tell that only the run knows: one more than the last one says, -1 where they fall or
    begin below zero, which a frame for any values says."""
    b, numbers, count = e.builder, node.input(1), Register(e, e.index)
    count.set(e.number(0))
    with e.loop(numbers.shape[0]) as k:
        number, before = extended(e, numbers.element(e, [k]), numbers.dtype), count.get()
        last = b.sub(before, e.number(1))
        is_right = b.and_(b.icmp_signed(">=", number, e.intrinsic("smax", last, e.number(0))),
                          b.icmp_signed(">=", before, e.number(0)))
        count.set(b.select(is_right, b.add(number, e.number(1)), e.number(-1)))
    if e.is_undefined(node.shape[0]):
        node.function.expect_capacity(count.get(), bound(node.shape[0]), 0)
    return Whole(e, count.get())


for _op in _COMBINE:
    nest(_op, _refuses, memory_inputs=frozenset({1}), parameters=frozenset({2}), is_last=True)(unsorted_segment)
