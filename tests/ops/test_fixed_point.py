"""Fixed-point rescaling against exact integer arithmetic written out one value at a time."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from circlet.backends.arithmetic.fixed_point import (
    float_range,
    quantize_multiplier,
    quantize_multipliers,
    quantized_range,
    refuse_activation,
    rescaler,
    rescaler_64,
    round_half_away,
    shift_right,
)
from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.types import Activation, DType
from tests.ops.cases import q

EXTREMES = [0, 1, -1, 2, -2, 3, 127, -128, 32767, -32768, 1 << 30, -(1 << 30), (1 << 31) - 1, -(1 << 31)]
REALS = [1.0, 0.5, 0.25, 0.7, 1 / 3, 1.7, 3.0, 100.0, 1e-3, 2.0**-31, 0.9999999999, -0.3]


def exactly(x: int, multiplier: int, shift: int) -> int:
    """The definition: truncating division for the high half, then a shift that rounds halves away from zero."""
    shifted = (x << max(shift, 0)) & 0xFFFFFFFF
    shifted -= (shifted >> 31) << 32
    product = shifted * multiplier
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    high = abs(nudged) // (1 << 31) * (1 if nudged >= 0 else -1)
    right = max(-shift, 0)
    remainder, threshold = high & ((1 << right) - 1), (((1 << right) - 1) >> 1) + (high < 0)
    return (high >> right) + (remainder > threshold)


@pytest.mark.parametrize(("real", "expected"), [
    (0.0, (0, 0)), (1.0, (1 << 30, 1)), (0.5, (1 << 30, 0)), (0.75, (3 << 29, 0)), (-0.5, (-(1 << 30), 0)),
    (2.0**-32, (1 << 30, -31)), (2.0**-33, (0, 0)), (1 - 2.0**-40, (1 << 30, 1)), (1e30, (1694065895, 100)),
])
def test_quantize_multiplier(real: float, expected: tuple[int, int]) -> None:
    assert quantize_multiplier(real) == expected


@pytest.mark.parametrize("real", REALS)
def test_multiply_is_exact(real: float) -> None:
    x = np.array(EXTREMES + list(range(-300, 300)), np.int64)
    multiplier, shift = quantize_multiplier(real)
    expected = [exactly(int(each), multiplier, shift) for each in x]
    for dtype in (np.int32, np.int64):
        found = rescaler(multiplier, shift)(x.astype(dtype))
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, expected)


def test_multiply_takes_one_multiplier_a_channel() -> None:
    multipliers, shifts = quantize_multipliers(REALS)
    x = np.arange(-20, 20)[:, None] * 977
    found = rescaler(multipliers, shifts)(x)
    for channel, real in enumerate(REALS):
        np.testing.assert_array_equal(found[:, channel], rescaler(*quantize_multiplier(real))(x[:, 0]))


@pytest.mark.parametrize("real", [each for each in REALS if each > 0])
def test_multiply_64(real: float) -> None:
    multiplier, shift = quantize_multiplier(real)
    x = np.array([0, 1, -1, 5, -5, 1 << 20, -(1 << 20), 123456789, -(1 << 30)], np.int64)
    reduced = 0x7FFF if multiplier >= 0x7FFF0000 else (multiplier + (1 << 15)) >> 16
    expected = [(int(each) * reduced + (1 << (14 - shift))) >> (15 - shift) for each in x]
    np.testing.assert_array_equal(rescaler_64(multiplier, shift)(x), np.array(expected, np.int64).astype(np.int32))


@pytest.mark.parametrize(("value", "expected"), [(0.5, 1), (-0.5, -1), (1.49, 1), (-2.5, -3), (0.0, 0),
                                                 (0.49999999999999994, 0), (2.0**53 + 2, 2**53 + 2)])
def test_round_half_away(value: float, expected: int) -> None:
    assert round_half_away(value) == expected


def test_round_half_away_keeps_the_type() -> None:
    values = np.nextafter(np.array([0.5, -0.5, 2.5, 8388607.5], np.float32), np.float32(0))
    rounded = round_half_away(values)
    assert rounded.dtype == np.float32
    assert rounded.tolist() == [0, 0, 2, 8388607]


@pytest.mark.parametrize("bits", [0, 1, 2, 7])
def test_shift_right(bits: int) -> None:
    x = np.arange(-300, 300)
    np.testing.assert_array_equal(shift_right(x, bits), round_half_away(x / 2**bits))
    np.testing.assert_array_equal(shift_right(x, np.full(x.shape, bits)), round_half_away(x / 2**bits))


@pytest.mark.parametrize("real", [inf, float("nan")])
def test_multipliers_are_finite(real: float) -> None:
    with pytest.raises(ExecutionError, match="expected finite numbers"):
        quantize_multiplier(real)


@pytest.mark.parametrize(("activation", "dtype", "expected"), [
    (Activation.NONE, DType.INT8, (-128, 127)), (Activation.RELU, DType.INT8, (-3, 127)),
    (Activation.RELU6, DType.INT8, (-3, 21)), (Activation.RELU_N1_TO_1, DType.INT8, (-7, 1)),
    (Activation.RELU6, DType.UINT8, (0, 21)), (Activation.RELU, DType.INT16, (-3, 32767)),
])
def test_quantized_range(activation: Activation, dtype: DType, expected: tuple[int, int]) -> None:
    assert quantized_range(activation, q(0.25, -3), dtype) == expected


def test_the_range_of_a_scale_that_float32_divides_nothing_by() -> None:
    assert quantized_range(Activation.RELU6, q(1e-38, -3), DType.INT8) == (-3, 127)


def test_ranges_of_real_values() -> None:
    assert quantized_range(Activation.RELU6, None, DType.INT32) == (0, 6)
    assert quantized_range(Activation.RELU, None, DType.INT64) == (0, (1 << 63) - 1)
    assert float_range(Activation.RELU_N1_TO_1) == (-1.0, 1.0)
    assert float_range(Activation.NONE) == (-inf, inf)


def test_only_clamps_are_fused_activations() -> None:
    assert refuse_activation(Activation.RELU6) is None
    assert "fused activation TANH" in str(refuse_activation(Activation.TANH))
