"""Native rules of conversions between element types, and between real numbers and stored ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import frexp
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import round_half_away
from circlet.backends.arithmetic.quantization import quantization_of
from circlet.backends.native.emit.emitter import I32, UNSIGNED, Emitter, is_real, register_type
from circlet.backends.native.emit.lanes import Lanes, single
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Element, Value, computed
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.rules.figures.figure import (
    Figure,
    Figures,
    figured,
    looking_at,
    quantization,
    real,
    real_number,
)
from circlet.backends.native.rules.real.elementwise import compare, elementwise
from circlet.backends.native.rules.refusals import castable, movable
from circlet.backends.native.rules.rule import Node, fused
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import Array, DType, Quantization
from circlet.runtime.ops import quantize as ops

FLOAT = DType.FLOAT32
"""What scales and zero points are in."""
_BELOW_HALF = float(np.nextafter(np.float32(0.5), np.float32(0)))
"""The greatest float32 below a half: a half, added to it or to an odd number above 2 ** 23, would round to the next
whole number."""


def convert(e: Emitter, value: ir.Value, source: DType, result: DType) -> ir.Value:
    """The value as another type: to BOOL it is whether it differs from zero.

    Real numbers become integers by truncation, clamped to what the type holds; NaN becomes the greatest integer.
    """
    if source is result:
        return value
    if source is DType.BFLOAT16:
        return convert(e, _from_bfloat16(e, value), FLOAT, result)
    if result is DType.BFLOAT16:
        return _to_bfloat16(e, convert(e, value, source, FLOAT))
    if result is DType.BOOL:
        return compare(e, source, "!=", value, e.constant(0, source))
    if is_real(source):
        return _from_real(e, value, source, result)
    if is_real(result):
        return _to_real(e, value, source, result)
    b, kind = e.builder, register_type(result)
    if kind.width <= value.type.width:
        return value if kind.width == value.type.width else b.trunc(value, kind)
    return b.zext(value, kind) if _is_unsigned(source) else b.sext(value, kind)


def _from_bfloat16(e: Emitter, bits: ir.Value) -> ir.Value:
    b = e.builder
    return b.bitcast(b.shl(b.zext(bits, I32), ir.Constant(I32, 16)), register_type(FLOAT))


def _to_bfloat16(e: Emitter, value: ir.Value) -> ir.Value:
    """The bits of the nearest one, of two as near the even one; NaN stays NaN."""
    b, half = e.builder, ir.Constant(I32, 16)
    bits = b.bitcast(value, I32)
    high = b.lshr(bits, half)
    rounded = b.add(b.add(bits, ir.Constant(I32, 0x7FFF)), b.and_(high, ir.Constant(I32, 1)))
    found = e.select(b.fcmp_unordered("uno", value, value), b.or_(high, ir.Constant(I32, 0x40)), b.lshr(rounded, half))
    return b.trunc(found, register_type(DType.BFLOAT16))


def _is_unsigned(dtype: DType) -> bool:
    """Whether a wider integer is filled up with zeros."""
    return dtype in UNSIGNED or dtype is DType.BOOL


def _to_real(e: Emitter, value: ir.Value, source: DType, result: DType) -> ir.Value:
    """An integer as the nearest real number; half precision by way of single."""
    b, kind = e.builder, register_type(FLOAT if result is DType.FLOAT16 else result)
    found = b.uitofp(value, kind) if _is_unsigned(source) else b.sitofp(value, kind)
    return convert(e, found, FLOAT, result) if result is DType.FLOAT16 else found


def _from_real(e: Emitter, value: ir.Value, source: DType, result: DType) -> ir.Value:
    """A real number as another one, or as an integer: truncated, clamped to what the type holds; NaN becomes the
    greatest."""
    b, kind = e.builder, register_type(result)
    if is_real(result):
        return e.widened(value, kind) if result.numpy.itemsize > source.numpy.itemsize else e.narrowed(value, kind)
    if source is DType.FLOAT16:
        value, source = e.widened(value, register_type(FLOAT)), FLOAT
    limits = np.iinfo(result.numpy)
    least = e.constant(limits.min, source)
    clamped = e.select(compare(e, source, "<", value, least), least, value)
    whole = b.fptoui(clamped, kind) if result in UNSIGNED else b.fptosi(clamped, kind)
    fits = compare(e, source, "<", value, e.constant(limits.max + 1, source))
    return e.select(fits, whole, e.constant(limits.max, result))


def _double_to_half(call: Call) -> str | None:
    """Leaves the rounding of double to half precision, which few processors do, to the host."""
    halves = call.input(0).dtype is DType.FLOAT64 and call.outputs[0].dtype is DType.FLOAT16
    return "float64 to float16" if halves else None


def _cast(node: Node[Any]) -> tuple[Value]:
    """Of x, each element as another type, of complex numbers the real parts."""
    result = node.call.outputs[0].dtype
    if node.call.input(0).dtype is DType.COMPLEX64:
        return elementwise(node, lambda e, _, v: convert(e, Lanes(e, v[0]).narrow(I32).real().value, FLOAT, result))
    return elementwise(node, lambda e, dtype, v: convert(e, v[0], dtype, result))


fused(ops.Cast, all_of(castable, _double_to_half))(_cast)
fused(ops.StablehloConvert, all_of(castable, _double_to_half))(_cast)


def _along(node: Node[Any], numbers: Array, axis: int) -> Element:
    """One of the numbers, as float32, for each index along an axis."""
    value = node.function.constant(numbers.astype(np.float32), FLOAT)
    return lambda e, index: value.element(e, [index[axis]])


def _of_affine(by: Quantization) -> Sequence[Figure]:
    """A scale and a zero point, float32. Code looks at all of what is one for each index along an axis, and at scales
    that are powers of two, by which LLVM divides as it multiplies."""
    if by.per_axis:
        return (Figure((), by),)
    scale, zero = float(np.float32(by.scale)), float(np.float32(by.zero_point))
    return real(scale, is_known=frexp(scale)[0] == 0.5), real(zero, is_known=zero == 0)


def _affine(node: Node[Any], by: Quantization, figures: Figures,
            combine: Callable[[Emitter, ir.Value, ir.Value, ir.Value], ir.Value]) -> tuple[Value]:
    """Every element made of the input's, its scale and its zero point, which are float32, one for all or one for each
    index along an axis."""
    x, axis = node.input(0), by.axis if by.per_axis else None
    if axis is not None and axis >= len(x.shape):
        raise Unlowerable(f"{node.place}: scales along axis {axis} of shape {x.shape}")
    zeros = np.broadcast_to(np.array(by.zero_points or (0,)), len(by.scales))
    scale, zero = (partial(_alone, each) for each in figured(node, figures)) if axis is None else (
        _along(node, each, axis) for each in (np.array(by.scales), zeros))

    def element(e: Emitter, index: Index) -> ir.Value:
        return combine(e, x.element(e, index), scale(e, index), zero(e, index))

    def linear(e: Emitter, position: ir.Value) -> ir.Value:
        return combine(e, x.linear(e, position), scale(e, ()), zero(e, ()))

    return (computed(node.shape, node.call.outputs[0].dtype, element, linear if axis is None else None),)


def _alone(figure: Figure, e: Emitter, index: Index) -> ir.Value:
    """A real number that is one for all elements."""
    return real_number(e, figure)


def _rounded(x: Lanes) -> Lanes:
    """The nearest whole number, halves away from zero."""
    return (x + x.constant(_BELOW_HALF).sign_of(x)).unary("trunc")


def _of_result(call: Call) -> Sequence[Figure]:
    """How the result is quantised."""
    return _of_affine(quantization(call.outputs[0]))


@fused(ops.Quantize, all_of(movable, only((FLOAT, DType.FLOAT16))), quantized_as=looking_at(_of_result))
def quantize(node: Node[ops.Quantize]) -> tuple[Value]:
    """Of x, real, integers of its shape: round(x / scale) + zero point, halves away from zero, clamped, as in TFLite's
    `AffineQuantize`; NaN becomes the least."""
    source, result = node.input(0).dtype, node.call.outputs[0].dtype
    limits = np.iinfo(result.numpy)

    def combine(e: Emitter, x: ir.Value, scale: ir.Value, zero: ir.Value) -> ir.Value:
        nearest = _rounded(Lanes(e, e.builder.fdiv(convert(e, x, source, FLOAT), scale)))
        shifted = nearest + Lanes(e, zero)
        stored = (shifted > limits.min).where(shifted, limits.min).at_most(limits.max)
        return e.builder.trunc(e.builder.fptosi(stored.value, ir.IntType(32)), register_type(result))

    return _affine(node, quantization(node.call.outputs[0]), _of_result, combine)


def _has_scale(call: Call) -> str | None:
    """Refuses integers without a scale."""
    x = call.input(0)
    return None if x.dtype is DType.FLOAT16 or quantization_of(x) is not None else "input 0 has no scale"


def _of_input(call: Call) -> Sequence[Figure]:
    """How the input is quantised, if it is."""
    found = call.input(0).quantization
    return () if found is None else _of_affine(found)


@fused(ops.Dequantize, all_of(movable, _has_scale), quantized_as=looking_at(_of_input))
def dequantize(node: Node[ops.Dequantize]) -> tuple[Value]:
    """Of x, integers, float32 of its shape: (x - zero point) * scale, as in TFLite's `Dequantize`; of float16, a
    cast."""
    source, found = node.input(0).dtype, node.call.input(0).quantization
    if source is DType.FLOAT16 or found is None:
        return _cast(node)
    shifts = any(found.zero_points)

    def combine(e: Emitter, x: ir.Value, scale: ir.Value, zero: ir.Value) -> ir.Value:
        real = convert(e, x, source, FLOAT)
        return e.builder.fmul(e.builder.fsub(real, zero) if shifts else real, scale)

    return _affine(node, found, _of_input, combine)


@fused(ops.FakeQuant)
def fake_quant(node: Node[ops.FakeQuant]) -> tuple[Value]:
    """Of x, float32 of its shape: the nearest of 2 ** `num_bits` values between nudged bounds, as in TFLite's
    `NudgeQuantizationRange` and `FakeQuantizeArray`."""
    op = node.op
    first, last = np.float32(op.narrow_range), np.float32((1 << op.num_bits) - 1)
    scale = (np.float32(op.max) - np.float32(op.min)) / (last - first)
    zero = np.float32(round_half_away(np.clip(first - np.float32(op.min) / scale, first, last)))
    step, least, greatest, inverse = map(float, (scale, (first - zero) * scale, (last - zero) * scale, 1 / scale))

    @single
    def nearest(x: Lanes) -> Lanes:
        above = (x > least).where(x, least).at_most(greatest) - least
        return _rounded(above * inverse) * step + least

    return elementwise(node, lambda e, dtype, v: nearest(e, v[0]))
