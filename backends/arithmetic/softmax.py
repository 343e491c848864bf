"""Exponentials in fixed point, as softmax needs them."""

from __future__ import annotations

from functools import cache
from math import log

import numpy as np

from circlet.backends.arithmetic import fixed_point_functions as fixed
from circlet.backends.arithmetic.fixed_point import Int64s, quantize_multiplier, rescaler
from circlet.runtime.records import dataclass

SCALED_BITS = 5
"""Integer bits of differences before exponentiation: TFLite's `kScaledDiffIntegerBits`."""
SUM_BITS = 12
"""Integer bits of sums of exponentials: TFLite's `kAccumulationIntegerBits`."""


LOG_OF_TWO = round(log(2) * 2 ** (31 - SCALED_BITS))
"""In Q5."""


@dataclass(frozen=True, eq=False)
class Decay:
    """What becomes of 0 to 255 steps of a scale below the maximum of a row."""

    scaled: Int64s
    """The real differences in Q5; meaningless beyond `reach`."""
    exponentials: Int64s
    """Their exponentials in Q0; 0 beyond `reach`."""
    reach: int
    """The most steps that Q5 can hold, by the exponent of the scale alone."""
    multiplier: int
    shift: int
    """The quantised multiplier from steps to Q5."""

    @property
    def to_steps(self) -> tuple[int, int]:
        """The quantised multiplier from Q5 to steps, 1 at the most."""
        return quantize_multiplier(min((1 << (31 - self.shift)) / self.multiplier, 1.0))

    @staticmethod
    def of(scale: float) -> Decay:
        """The table for inputs of a scale, times beta: TFLite's `PreprocessSoftmaxScaling` and `CalculateInputRadius`,
        then gemmlowp's `exp_on_negative_values`."""
        multiplier, shift = quantize_multiplier(min(scale * 2.0 ** (31 - SCALED_BITS), 2.0**31 - 1))
        reach = int(((1 << SCALED_BITS) - 1) * 2.0 ** (31 - SCALED_BITS - shift))
        steps = np.arange(256)
        scaled = rescaler(multiplier, shift)(-np.minimum(steps, reach)).astype(np.int64)
        return Decay(scaled, np.where(steps <= reach, fixed.exp_of_negative(scaled, SCALED_BITS), 0), reach,
                     multiplier, shift)


def decay_of_16(scale: float, beta: float) -> float:
    """What int16 of a scale are multiplied by, so that 65535 of them span ten: TFLite's `SoftmaxPrepare`."""
    return float(np.float32(scale) * np.float32(beta)) / (10 / 65535)


@cache
def exponentials_16() -> Int64s:
    """exp with 15 bits of fraction at 513 points from -10 to 0; see `interpolate`."""
    one = np.float64(1)
    return fixed.interpolation_table(np.exp, -10 * one, 0 * one, 32768 * one)


@cache
def reciprocals_16() -> Int64s:
    """1 / (1 + x) with 15 bits of fraction at 513 points from 0 to 1; see `interpolate`."""
    one = np.float64(1)
    return fixed.interpolation_table(lambda x: 1 / (1 + x), 0 * one, one, 32768 * one)
