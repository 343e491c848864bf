"""Functions of fixed-point numbers, equal to the bit to gemmlowp's, which LiteRT's reference kernels use.

A number is an integer, held as int64, of a format Qm: an int32 with m integer bits and 31 - m fraction bits or, with
`width=15`, an int16 with m integer bits and 15 - m fraction bits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.backends.arithmetic.fixed_point import Floats, Int64s, product, round_half_away, shift_right

if TYPE_CHECKING:
    import numpy.typing as npt

_ONE_THIRD = 715827883
"""1 / 3 in Q0; gemmlowp's `constant_1_over_3`."""
_48_OVER_17 = 1515870810
"""48 / 17 in Q2: with -32 / 17, the line that is nearest to 1 / x on [1/2, 1] (Newton-Raphson division)."""
_32_OVER_17 = 1010580540
"""32 / 17 in Q2."""


def constant(value: float, width: int = 31) -> int:
    """`floor(value * 2 ** 31 + 1 / 2)`, a number below 1 in magnitude in Q0; a narrow one (`width=15`) is rounded from
    the wide one, as gemmlowp's `RescaleConstantInitializer` does."""
    return narrowed(int(np.floor(value * 2.0**31 + 0.5)), width)


def narrowed(raw: int, width: int) -> int:
    """An int32 constant in the same format of the given width."""
    return raw if width == 31 else (raw + (1 << 15)) >> 16


def shift_left(x: npt.ArrayLike, bits: npt.ArrayLike, width: int = 31) -> Int64s:
    """`x * 2 ** bits`, saturated: gemmlowp's `SaturatingRoundingMultiplyByPOT` of a positive exponent."""
    return saturated(np.asarray(x, np.int64) << np.asarray(bits, np.int64), width)


def saturated(x: npt.ArrayLike, width: int = 31) -> Int64s:
    """The nearest number that the format holds."""
    return np.clip(np.asarray(x, np.int64), -(1 << width), (1 << width) - 1)


def bit_length(x: npt.ArrayLike) -> Int64s:
    """How many bits numbers that are not negative have."""
    return np.frexp(np.asarray(x, np.float64))[1].astype(np.int64)


def leading_zeros(x: npt.ArrayLike) -> Int64s:
    """How many leading zero bits int32 values that are not negative have."""
    return 32 - bit_length(x)


def exp_of_negative(x: npt.ArrayLike, integer_bits: int, width: int = 31) -> Int64s:
    """exp of numbers in Qm that are not positive, in Q0: gemmlowp's `exp_on_negative_values`.

    A Taylor series of degree 4 around -1/8 covers (-1/4, 0]; each bit of the rest multiplies by a power of e.
    """
    values = np.asarray(x, np.int64)
    fraction_bits = width - integer_bits
    quarter = 1 << (fraction_bits - 2)
    part = (values & (quarter - 1)) - quarter
    rest = part - values
    t = (part << integer_bits) + (1 << (width - 3))
    t2 = product(t, t, width)
    t3, t4 = product(t2, t, width), product(t2, t2, width)
    series = shift_right(product(shift_right(t4, 2) + t3, narrowed(_ONE_THIRD, width), width) + t2, 1)
    middle = constant(exp(-1 / 8), width)
    result = saturated(middle + product(middle, t + series, width), width)
    for exponent in range(-2, min(integer_bits, 5)):
        factor = constant(exp(-(2.0**exponent)), width)
        result = np.where(rest & (1 << (fraction_bits + exponent)), product(result, factor, width), result)
    if integer_bits > 5:
        result = np.where(values < -(1 << (fraction_bits + 5)), 0, result)
    return np.where(values == 0, (1 << width) - 1, result)


def _reciprocal_of_half_sum(x: npt.ArrayLike, width: int) -> Int64s:
    """2 / (1 + x) of numbers in Q0 from 0 to 1, in Q2, by three steps of Newton's method, as in gemmlowp's
    `one_over_one_plus_x_for_x_in_0_1` and `one_minus_x_over_one_plus_x_for_x_in_0_1`."""
    half_sum = (np.asarray(x, np.int64) + (1 << width)) >> 1
    result = narrowed(_48_OVER_17, width) + product(half_sum, narrowed(-_32_OVER_17, width), width)
    for _ in range(3):
        error = (1 << (width - 2)) - product(half_sum, result, width)
        result = result + shift_left(product(result, error, width), 2, width)
    return result


def reciprocal_of_one_plus(x: npt.ArrayLike, width: int = 31) -> Int64s:
    """1 / (1 + x) of numbers in Q0 from 0 to 1, in Q0: gemmlowp's `one_over_one_plus_x_for_x_in_0_1`."""
    return shift_left(_reciprocal_of_half_sum(x, width), 1, width)


def logistic(x: npt.ArrayLike, integer_bits: int, width: int = 31) -> Int64s:
    """1 / (1 + exp(-x)) of numbers in Qm, in Q0: gemmlowp's `logistic`."""
    values = np.asarray(x, np.int64)
    positive = reciprocal_of_one_plus(exp_of_negative(-np.abs(values), integer_bits, width), width)
    result = np.where(values > 0, positive, (1 << width) - 1 - positive)
    return np.where(values == 0, 1 << (width - 1), result)


def tanh(x: npt.ArrayLike, integer_bits: int, width: int = 31) -> Int64s:
    """tanh of numbers in Qm, in Q0: gemmlowp's `tanh`, (1 - exp(-2 |x|)) / (1 + exp(-2 |x|)) with the sign of x."""
    values = np.asarray(x, np.int64)
    decayed = exp_of_negative(-np.abs(values), integer_bits + 1, width)
    magnitude = shift_left(_reciprocal_of_half_sum(decayed, width) - (1 << (width - 2)), 2, width)
    return np.where(values == 0, 0, np.where(values < 0, -magnitude, magnitude))


LN_2 = constant(log(2))
"""log(2) in Q0, what each doubling adds to a logarithm."""
ROOT_HALF = constant(sqrt(0.5))
"""sqrt(1 / 2) in Q0."""
FOURTH_ROOT_HALF = constant(0.5**0.25)
"""(1 / 2) ** (1 / 4) in Q0, the geometric middle of [sqrt(1 / 2), 1]."""
LOG_NUMERATOR, LOG_SQUARE, LOG_CONSTANT, LOG_LINEAR = 117049297, 127690142, 1057819769, 638450708
"""The coefficients of TFLite's rational approximation of the logarithm, in Q0. With s = 2 ** (1 / 4) they are 11 s /
240, s / 20, 2 / s - s and s / 4 (`alpha_n`, `alpha_d`, `alpha_i` and `alpha_f` there)."""


def log_of_at_least_one(x: npt.ArrayLike, integer_bits: int, result_bits: int) -> Int64s:
    """log of numbers of at least 1 in Qm, in Q(`result_bits`): TFLite's `log_x_for_x_greater_than_or_equal_to_1`.

    x is 2**k times a number near the fourth root of 1/2, whose logarithm is a rational function.
    """
    values = np.asarray(x, np.int64)
    bits = result_bits + 1
    quarter = 1 << (29 - bits)
    zeros = leading_zeros(values)
    reduced = shift_left(product(shift_left(values, zeros - 1), ROOT_HALF), 1)
    power = saturated(((integer_bits - zeros) << (31 - bits)) + quarter)
    zeros = leading_zeros(product(values, ROOT_HALF)) - 1
    reduced = np.minimum(reduced, shift_left(values, zeros))
    power = np.maximum(power, saturated(((integer_bits - zeros) << (31 - bits)) - quarter))
    mean = (reduced + FOURTH_ROOT_HALF + 1) >> 1
    difference = 2 * (reduced - FOURTH_ROOT_HALF)
    square = product(difference, difference)
    numerator = product(difference, reduced) + product(product(difference, square), LOG_NUMERATOR)
    denominator = product(mean, LOG_CONSTANT + difference + product(LOG_SQUARE, square))
    scaled = product(shift_right(numerator, bits),
                     reciprocal_of_one_plus(denominator + product(LOG_LINEAR, difference)))
    return shift_left(product(power, LN_2) + scaled, bits - result_bits)


def inverse_square_root(x: npt.ArrayLike) -> tuple[Int64s, Int64s]:
    """`(mantissa, shift)` with `1 / sqrt(x) = mantissa * 2 ** (-31 - shift)` of int32 values; 1 for values below 1.

    TFLite's `GetInvSqrtQuantizedMultiplierExp`: five steps of Newton's method on x scaled by a power of 4.
    """
    given = np.asarray(x, np.int64)
    values, shift = np.maximum(given, 2), np.full(given.shape, 11, np.int64)
    large = values >= 1 << 29
    values, shift = np.where(large, values // 4, values), shift + large
    pairs = (leading_zeros(values) - 1) // 2 - 1
    values, shift = (values << (2 * pairs)) >> 1, shift - pairs
    half = shift_right(values, 1)
    root = np.full(given.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = shift_left(product(product(root, root), root), 6)
        root = shift_left(product(3 << 27, root) - product(half, cube), 3)
    mantissa = product(root, ROOT_HALF) << np.maximum(-shift, 0)
    return np.where(given <= 1, (1 << 31) - 1, mantissa), np.where(given <= 1, 0, np.maximum(shift, 0))


def interpolation_table(function: Callable[[Floats], Floats], low: np.floating[Any], high: np.floating[Any],
                        scale: np.floating[Any]) -> Int64s:
    """`scale` times a function at 513 points from `low` to `high`, as int16: TFLite's `LUTPopulate` (earlier
    `gen_lut`).

    Half of the error that interpolation makes in the middle between two points is taken off the first one, unless that
    is more than int16 spans (LiteRT then takes it off too: the exponential of 40 becomes -32768). Everything is
    computed in the type of the arguments.
    """
    step = (high - low) / 512
    points = low + np.arange(512, dtype=low.dtype) * step
    samples = round_half_away(function(points) * scale)
    middle = round_half_away(function(points + step / 2) * scale)
    following = function(low + np.arange(1, 513, dtype=low.dtype) * step) * scale
    error = round_half_away((round_half_away((following + samples) / 2) - middle) / 2)
    last = round_half_away(function(np.array([high])) * scale)
    corrected = np.where(np.abs(error) < 1 << 16, samples - error, samples)
    return np.concatenate([corrected, last]).clip(-32768, 32767).astype(np.int64)


def interpolate(table: Int64s, x: Int64s) -> Int64s:
    """The function that `interpolation_table` made a table of, at places in its interval given as int16 values:
    TFLite's `LUTLookup`, with 9 bits for the entry and 7 for the place between it and the next one, halves rounded
    up."""
    index, offset = 256 + (x >> 7), x & 127
    result: Int64s = table[index] + (((table[index + 1] - table[index]) * offset + 64) >> 7)
    return result
