"""Native rule of the bilinear resizing of quantised images, equal to the bit to the numpy backend's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.arithmetic.interpolation import FRACTION_BITS, fixed_point_neighbours, neighbours
from circlet.backends.native.emit.emitter import I32, I64, Emitter, register_type
from circlet.backends.native.emit.lanes import SINGLE, Lanes
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.rules.preferences import QUANTIZED
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.resize import SIZE, Corner, at_most_last, bilinear_corners, expect_sizes, steps
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import only
from circlet.runtime.ir.length import is_open
from circlet.runtime.ir.types import QUANTIZABLE, DType
from circlet.runtime.ops.resize import ResizeBilinear

Pair: TypeAlias = "tuple[tuple[ir.Value, ir.Value], tuple[ir.Value, ir.Value]]"
"""Two elements along an axis, each with its weight."""


@nest(ResizeBilinear, only(QUANTIZABLE), frozenset({0}), SIZE, name=QUANTIZED)
def resize_bilinear(node: Node[ResizeBilinear], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c): (n, i, j, c). Unsigned elements are interpolated as floats, signed ones with integer
    weights, as TFLite's `ResizeBilinear` and `ResizeBilinearInteger` do. A loop over n, i and j reads the four corners
    from tables; the innermost one goes through the channels."""
    expect_sizes(node)
    x, (images, height, width, channels) = node.input(0), node.shape
    is_signed = x.dtype is not DType.UINT8
    corners_at = _corners(node, e, is_signed)
    with e.nest((images, height, width)) as (image, i, j):
        corners = corners_at(i, j)
        with independent(e, channels) as channel:
            given = [(x.element(e, [image, row, column, channel]), one, other) for row, column, one, other in corners]
            stored = (_of_integers if is_signed else _of_floats)(e, given, x.dtype)
            sinks[0](e, [image, i, j, channel], stored)


def _corners(node: Node[ResizeBilinear], e: Emitter,
             is_signed: bool) -> Callable[[ir.Value, ir.Value], list[Corner]]:
    """From a row and a column of the result to the four elements that it is made of: from tables, or computed there
    where sizes are open."""
    axes = [(node.input(0).shape[axis], node.shape[axis]) for axis in (1, 2)]
    if is_open(each for axis in axes for each in axis):
        find = _fixed_point_pair if is_signed else _pair

        def computed(i: ir.Value, j: ir.Value) -> list[Corner]:
            above, beside = (find(e, node.op, *sizes, place) for sizes, place in zip(axes, (i, j), strict=True))
            return [(row, column, one, other) for column, other in beside for row, one in above]

        return computed
    tall, wide = ((fixed_point_neighbours if is_signed else neighbours)(node.op, *sizes) for sizes in axes)
    return lambda i, j: bilinear_corners(node, e, tall, wide, i, j)


def _fixed_point_pair(e: Emitter, op: ResizeBilinear, length: int, count: int, place: ir.Value) -> Pair:
    """`fixed_point_neighbours` of one element."""
    b, one = e.builder, 1 << FRACTION_BITS
    between = steps(op, count)
    scale = (one * (length - int(op.align_corners)) + between // 2) // between
    position = b.mul(place, e.number(scale))
    if op.half_pixel_centers:
        position = b.add(position, e.number(scale // 2 - one // 2))
    bits, zero = e.number(FRACTION_BITS), e.number(0)
    lower = e.intrinsic("smax", b.ashr(position, bits), zero)
    upper = at_most_last(e, b.neg(b.ashr(b.neg(position), bits)), length)
    weight = b.sub(position, b.shl(lower, bits))
    return (at_most_last(e, lower, length), b.sub(e.number(one), weight)), (upper, weight)


def _pair(e: Emitter, op: ResizeBilinear, length: int, count: int, place: ir.Value) -> Pair:
    """`neighbours` of one element."""
    half = 0.5 if op.half_pixel_centers else 0.0
    real = [Lanes(e, e.number(each)).to_real(SINGLE) for each in (length - int(op.align_corners), steps(op, count))]
    position = (Lanes(e, place).to_real(SINGLE) + half) * (real[0] / real[1]) - half
    lower, upper = (e.builder.fptosi(position.unary(name).value, e.index) for name in ("floor", "ceil"))
    lower, upper = e.intrinsic("smax", lower, e.number(0)), at_most_last(e, upper, length)
    weight = position - Lanes(e, lower).to_real(SINGLE)
    return (at_most_last(e, lower, length), (-weight + 1.0).value), (upper, weight.value)


def _of_integers(e: Emitter, given: list[tuple[ir.Value, ir.Value, ir.Value]], dtype: DType) -> ir.Value:
    """The sum of four weighted elements, with 20 fraction bits, in 32 bits (64 for int16), rounded, halves away from
    zero."""
    b, wide = e.builder, I32 if dtype is DType.INT8 else I64
    total = ir.Constant(wide, 0)
    for value, one, other in given:
        weight = b.mul(one, other)
        total = b.add(total, b.mul(b.sext(value, wide), (b.trunc if wide is I32 else b.sext)(weight, wide)))
    bits = 2 * FRACTION_BITS
    sign = b.ashr(total, ir.Constant(wide, wide.width - 1))
    nearest = b.add(b.add(total, ir.Constant(wide, 1 << (bits - 1))), sign)
    return b.trunc(b.ashr(nearest, ir.Constant(wide, bits)), register_type(dtype))


def _of_floats(e: Emitter, given: list[tuple[ir.Value, ir.Value, ir.Value]], dtype: DType) -> ir.Value:
    """The sum of four weighted elements, none of which is negative, in float32, rounded, halves up."""
    b = e.builder
    total = e.constant(0, DType.FLOAT32)
    for value, one, other in given:
        product = b.fmul(b.fmul(convert(e, value, dtype, DType.FLOAT32), one), other)
        total = b.fadd(total, product)
    whole = b.fptosi(b.fadd(total, e.constant(0.5, DType.FLOAT32)), I32)
    return b.trunc(whole, register_type(dtype))
