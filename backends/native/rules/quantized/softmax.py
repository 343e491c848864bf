"""Native rules of softmax and its logarithm, of quantised elements: equal to the bit to the numpy backend's."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import prod
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic import fixed_point_functions as fixed
from circlet.backends.arithmetic.fixed_point import quantize_multiplier
from circlet.backends.arithmetic.fixed_point import shift_right as halved
from circlet.backends.arithmetic.softmax import (
    LOG_OF_TWO,
    SCALED_BITS,
    SUM_BITS,
    Decay,
    decay_of_16,
    exponentials_16,
    reciprocals_16,
)
from circlet.backends.native.emit.emitter import I32, I64, Emitter, register_type
from circlet.backends.native.emit.loops import by_length, fold, spread
from circlet.backends.native.emit.parallel import parallel_nests
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.rules.figures.figure import quantization, widened
from circlet.backends.native.rules.figures.multiplier import rescale
from circlet.backends.native.rules.function import Made
from circlet.backends.native.rules.preferences import QUANTIZED
from circlet.backends.native.rules.quantized.requantize import (
    clamped,
    product_of_fractions,
    saturated,
    shift_right,
)
from circlet.backends.native.rules.real.reduce import Register, reserve_row
from circlet.backends.native.rules.refusals import quantized
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.targets.target import Target
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.normalize import LogSoftmax, Softmax
from circlet.runtime.records import dataclass


def _quantized_as(call: Call, target: Target) -> Hashable:
    """What the code is made of where bytes are looked up is in a table."""
    return quantization(call.input(0)) if call.input(0).dtype is DType.INT16 else None


@nest(Softmax, all_of(quantized, only((DType.INT8, DType.UINT8, DType.INT16))), frozenset({0}), name=QUANTIZED,
      quantized_as=_quantized_as)
def softmax(node: Node[Softmax], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    (_softmax_16 if node.input(0).dtype is DType.INT16 else _softmax_8)(node, e, sinks)


@dataclass(frozen=True, eq=False)
class _Row:
    """A row of x."""

    index: Index
    below: Callable[[ir.Value], ir.Value]
    """Gives how far its elements, by number, are below the greatest one, an i32."""
    most: int | None
    """As `by_length` tells it."""


def _each_row(node: Node[Any], e: Emitter, work: int, turn: Callable[[_Row], None]) -> None:
    """Loops over the rows of x, shared out. An element takes so much work."""
    x, b = node.input(0), e.builder
    greatest, source, outer, depth = Register(e, I32), node.function.pointer(x), x.shape[:-1], x.shape[-1]
    with parallel_nests(e, (prod(outer),), work * x.size) as loops:
        def rows(most: int | None) -> None:
            with loops() as (row,):
                begin = b.mul(row, e.number(depth))

                def element(k: ir.Value) -> ir.Value:
                    return widened(e, e.load(source, x.dtype, b.add(begin, k)), x.dtype)

                greatest.set(ir.Constant(I32, int(np.iinfo(x.dtype.numpy).min)))
                fold(e, depth, lambda k: greatest.set(e.intrinsic("smax", greatest.get(), element(k))), most=most)
                turn(_Row(e.delinear(row, outer), lambda k: b.sub(greatest.get(), element(k)), most))

        by_length(e, depth, rows)


def _exponentials(call: Call) -> Array:
    """Those of how far elements are below the greatest."""
    beta = getattr(call.op, "beta", 1.0)
    decay = Decay.of(float(np.float32(beta)) * quantization(call.input(0)).scale)
    return np.ascontiguousarray(decay.exponentials, np.int32)


def _softmax_8(node: Node[Softmax], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n), int8 or uint8, the same shape: TFLite's `Softmax` of integers. The exponentials of how far
    elements are below the greatest are in a table, and kept in scratch memory (n,); the quotient is in fixed point.
    Three loops for each row, shared out."""
    x, b, made = node.input(0), e.builder, node.call.outputs[0].dtype
    depth, limits = x.shape[-1], np.iinfo(made.numpy)
    powers = Made(node.call, _exponentials).memory(node.function)
    half = ir.Constant(I32, 1 << SUM_BITS - 1)
    total, kept = Register(e, I64), reserve_row(node, depth, DType.INT32)

    def turn(row: _Row) -> None:
        total.set(e.wide(0))
        with e.loop(depth) as k:
            power = e.load(powers, DType.INT32, b.zext(row.below(k), e.index))
            e.store(power, kept, DType.INT32, k)
            summand = b.lshr(b.add(power, half), ir.Constant(I32, SUM_BITS))
            total.set(b.add(total.get(), b.zext(summand, I64)))
        inverse, shift = _inverse(e, total.get())
        shift = b.sub(e.wide(SUM_BITS + 31 - 8 * made.numpy.itemsize), shift)
        unit = b.lshr(b.shl(e.wide(1), shift), e.wide(1))

        def give(k: ir.Value) -> None:
            share = product_of_fractions(e, inverse, b.zext(e.load(kept, DType.INT32, k), I64))
            value = b.add(b.trunc(b.ashr(b.add(share, unit), shift), I32), ir.Constant(I32, int(limits.min)))
            result = clamped(e, value, int(limits.min), int(limits.max))
            sinks[0](e, [*row.index, k], b.trunc(result, register_type(made)))

        spread(e, depth, give, row.most)

    _each_row(node, e, 32, turn)


def _softmax_16(node: Node[Softmax], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n), int16, the same shape: TFLite's `SoftmaxInt16`. Exponentials and the reciprocal of their sum are
    looked up in tables of 513 points, the exponentials kept in scratch memory (n,). Three loops for each row, shared
    out."""
    x, b = node.input(0), e.builder
    depth, limits = x.shape[-1], np.iinfo(np.int16)
    decay = quantize_multiplier(decay_of_16(quantization(node.call.input(0)).scale, node.op.beta))
    exponentials, reciprocals = (node.function.external(each().astype(np.int16))
                                 for each in (exponentials_16, reciprocals_16))
    total, kept = Register(e, I64), reserve_row(node, depth, DType.INT32)

    def turn(row: _Row) -> None:
        total.set(e.wide(0))
        with e.loop(depth) as k:
            distance = rescale(e, b.neg(row.below(k)), *decay)
            place = clamped(e, b.add(b.sext(distance, I64), e.wide(limits.max)), limits.min, limits.max)
            power = _interpolated(e, exponentials, b.trunc(place, I32))
            e.store(power, kept, DType.INT32, k)
            total.set(b.add(total.get(), b.sext(power, I64)))
        headroom = b.zext(b.ctlz(b.trunc(total.get(), I32), ir.Constant(ir.IntType(1), 0)), I64)
        mantissa = b.ashr(b.add(b.shl(total.get(), b.sub(headroom, e.wide(1))), e.wide(1 << 13)), e.wide(14))
        place = clamped(e, b.sub(mantissa, e.wide(3 << 15)), limits.min, limits.max)
        inverse = b.sext(_interpolated(e, reciprocals, b.trunc(place, I32)), I64)
        shift = b.sub(e.wide(31), headroom)
        half = b.shl(e.wide(1), b.sub(shift, e.wide(1)))

        def give(k: ir.Value) -> None:
            power = b.sext(e.load(kept, DType.INT32, k), I64)
            share = b.ashr(b.add(b.mul(power, inverse), half), shift)
            sinks[0](e, [*row.index, k], b.trunc(clamped(e, share, 0, limits.max), register_type(DType.INT16)))

        spread(e, depth, give, row.most)

    _each_row(node, e, 48, turn)


def _interpolated(e: Emitter, table: ir.Value, place: ir.Value) -> ir.Value:
    """What a table has at a place, an i32 that an int16 holds; see `interpolate`."""
    b = e.builder
    entry = b.zext(b.add(b.ashr(place, ir.Constant(I32, 7)), ir.Constant(I32, 256)), e.index)
    one, other = (b.sext(e.load(table, DType.INT16, b.add(entry, e.number(k))), I32) for k in range(2))
    offset = b.and_(place, ir.Constant(I32, 127))
    rest = b.add(b.mul(b.sub(other, one), offset), ir.Constant(I32, 64))
    return b.add(one, b.ashr(rest, ir.Constant(I32, 7)))


def _inverse(e: Emitter, total: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The reciprocal, with 31 fraction bits, of a positive i32 moved left until its first bit is that of a fraction,
    and by how many bits it is moved, as i64: TFLite's `GetReciprocal`, gemmlowp's `one_over_one_plus_x_for_x_in_0_1`,
    as `reciprocal_of_one_plus` of the numpy backend computes it (48 / 17 and -32 / 17 in Q2, then Newton's method)."""
    b = e.builder
    headroom = e.builder.zext(b.ctlz(b.trunc(total, I32), ir.Constant(ir.IntType(1), 1)), I64)
    return _reciprocal(e, b.lshr(b.shl(total, headroom), e.wide(1))), headroom


def _reciprocal(e: Emitter, half_sum: ir.Value) -> ir.Value:
    """Half of that of a fraction, an i64, of at least a half; see `_inverse`."""
    b = e.builder
    result = b.add(product_of_fractions(e, half_sum, -1010580540), e.wide(1515870810))
    for _ in range(3):
        error = b.sub(e.wide(1 << 29), product_of_fractions(e, half_sum, result))
        result = b.add(result, saturated(e, b.shl(product_of_fractions(e, result, error), e.wide(2))))
    return saturated(e, b.shl(result, e.wide(1)))


@nest(LogSoftmax, all_of(quantized, only((DType.INT8, DType.UINT8))), frozenset({0}), name=QUANTIZED)
def log_softmax(node: Node[LogSoftmax], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n), int8 or uint8, the same shape: TFLite's `LogSoftmax` of integers. How far elements are below the
    greatest, and the exponentials of that, are in tables; from the logarithm of their sum follows how far below they
    may be. Three loops for each row, shared out."""
    x, b, made = node.input(0), e.builder, node.call.outputs[0].dtype
    limits, decay = np.iinfo(made.numpy), Decay.of(quantization(node.call.input(0)).scale)
    summands, scaled = (node.function.external(np.ascontiguousarray(each, np.int32))
                        for each in (halved(decay.exponentials, SUM_BITS), decay.scaled))
    total, most = Register(e, I64), min(decay.reach, int(np.iinfo(np.int32).max))
    depth, bits = x.shape[-1], e.wide(31 - SCALED_BITS - 4)

    def entry(table: ir.Value, distance: ir.Value) -> ir.Value:
        return b.sext(e.load(table, DType.INT32, b.zext(distance, e.index)), I64)

    def turn(row: _Row) -> None:
        total.set(e.wide(0))
        with e.loop(depth) as k:
            total.set(b.add(total.get(), entry(summands, row.below(k))))
        logarithm = _log_of_sum(e, total.get())
        steps = rescale(e, b.sub(logarithm, e.wide(1 << 31)), *decay.to_steps)
        reach = e.intrinsic("smin", ir.Constant(I32, most), b.sub(ir.Constant(I32, -1), steps))

        def give(k: ir.Value) -> None:
            distance = row.below(k)
            value = b.add(shift_right(e, b.sub(entry(scaled, distance), logarithm), bits), e.wide(int(limits.max)))
            value = b.trunc(clamped(e, value, int(limits.min), int(limits.max)), register_type(made))
            least = ir.Constant(register_type(made), int(limits.min))
            sinks[0](e, [*row.index, k], e.select(b.icmp_signed("<=", distance, reach), value, least))

        spread(e, depth, give, row.most)

    _each_row(node, e, 32, turn)


def _log_of_sum(e: Emitter, total: ir.Value) -> ir.Value:
    """The logarithm in Q5 of a sum of exponentials, an i64; one of more than 31 bits is halved before."""
    b = e.builder
    halvings = e.intrinsic("smax", b.sub(e.wide(33), _zeros(e, total)), e.wide(0))
    return b.add(_log_of_at_least_one(e, shift_right(e, total, halvings)), b.mul(halvings, e.wide(LOG_OF_TWO)))


def _zeros(e: Emitter, value: ir.Value) -> ir.Value:
    """The leading zero bits of a positive i64."""
    return e.builder.ctlz(value, ir.Constant(ir.IntType(1), 1))


def _log_of_at_least_one(e: Emitter, x: ir.Value) -> ir.Value:
    """Of an i64 in Q12 that is at least 1, in Q5, as `log_of_at_least_one` of the numpy backend computes it."""
    b, bits = e.builder, SCALED_BITS + 1
    quarter = e.wide(1 << 29 - bits)

    def moved(value: ir.Value, count: ir.Value) -> ir.Value:
        return saturated(e, b.shl(value, count))

    def power(zeros: ir.Value) -> ir.Value:
        return b.shl(b.sub(e.wide(SUM_BITS), zeros), e.wide(31 - bits))

    zeros = b.sub(_zeros(e, x), e.wide(32))
    reduced = moved(product_of_fractions(e, moved(x, b.sub(zeros, e.wide(1))), fixed.ROOT_HALF), e.wide(1))
    first = saturated(e, b.add(power(zeros), quarter))
    zeros = b.sub(_zeros(e, product_of_fractions(e, x, fixed.ROOT_HALF)), e.wide(33))
    reduced = e.intrinsic("smin", reduced, moved(x, zeros))
    exponent = e.intrinsic("smax", first, saturated(e, b.sub(power(zeros), quarter)))
    mean = b.ashr(b.add(reduced, e.wide(fixed.FOURTH_ROOT_HALF + 1)), e.wide(1))
    difference = b.shl(b.sub(reduced, e.wide(fixed.FOURTH_ROOT_HALF)), e.wide(1))
    square = product_of_fractions(e, difference, difference)
    numerator = b.add(product_of_fractions(e, difference, reduced),
                      product_of_fractions(e, product_of_fractions(e, difference, square), fixed.LOG_NUMERATOR))
    inner = b.add(b.add(e.wide(fixed.LOG_CONSTANT), difference), product_of_fractions(e, square, fixed.LOG_SQUARE))
    denominator = b.add(product_of_fractions(e, mean, inner), product_of_fractions(e, difference, fixed.LOG_LINEAR))
    half_sum = b.ashr(b.add(denominator, e.wide(1 << 31)), e.wide(1))
    scaled = product_of_fractions(e, shift_right(e, numerator, e.wide(bits)), _reciprocal(e, half_sum))
    return moved(b.add(product_of_fractions(e, exponent, fixed.LN_2), scaled), e.wide(1))
