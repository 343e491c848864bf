"""Native rule of the bilinear resizing of quantised images, equal to the bit to the numpy backend's."""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.arithmetic.interpolation import FRACTION_BITS, fixed_point_neighbours, neighbours
from circlet.backends.native.emit.emitter import I32, I64, Emitter, register_type
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.rules.preferences import QUANTIZED
from circlet.backends.native.rules.quantized.quantize import convert
from circlet.backends.native.rules.real.resize import SIZE, bilinear_corners
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import only
from circlet.runtime.ir.types import QUANTIZABLE, DType
from circlet.runtime.ops.resize import ResizeBilinear


@nest(ResizeBilinear, only(QUANTIZABLE), frozenset({0}), SIZE, name=QUANTIZED)
def resize_bilinear(node: Node[ResizeBilinear], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Unsigned elements are interpolated as floats, signed ones with integer weights."""
    x, (images, height, width, channels) = node.input(0), node.shape
    is_signed = x.dtype is not DType.UINT8
    find = fixed_point_neighbours if is_signed else neighbours
    tall, wide = (find(node.op, x.shape[axis], node.shape[axis]) for axis in (1, 2))
    with e.nest((images, height, width)) as (image, i, j):
        corners = bilinear_corners(node, e, tall, wide, i, j)
        with independent(e, channels) as channel:
            given = [(x.element(e, [image, row, column, channel]), one, other) for row, column, one, other in corners]
            stored = (_of_integers if is_signed else _of_floats)(e, given, x.dtype)
            sinks[0](e, [image, i, j, channel], stored)


def _of_integers(e: Emitter, given: list[tuple[ir.Value, ir.Value, ir.Value]], dtype: DType) -> ir.Value:
    """The sum of weighted elements, rounded, halves away from zero."""
    b, wide = e.builder, I32 if dtype is DType.INT8 else I64
    total = ir.Constant(wide, 0)
    for value, one, other in given:
        weight = b.mul(one, other)
        total = b.add(total, b.mul(b.sext(value, wide), b.trunc(weight, wide) if wide is I32 else weight))
    bits = 2 * FRACTION_BITS
    sign = b.ashr(total, ir.Constant(wide, wide.width - 1))
    nearest = b.add(b.add(total, ir.Constant(wide, 1 << (bits - 1))), sign)
    return b.trunc(b.ashr(nearest, ir.Constant(wide, bits)), register_type(dtype))


def _of_floats(e: Emitter, given: list[tuple[ir.Value, ir.Value, ir.Value]], dtype: DType) -> ir.Value:
    """The sum of weighted elements, none of which is negative, rounded, halves up."""
    b = e.builder
    total = e.constant(0, DType.FLOAT32)
    for value, one, other in given:
        product = b.fmul(b.fmul(convert(e, value, dtype, DType.FLOAT32), one), other)
        total = b.fadd(total, product)
    whole = b.fptosi(b.fadd(total, e.constant(0.5, DType.FLOAT32)), I32)
    return b.trunc(whole, register_type(dtype))
