"""Native rules that combine quantised elements: reductions and pooling; equal to the bit to the numpy backend's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import quantize_multiplier, quantized_range
from circlet.backends.native.emit.emitter import I32, I64, UNSIGNED, Emitter, register_type
from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Lanes
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.emit.parallel import parallel_nest
from circlet.backends.native.rules.figures.figure import (
    Figure,
    beyond,
    figured,
    limits_of,
    looking_at,
    quantization,
    real,
    real_number,
    widened,
    within,
    zero_of,
)
from circlet.backends.native.rules.figures.multiplier import GREATEST_SHIFT, factor, rescaled
from circlet.backends.native.rules.preferences import QUANTIZED
from circlet.backends.native.rules.quantized.fully_connected import round_half_away
from circlet.backends.native.rules.quantized.requantize import clamped, rescale_by
from circlet.backends.native.rules.real.pool import covered
from circlet.backends.native.rules.real.reduce import AXES, Fold, extreme, fold_along
from circlet.backends.native.rules.refusals import quantized
from circlet.backends.native.rules.rule import Node, Sink, nest, nothing
from circlet.backends.native.targets.target import Target
from circlet.backends.refusal import only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import certain, is_late, is_length, larger, lowest, may_differ
from circlet.runtime.ir.types import QUANTIZABLE, Activation, DType
from circlet.runtime.ops import reduce as ops
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D

Finish: TypeAlias = Callable[[Emitter, ir.Value], ir.Value]
"""From a sum without zero points to a result without its own, an i32."""


def _zeros(call: Call) -> tuple[Figure, Figure, Figure]:
    """The zero points, and the limits of results."""
    made = call.outputs[0]
    return zero_of(call.input(0)), zero_of(made), limits_of(made)


def _total(node: Node[Any], finish: Finish, dtype: DType, count: int, zeros: Sequence[Figure]) -> Fold:
    """The fold that sums so many stored values up."""
    (given, made, limits), result = zeros, node.call.outputs[0].dtype
    most = 1 << 31 - 8 * dtype.numpy.itemsize
    wide = DType.INT32 if (certain(count, "<", most) if is_late(count) else count < most) else DType.INT64
    kind = register_type(wide)

    def add(e: Emitter, so_far: ir.Value, element: ir.Value) -> ir.Value:
        wider = e.builder.zext if dtype in UNSIGNED else e.builder.sext
        several = isinstance(element.type, ir.VectorType)
        return e.builder.add(so_far, wider(element, ir.VectorType(kind, element.type.count) if several else kind))

    def end(e: Emitter, total: ir.Value) -> ir.Value:
        if not given.looks:
            total = e.builder.sub(total, _times(e, given.number(e, kind=kind), count, wide))
        return within(e, beyond(e, finish(e, total), made), limits, result)

    return Fold(wide, 0, add, end, widens=True)


def _times(e: Emitter, zero: ir.Value, count: int, wide: DType) -> ir.Value:
    """So many zero points."""
    if isinstance(zero, ir.Constant):
        return e.constant(count * zero.constant, wide)
    return e.builder.mul(zero, e.constant(count, wide))


def _factor(call: Call) -> tuple[int, int]:
    """The units of the input in those of the output."""
    return quantize_multiplier(quantization(call.input(0)).scale / quantization(call.outputs[0]).scale)


def _of_mean(call: Call, count: int = 1) -> Sequence[Figure]:
    """The multiplier is divided by the count, after gaining as many bits as the count has, as TFLite's MEAN does."""
    multiplier, shift = _factor(call)
    more = min(count.bit_length() - 1, 32, 31 + shift)
    return (*_zeros(call), factor((multiplier << more) // count, shift - more))


def _of_open_mean(call: Call) -> Sequence[Figure]:
    """The multiplier, how many bits more it has at the most, and the shift."""
    multiplier, shift = _factor(call)
    return (*_zeros(call), Figure((multiplier, min(32, 31 + shift), min(shift, GREATEST_SHIFT))))


@nest(ops.Mean, quantized, frozenset(), AXES, name=QUANTIZED, quantized_as=looking_at(_of_mean))
def mean(node: Node[ops.Mean], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x the means along axes, by `fold_along`."""
    def make(dtype: DType, count: int) -> Fold:
        if not may_differ(count, 0):
            return Fold(dtype, 0, lambda e, so_far, element: element)
        if is_length(count):
            *zeros, ratio = figured(node, _of_open_mean)
            divided = _divided(e, ratio, count)
            fold = _total(node, lambda e, total: rescale_by(e, total, *divided), dtype, count, zeros)
            return fold if lowest(count) > 0 else replace(fold, finish=partial(_unless_empty, fold.finish, count))
        *zeros, by = figured(node, partial(_of_mean, count=count))
        return _total(node, lambda e, total: rescaled(e, total, by), dtype, count, zeros)

    fold_along(make, node, e, sinks)


def _divided(e: Emitter, ratio: Figure, count: int) -> tuple[ir.Value, ir.Value]:
    """The multiplier of a mean of an open number of elements, and its shift, both i32."""
    b, number = e.builder, e.builder.sext(e.number(larger(count, 1)), I64)
    bits = b.sub(e.wide(63), b.ctlz(number, ir.Constant(ir.IntType(1), 1)))
    multiplier, most, shift = (ratio.number(e, k, I64) for k in range(3))
    more = e.intrinsic("umin", bits, most)
    return b.trunc(b.udiv(b.shl(multiplier, more), number), I32), b.trunc(b.sub(shift, more), I32)


def _unless_empty(finish: Finish, count: int, e: Emitter, total: ir.Value) -> ir.Value:
    """What becomes of a sum; 0 where nothing was summed up."""
    found = finish(e, total)
    return e.select(e.builder.icmp_signed("==", e.number(count), e.number(0)), ir.Constant(found.type, 0), found)


def _of_sum(call: Call) -> Sequence[Figure]:
    """Sums of uint8 are rescaled in fixed point, others in single precision, as TFLite does."""
    scales = (quantization(each).scale for each in (call.input(0), call.outputs[0]))
    scale = float(np.divide(*map(np.float32, scales)))
    return (*_zeros(call), factor(*_factor(call)) if call.input(0).dtype is DType.UINT8 else real(scale, False))


@nest(ops.Sum, quantized, frozenset(), AXES, name=QUANTIZED, quantized_as=looking_at(_of_sum))
def sum_(node: Node[ops.Sum], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x the sums along axes, by `fold_along`."""
    *zeros, by = figured(node, _of_sum)

    def finish(e: Emitter, total: ir.Value) -> ir.Value:
        if node.input(0).dtype is DType.UINT8:
            return rescaled(e, total, by)
        nearest = round_half_away(Lanes(e, total).to_real(SINGLE) * Lanes(e, real_number(e, by)))
        return e.builder.fptosi(nearest.clamp(-(2.0**30), 2.0**30).value, I32)

    fold_along(lambda dtype, count: _total(node, finish, dtype, count, zeros), node, e, sinks)


for _op, _relation in ((ops.ReduceMax, ">"), (ops.ReduceMin, "<")):
    nest(_op, quantized, frozenset(), AXES, name=QUANTIZED, quantized_as=nothing)(
        partial(fold_along, partial(extreme, _relation)))


def _limits(call: Call, target: Target) -> tuple[int, int]:
    """The least and the greatest result of pooling."""
    activation = getattr(call.op, "fused_activation_function", Activation.NONE)
    return quantized_range(activation, call.outputs[0].quantization, call.outputs[0].dtype)


def _pool(combine: str, node: Node[Any], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c): (n, i, j, c). A loop over n, i and j, shared out, pools all channels of a position side
    by side in scratch memory (c,), i32; means are divided as doubles, halves away from zero."""
    x, b, dtype = node.input(0), e.builder, node.input(0).dtype
    (images, _, _, channels), (tall, wide) = x.shape, node.op.windows(x.shape)
    source, row = node.function.pointer(x), node.function.scratch(channels * 4)
    averages = combine == "add"
    least = 0 if averages else int(np.iinfo(dtype.numpy).min)
    low, high = _limits(node.call, e.target)
    work = 2 * images * tall.count * wide.count * tall.size * wide.size * channels
    with parallel_nest(e, (images, tall.count, wide.count), work) as (image, i, j):
        (top, height), (left, width) = covered(e, tall, i), covered(e, wide, j)
        with independent(e, channels, rereads=True) as channel:
            e.store(ir.Constant(I32, least), row, DType.INT32, channel)
        with e.loop(height) as k, e.loop(width) as m:
            pixel = e.linear([image, b.add(top, k), b.add(left, m), e.number(0)], x.shape)
            with independent(e, channels, rereads=True) as channel:
                element = widened(e, e.load(source, dtype, b.add(pixel, channel)), dtype)
                so_far = e.load(row, DType.INT32, channel)
                found = b.add(so_far, element) if averages else e.intrinsic("smax", so_far, element)
                e.store(found, row, DType.INT32, channel)
        divide = _divide(e, b.mul(height, width)) if averages else None
        with independent(e, channels, rereads=True) as channel:
            value = e.load(row, DType.INT32, channel)
            if divide is not None:
                value = divide(value)
            result = b.trunc(clamped(e, value, low, high), register_type(dtype))
            sinks[0](e, [image, i, j, channel], result)


def _divide(e: Emitter, count: ir.Value) -> Callable[[ir.Value], ir.Value]:
    """Divides i32 by a count, halves away from zero: as doubles, or by integers where there are no instructions for
    these, as quotients of integers below 2 ** 31 are either a half or far enough from it."""
    b = e.builder
    if e.target.has_doubles:
        divisor = Lanes(e, count).to_real(DOUBLE)
        return lambda value: b.fptosi(round_half_away(Lanes(e, value).to_real(DOUBLE) / divisor).value, I32)
    number = b.trunc(count, I32)
    half = b.lshr(number, ir.Constant(I32, 1))

    def divided(value: ir.Value) -> ir.Value:
        is_negative = b.icmp_signed("<", value, ir.Constant(I32, 0))
        quotient = b.udiv(b.add(b.select(is_negative, b.neg(value), value), half), number)
        return b.select(is_negative, b.neg(quotient), quotient)

    return divided


nest(AveragePool2D, quantized, frozenset({0}), name=QUANTIZED, quantized_as=_limits)(partial(_pool, "add"))
nest(MaxPool2D, only(QUANTIZABLE), frozenset({0}), name=QUANTIZED, quantized_as=_limits)(partial(_pool, "max"))
