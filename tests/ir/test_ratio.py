"""Floats that follow from lengths: which fixed ones a type has exactly."""

from __future__ import annotations

import pytest

from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.ratio import Ratio, ratio_of
from circlet.runtime.ir.types import DType


@pytest.mark.parametrize("number", [1e9, -1e9, 2.0 ** 60, 0.0, 0.375, 3.0])
def test_what_float32_has_exactly_stays(number: float) -> None:
    found = ratio_of(number).within(DType.FLOAT32)
    assert found.numerator / found.denominator == number
    assert not found.is_rounded


def test_what_no_float_has_is_not_known() -> None:
    for dtype in (DType.FLOAT32, DType.FLOAT64):
        with pytest.raises(Unknown):
            (ratio_of(1e300) * ratio_of(1e300)).within(dtype)


@pytest.mark.parametrize("number", [1e9 + 1, 2.0 ** 24 + 1, -(2.0 ** 25) - 1])
def test_what_is_rounded_is_not_known(number: float) -> None:
    with pytest.raises(Unknown):
        ratio_of(number).within(DType.FLOAT32)
    assert ratio_of(number).within(DType.FLOAT64).numerator == number


def test_a_part_is_the_nearest_float() -> None:
    assert Ratio(1, 3).within(DType.FLOAT32).is_rounded
