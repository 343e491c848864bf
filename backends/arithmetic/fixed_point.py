"""Fixed-point rescaling of quantised values, equal to the bit to LiteRT's reference kernels.

A real multiplier is held as an int32 mantissa with 31 fraction bits and a shift: `mantissa * 2 ** (shift - 31)`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, isinf
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.types import Activation, DType, Quantization

if TYPE_CHECKING:
    import numpy.typing as npt

Floats: TypeAlias = "npt.NDArray[np.floating[Any]]"
"""Real numbers of any precision."""
Int32s: TypeAlias = "npt.NDArray[np.int32]"
"""Stored values, mantissas and shifts."""
Int64s: TypeAlias = "npt.NDArray[np.int64]"
"""What is computed with, so that products of two int32 fit."""
Integers: TypeAlias = "int | npt.NDArray[np.integer[Any]]"
"""One mantissa or shift, or one for each channel."""

_BOUNDS: dict[Activation, tuple[float, float]] = {
    Activation.NONE: (-inf, inf),
    Activation.RELU: (0.0, inf),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
    Activation.RELU6: (0.0, 6.0),
}
"""The real interval of each fused activation that clamps, as TFLite's schema defines them."""


def round_half_away(values: float | Floats) -> Floats:
    """The nearest whole numbers, halves away from zero, as floats of the same type: `TfLiteRound`, C's `round`.

    Added is the greatest float below a half, as the sum of 0.5 and that number itself would round up to 1.
    """
    x = np.asarray(values)
    below_half = np.nextafter(x.dtype.type(0.5), x.dtype.type(0))
    nearest: Floats = np.trunc(x + np.copysign(below_half, x))
    return nearest


def shift_right(x: npt.ArrayLike, bits: npt.ArrayLike) -> Int64s:
    """`x / 2 ** bits`, halves rounded away from zero: gemmlowp's `RoundingDivideByPOT`."""
    values, count = np.asarray(x, np.int64), np.asarray(bits, np.int64)
    half = (np.int64(1) << count) >> 1
    result: Int64s = np.where(values < 0, -((half - values) >> count), (half + values) >> count)
    return result


def quantize_multipliers(reals: npt.ArrayLike) -> tuple[Int32s, Int32s]:
    """The mantissas and the shifts of real multipliers, such as one for each channel: TFLite's `QuantizeMultiplier`.

    A mantissa has a magnitude in [2**30, 2**31); multipliers below 2**-32 become (0, 0).

    Raises:
        ExecutionError: a multiplier is infinite or not a number.
    """
    given = np.asarray(reals, np.float64)
    if not np.isfinite(given).all():
        raise ExecutionError(f"the scales need to be multiplied by {given.tolist()}: expected finite numbers")
    fractions, exponents = np.frexp(given)
    mantissas = round_half_away(fractions * 2.0**31).astype(np.int64)
    full = mantissas == 1 << 31
    mantissas, shifts = np.where(full, mantissas >> 1, mantissas), exponents + full
    lost = (mantissas == 0) | (shifts < -31)
    return np.where(lost, 0, mantissas).astype(np.int32), np.where(lost, 0, shifts).astype(np.int32)


def quantize_multiplier(real: float) -> tuple[int, int]:
    """The mantissa and the shift of one real multiplier; see `quantize_multipliers`."""
    mantissas, shifts = quantize_multipliers([real])
    return int(mantissas[0]), int(shifts[0])


def convolution_multipliers(given: Quantization, weighted: Quantization, made: Quantization, dtype: DType
                            ) -> tuple[Int32s, Int32s]:
    """The mantissas and the shifts of the sums of a convolution, for each scale of the filter: TFLite's
    `PopulateConvolutionQuantizationParams`. Of uint8 the product of the scales of image and filter is a float32."""
    if dtype is DType.UINT8:
        return quantize_multipliers([float(np.float32(given.scale) * np.float32(weighted.scale)) / made.scale])
    return quantize_multipliers(given.scale * np.array(weighted.scales, np.float64) / made.scale)


def rescaler(multiplier: Integers, shift: Integers) -> Callable[[npt.ArrayLike], Int32s]:
    """A function that multiplies int32 values, held as int32 or int64, by a quantised multiplier.

    `multiplier` and `shift` broadcast against the values. This is TFLite's `MultiplyByQuantizedMultiplier` with
    gemmlowp's double rounding: a left shift comes first and wraps like C's; then `SaturatingRoundingDoublingHighMul`, a
    doubled high half that rounds halves up; then `RoundingDivideByPOT`, a right shift that rounds halves away from
    zero.
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
        x = product(x, factor)
        if shrinks:
            x = (x + np.where(x < 0, half_below, half)) >> right
        return x.astype(np.int32)

    return rescale


def reduced_multipliers(multiplier: Integers, shift: Integers) -> tuple[Int64s, Int64s]:
    """Quantised multipliers for int64 sums: mantissas with 15 fraction bits, and the right shifts of the products.

    This is the first half of TFLite's `MultiplyByQuantizedMultiplier(int64_t, ...)`, which has shifts in [-31, 7]
    alone. Above 15, where a product would need a left shift, the multiplier is 0. A mantissa that would round to 2**15
    is 0x7FFF, the greatest int16.
    """
    mantissas, shifts = np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    factors = np.minimum((mantissas + (1 << 15)) >> 16, 0x7FFF)
    return np.where(shifts > 15, 0, factors), 15 - np.minimum(shifts, 15)


def rescaler_64(multiplier: Integers, shift: Integers) -> Callable[[npt.ArrayLike], Int32s]:
    """A function that multiplies int64 sums, below 2**47 in magnitude, by a quantised multiplier.

    TFLite's `MultiplyByQuantizedMultiplier(int64_t, ...)`: the mantissa is reduced (see `reduced_multipliers`) and
    halves round up. int16 activations use it. A sum of 48 bits times a mantissa of 16 fits into 64.
    """
    factor, total = reduced_multipliers(multiplier, shift)
    half = (1 << total) >> 1

    def rescale(values: npt.ArrayLike) -> Int32s:
        x: Int64s = (np.asarray(values, np.int64) * factor + half) >> total
        return x.astype(np.int32)

    return rescale


def product(a: npt.ArrayLike, b: npt.ArrayLike, width: int = 31) -> Int64s:
    """`a * b` of fractions with `width` fraction bits, halves rounded up: gemmlowp's
    `SaturatingRoundingDoublingHighMul` but for -1 * -1, which does not saturate."""
    result: Int64s = (np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << (width - 1))) >> width
    return result


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
    """The integer that stands for a real value, not clamped; infinity for infinity, and where float32 overflows."""
    if isinf(real) or quantization is None or not quantization.scales:
        return real
    with np.errstate(over="ignore"):
        nearest = float(round_half_away(np.float32(real) / np.float32(quantization.scale)))
    return quantization.zero_point + int(nearest) if isfinite(nearest) else nearest
