"""Fixed-point rescaling of quantised values, equal to the bit to LiteRT's reference kernels.

A real multiplier is held as an int32 mantissa with 31 fraction bits and a shift: `mantissa * 2 ** (shift - 31)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import frexp, inf, isinf
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.types import Activation, DType, Quantization

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Integers: TypeAlias = int | npt.NDArray[np.integer[Any]]

_BOUNDS: dict[Activation, tuple[float, float]] = {
    Activation.NONE: (-inf, inf),
    Activation.RELU: (0.0, inf),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
    Activation.RELU6: (0.0, 6.0),
}
_INT32_MAX = (1 << 31) - 1


def round_half_away(value: float) -> int:
    """The nearest integer, halves away from zero."""
    whole = int(value)
    return whole + (1 if value > 0 else -1) * (abs(value - whole) >= 0.5)


def rounded(values: Floats) -> Floats:
    """The nearest whole numbers, halves away from zero."""
    whole = np.trunc(values)
    nearest: Floats = whole + np.where(np.abs(values - whole) >= 0.5, np.sign(values), 0).astype(values.dtype)
    return nearest


def rounding_shift(values: Int64s, bits: int) -> Int64s:
    """The values divided by `2 ** bits`, halves away from zero."""
    half = (1 << bits) >> 1
    nearest: Int64s = (values + np.where(values < 0, half - min(bits, 1), half)) >> bits
    return nearest


def quantize_multiplier(real: float) -> tuple[int, int]:
    """The mantissa, of magnitude in [2**30, 2**31), and the shift of a real multiplier; (0, 0) below 2**-32."""
    fraction, shift = frexp(real)
    mantissa = round_half_away(fraction * (1 << 31))
    if mantissa == 1 << 31:
        mantissa, shift = mantissa // 2, shift + 1
    return (0, 0) if mantissa == 0 or shift < -31 else (mantissa, shift)


def quantize_multipliers(reals: Iterable[float]) -> tuple[Int32s, Int32s]:
    """The mantissas and the shifts of several real multipliers, such as one for each channel."""
    pairs = np.array([quantize_multiplier(float(real)) for real in reals], np.int32).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def rescaler(multiplier: Integers, shift: Integers) -> Callable[[npt.ArrayLike], Int32s]:
    """A function that multiplies int32 values, held as int32 or int64, by a quantised multiplier.

    `multiplier` and `shift` broadcast against the values. A left shift comes first and wraps like C's; the product
    is rounded twice: its doubled high half rounds halves up, the right shift that follows halves away from zero.
    """
    shifts = np.asarray(shift, np.int64)
    factor = np.asarray(multiplier, np.int64)
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    grows, shrinks = bool(left.any()), bool(right.any())
    half = (1 << right) >> 1
    half_below = half - np.minimum(right, 1)

    def rescale(values: npt.ArrayLike) -> Int32s:
        x: Int64s = np.asarray(values, np.int64)
        if grows:
            x = (x << left).astype(np.int32).astype(np.int64)
        x = high_product(x, factor)
        if shrinks:
            x = (x + np.where(x < 0, half_below, half)) >> right
        return x.astype(np.int32)

    return rescale


def rescaler_64(multiplier: Integers, shift: Integers) -> Callable[[npt.ArrayLike], Int32s]:
    """A function that multiplies int64 sums, below 2**47 in magnitude, by a quantised multiplier.

    The mantissa is reduced to 15 fraction bits and halves round up; shifts lie in [-31, 7]. int16 activations use it.
    """
    mantissas = np.asarray(multiplier, np.int64)
    factor = np.minimum((mantissas + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - np.asarray(shift, np.int64)
    half = (1 << total) >> 1

    def rescale(values: npt.ArrayLike) -> Int32s:
        x: Int64s = (np.asarray(values, np.int64) * factor + half) >> total
        return x.astype(np.int32)

    return rescale


def multiply_by_quantized_multiplier(x: npt.ArrayLike, multiplier: Integers, shift: Integers) -> Int32s:
    """`rescaler(multiplier, shift)(x)`; a kernel that knows its multiplier when it is bound makes the rescaler then."""
    return rescaler(multiplier, shift)(x)


def multiply_by_quantized_multiplier_64(x: npt.ArrayLike, multiplier: Integers, shift: Integers) -> Int32s:
    """`rescaler_64(multiplier, shift)(x)`."""
    return rescaler_64(multiplier, shift)(x)


def inverse_square_root(values: Int64s) -> tuple[Int64s, Int64s]:
    """The mantissas and the shifts of 1 / sqrt(x) of int32 values by Newton's method; what is below 1 counts as 1."""
    pairs = (31 - bit_length(np.maximum(values, 1))) // 2 - 1
    normalised = np.where(pairs < 0, values >> 2, values << np.maximum(2 * pairs, 0))
    half = ((normalised >> 1) + 1) >> 1
    x: Int64s = np.full(values.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = np.minimum(high_product(high_product(x, x), x) << 6, _INT32_MAX)
        x = (high_product(x, np.int64(3 << 27)) - high_product(half, cube)) << 3
    mantissas = high_product(x, np.int64(1518500250)) << np.maximum(pairs - 11, 0)
    return np.where(values > 1, mantissas, _INT32_MAX), np.where(values > 1, np.minimum(pairs - 11, 0), 0)


def bit_length(values: Int64s) -> Int64s:
    """How many bits each number, not negative, has."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def high_product(a: Int64s, b: Int64s) -> Int64s:
    """The product of two fractions of 31 bits, halves rounded up."""
    product: Int64s = (a * b + (1 << 30)) >> 31
    return product


def refuse_activation(activation: Activation) -> str | None:
    """Why a fused activation is not a clamp; None where it is one."""
    if activation in _BOUNDS:
        return None
    return f"fused activation {activation.name} (supported: {', '.join(each.name for each in _BOUNDS)})"


def float_range(activation: Activation) -> tuple[float, float]:
    """The interval that a fused activation clamps to; infinite where it has no bound."""
    return _BOUNDS[activation]


def quantized_range(activation: Activation, quantization: Quantization | None, dtype: DType) -> tuple[int, int]:
    """The stored integers that a fused activation clamps to, within what `dtype` holds.

    Without quantisation the stored integers are the real values.
    """
    limits = np.iinfo(dtype.numpy)
    low, high = (stored_value(bound, quantization) for bound in _BOUNDS[activation])
    return int(max(limits.min, low)), int(min(limits.max, high))


def stored_value(real: float, quantization: Quantization | None) -> float:
    """The integer that stands for a real value, not clamped; infinity for infinity."""
    if isinf(real) or quantization is None or not quantization.scales:
        return real
    return quantization.zero_point + round_half_away(float(np.float32(real) / np.float32(quantization.scale)))
