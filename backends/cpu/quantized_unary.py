"""Quantised operators on one input, as functions of one stored value, equal to the bit to LiteRT's reference kernels.

Each takes an operator in its place and the stored values of the input, as int64, and gives those of the output, which
the caller clamps to what the output type holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import erfc, inf, pi, sqrt
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from circlet.backends.arithmetic import fixed_point_functions as fixed
from circlet.backends.arithmetic.fixed_point import (
    Int64s,
    product,
    quantize_multiplier,
    rescaler,
    round_half_away,
    shift_right,
    stored_value,
)
from circlet.backends.cpu.quantized import StoredFunction, lookup, parameters
from circlet.backends.cpu.rule import Node
from circlet.backends.refusal import Refusal
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import QUANTIZABLE, Array, DType, Quantization
from circlet.runtime.ops import unary as ops
from circlet.runtime.records import dataclass

Float32s: TypeAlias = npt.NDArray[np.float32]
Float64s: TypeAlias = npt.NDArray[np.float64]
Real: TypeAlias = Callable[[Float32s], Float32s]


def rescaled(x: Int64s, source: Quantization, target: Quantization, factor: float = 1.0) -> Int64s:
    """Stored values of `source`, times a factor, as stored values of `target`."""
    real = np.float32(source.scale) * np.float32(factor) / np.float32(target.scale)
    return rescaler(*quantize_multiplier(float(real)))(x - source.zero_point).astype(np.int64) + target.zero_point


def _clamped(low: float, high: float) -> StoredFunction[Any]:
    def function(node: Node[Any], x: Int64s) -> Array:
        source, target = parameters(node)
        return np.clip(rescaled(x, source, target), stored_value(low, target), stored_value(high, target))

    return function


def _leaky_relu(node: Node[ops.LeakyRelu], x: Int64s) -> Int64s:
    """By a negative slope halves are rounded as by its magnitude, before the sign is changed."""
    source, target = parameters(node)
    slope, zero = node.op.alpha, target.zero_point
    below = rescaled(x, source, target, abs(slope)) - zero
    return np.where(x > source.zero_point, rescaled(x, source, target), (-below if slope < 0 else below) + zero)


def _abs(node: Node[ops.Abs], x: Int64s) -> Int64s:
    source, target = parameters(node)
    return rescaled(np.abs(x - source.zero_point) + source.zero_point, source, target)


def _sampled(real: Real) -> StoredFunction[Any]:
    """The real function at each stored value of int8 and uint8; for int16, at 513 of them and between by a line."""
    def function(node: Node[Any], x: Int64s) -> Array:
        source, target = parameters(node)
        if node.dtype() == DType.INT16:
            return _interpolated(real, source, target, x)
        scale, inverse = np.float32(source.scale), np.float32(1) / np.float32(target.scale)
        values = real(scale * (x - source.zero_point).astype(np.float32))
        stored: Array = round_half_away(values * inverse) + np.float32(target.zero_point)
        return stored

    return function


def single(function: Callable[[Float64s], Float64s], x: Float32s) -> Float32s:
    """A function rounded once to single precision, as a C library of correctly rounded functions gives it."""
    with np.errstate(all="ignore"):
        return function(x.astype(np.float64)).astype(np.float32)


def _correct(function: Callable[[Float64s], Float64s]) -> Real:
    return partial(single, function)


def _interpolated(real: Real, source: Quantization, target: Quantization, x: Int64s) -> Int64s:
    """int16 without zero points."""
    ends = np.array([-32768, 32767], np.float32)
    (least, most), (low, high) = np.float32(source.scale) * ends, np.float32(target.scale) * ends
    return fixed.interpolate(fixed.interpolation_table(real, least, most, np.float32(65536) / (high - low)), x)


def _sigmoid_table() -> Int64s:
    at = 1 / (1 + np.exp(-np.arange(256) / 24))
    curvature = at * (1 - at) * (1 - 2 * at)
    values: Int64s = np.floor(65536 * (at - curvature / (16 * 24 * 24)) + 0.5).astype(np.int64)
    return np.append(values[:-1], 65535)


SIGMOID = _sigmoid_table()
"""The logistic function of k / 24 with 16 fraction bits, raised by half of how far the chord to k + 1 lies below it."""


def _sigmoid(x: Int64s, bits: int) -> Int64s:
    """The logistic function of magnitudes with `bits` fraction bits of 1 / 24, with 16 + `bits` fraction bits."""
    index = np.minimum(x >> bits, 254)
    value: Int64s = (SIGMOID[index] << bits) + (x & ((1 << bits) - 1)) * (SIGMOID[index + 1] - SIGMOID[index])
    return value


def _table_input(x: Int64s, source: Quantization, exact: Sequence[int]) -> Int64s:
    """int16 stored values with 12 fraction bits of 1 / 3; scales near 2 ** (k - 12) count as that, for each `k` of
    `exact`."""
    exponent = np.log(np.float32(source.scale)) * (1 / np.log(np.float32(2)))
    shift = 12 + round(float(exponent))
    if abs(exponent - np.rint(exponent)) < np.float32(1e-3) and shift in exact:
        multiplier, shift = 3.0 * (1 << shift), 0
    else:
        multiplier, shift = source.scale * 4096 * 3, 0
        while multiplier <= 32767 / 2 and shift <= 30:
            multiplier, shift = multiplier * 2, shift + 1
    scaled: Int64s = (x * int(multiplier) + ((1 << shift) >> 1)) >> shift
    return scaled


def _logistic(x: Float32s) -> Float32s:
    """Each operation is rounded: 128.49999 of a scale would else become 128.5."""
    value: Float32s = np.float32(1) / (np.float32(1) + single(np.exp, -x))
    return value


def _logistic_16(x: Int64s) -> Int64s:
    magnitude = np.abs(x)
    value = np.where(magnitude >> 9 >= 255, 0x7FFF << 10, _sigmoid(magnitude, 9))
    return np.where(x >= 0, value + (1 << 9), (1 << 25) - value + (1 << 9) - 1) >> 10


def _tanh_16(x: Int64s) -> Int64s:
    magnitude = np.abs(x)
    value = np.where(magnitude >> 8 >= 255, 0xFFFF << 8, _sigmoid(magnitude, 8)) - (1 << 23)
    return np.where(x >= 0, value + (1 << 7), -value + (1 << 7) - 1) >> 8


def _saturating(real: Real, wide: Callable[[Int64s], Int64s], exact: Sequence[int]) -> StoredFunction[Any]:
    narrow = _sampled(real)

    def function(node: Node[Any], x: Int64s) -> Array:
        if node.dtype() == DType.INT16:
            return wide(_table_input(x, parameters(node)[0], exact))
        return narrow(node, x)

    return function


def _for_positive(real: Real, least: bool) -> StoredFunction[Any]:
    """The real function of positive values; others give the least or the greatest value of the output."""
    def function(node: Node[Any], x: Int64s) -> Array:
        target = parameters(node)[1]
        limits = np.iinfo(node.out.dtype)
        end = np.float32(target.scale) * np.float32((limits.min if least else limits.max) - target.zero_point)
        return _sampled(lambda value: np.where(value > 0, real(value), end))(node, x)

    return function


def _sqrt(node: Node[ops.Sqrt], x: Int64s) -> Array:
    """Truncated, not rounded."""
    source, target = parameters(node)
    value = np.float32(source.scale) * np.maximum(x - source.zero_point, 0).astype(np.float32)
    stored: Array = np.floor(np.sqrt(value) / np.float32(target.scale)) + target.zero_point
    return stored


def _gelu(node: Node[ops.Gelu], x: Int64s) -> Array:
    def exact(x: Float32s) -> Float32s:
        tail = single(np.vectorize(erfc), -x * np.float32(sqrt(0.5)))
        value: Float32s = np.float32(0.5) * x * tail
        return value

    def by_tanh(x: Float32s) -> Float32s:
        inner = np.float32(sqrt(2 / pi)) * (x + np.float32(0.044715) * x * x * x)
        value: Float32s = np.float32(0.5) * x * (single(np.tanh, inner) + np.float32(1))
        return value

    return _sampled(by_tanh if node.op.approximate else exact)(node, x)


def _rsqrt(node: Node[ops.Rsqrt], x: Int64s) -> Array:
    """int8 by Newton's method in fixed point, int16 by samples; zero gives the greatest value."""
    source, target = parameters(node)
    if node.dtype() == DType.INT16:
        return _for_positive(lambda value: np.float32(1) / np.sqrt(value), least=False)(node, x)
    value = x - source.zero_point
    mantissas, shifts = fixed.inverse_square_root(value)
    unit = np.float64(np.sqrt(np.float32(source.scale)) * np.float32(target.scale))
    multiplier, shift = quantize_multiplier(1 / unit)
    root = rescaler(mantissas, 20 - shifts)(np.ones_like(x))
    stored = rescaler(multiplier, shift - 20)(root) + target.zero_point
    return np.where(value > 0, stored, np.iinfo(node.out.dtype).max)


def _saturated(x: Int64s) -> Int64s:
    """Clamped to int16."""
    return fixed.saturated(x, 15)


def _product(a: Int64s, b: int) -> Int64s:
    """The product of int16 fractions."""
    return _saturated(product(a, b, 15))


def _hard_swish(node: Node[ops.HardSwish], x: Int64s) -> Int64s:
    source, target = parameters(node)
    hires = np.float32(1 / 128) * np.float32(source.scale)
    to_output, output_shift = _short_multiplier(hires / np.float32(target.scale))
    to_gate, gate_shift = _short_multiplier(hires / np.float32(3 / 32768))
    fine = (x - source.zero_point) * 128
    if gate_shift > 0:
        gate = _saturated(_product(_saturated(fine << gate_shift - 1), to_gate) << 1)
    else:
        gate = _short_shift(_product(fine, to_gate), -gate_shift)
    product = ((gate + (1 << 15)) >> 1) * _product(fine, to_output)
    high = _saturated(np.sign(product) * (np.abs(product) >> 15))
    return _short_shift(high, -output_shift) + target.zero_point


def _short_shift(x: Int64s, bits: int) -> Int64s:
    """Of int16: x / 2^bits, to the nearest. From 16 bits on LiteRT's mask of them is -1, which leaves 1 of what is not
    negative and -1 of what is."""
    shifted: Int64s = shift_right(x, bits) if bits < 16 else np.where(x < 0, -1, 1)
    return shifted


def _short_multiplier(real: np.float32) -> tuple[int, int]:
    """A quantised multiplier with a mantissa of 15 fraction bits."""
    mantissa, shift = quantize_multiplier(float(real))
    return min((mantissa + (1 << 15)) >> 16, 32767), shift


@dataclass(frozen=True)
class Quantized:
    """How an operator on one input treats quantised values, and of which types."""

    types: frozenset[DType]
    function: StoredFunction[Any]
    refuses: Refusal | None = None
    positive: bool = False
    """Whether negative values are an error."""

    def bind(self, node: Node[Any]) -> Step:
        step, x = lookup(self.function, node), node.input(0)
        if not self.positive:
            return step
        zero = parameters(node)[0].zero_point

        def checked() -> None:
            if (x < zero).any():
                raise ExecutionError("the square root of a negative number")
            step()

        return checked


def _refuse_16(call: Call) -> str | None:
    target = call.outputs[0]
    fits = target.dtype != DType.INT16 or (target.quantization is not None and target.quantization.scale == 2.0**-15)
    return None if fits else f"int16 output {target.name!r} of another scale than 2 ** -15"


_BYTES = frozenset({DType.INT8, DType.UINT8})
_SIGNED = frozenset({DType.INT8, DType.INT16})
QUANTIZED: dict[type[Op], Quantized] = {
    ops.Abs: Quantized(_SIGNED, _abs),
    ops.Exp: Quantized(_SIGNED, _sampled(_correct(np.exp))),
    ops.Log: Quantized(_SIGNED, _for_positive(_correct(np.log), least=True)),
    ops.Sqrt: Quantized(_SIGNED, _sqrt, positive=True),
    ops.Rsqrt: Quantized(_SIGNED, _rsqrt, positive=True),
    ops.Tanh: Quantized(QUANTIZABLE, _saturating(_correct(np.tanh), _tanh_16, (0, 1)), _refuse_16),
    ops.Logistic: Quantized(QUANTIZABLE, _saturating(_logistic, _logistic_16, (0,)), _refuse_16),
    ops.Relu: Quantized(QUANTIZABLE, _clamped(0, inf)),
    ops.Relu6: Quantized(QUANTIZABLE, _clamped(0, 6)),
    ops.ReluN1To1: Quantized(_BYTES, _clamped(-1, 1)),
    ops.Relu0To1: Quantized(_BYTES, _clamped(0, 1)),
    ops.LeakyRelu: Quantized(QUANTIZABLE, _leaky_relu),
    ops.Gelu: Quantized(QUANTIZABLE, _gelu),
    ops.HardSwish: Quantized(_BYTES, _hard_swish),
}
"""The operators that quantised values may enter."""
