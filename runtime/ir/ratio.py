"""Floats that follow from lengths without rounding, as exporters write them between a length and a length: numbers of
steps, scaled sizes."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from circlet.runtime.ir.length import Length, divisor, is_length, larger
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT = {DType.FLOAT32: 1 << 24, DType.FLOAT64: 1 << 53}
"""Up to which integer a type of floats has each."""
MOST_OF_FEW = 64
"""Lengths that are too few to be told apart from others: up to which a type of floats has what follows from them. A
choice."""
Number: TypeAlias = "Ratio | Length | int | float"


@dataclass(frozen=True, eq=False)
class Ratio:
    """An integer, which may be a `Length`, divided by a positive one that is fixed."""

    numerator: int
    denominator: int = 1
    is_rounded: bool = False
    """Whether the float is the nearest one, of which the integers around it are known alone: what is not one itself is
    further from them than rounding reaches, as the type has the numerator exactly."""

    def _with(self, other: Number, combine: Callable[[Ratio, Ratio], Ratio]) -> Ratio:
        right = ratio_of(other)
        if self.is_rounded or right.is_rounded:
            raise Unknown
        return combine(self, right)

    def __add__(self, other: Number) -> Ratio:
        return self._with(other, lambda a, b: Ratio(a.numerator * b.denominator + b.numerator * a.denominator,
                                                    a.denominator * b.denominator))

    __radd__ = __add__

    def __neg__(self) -> Ratio:
        return Ratio(-self.numerator, self.denominator, self.is_rounded)

    def __sub__(self, other: Number) -> Ratio:
        return self + -ratio_of(other)

    def __rsub__(self, other: Number) -> Ratio:
        return -self + other

    def __mul__(self, other: Number) -> Ratio:
        return self._with(other, lambda a, b: Ratio(a.numerator * b.numerator, a.denominator * b.denominator))

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> Ratio:
        """Raises Unknown unless the divisor is fixed, and not 0."""
        right = ratio_of(other)
        if is_length(right.numerator) or right.numerator == 0:
            raise Unknown
        sign = 1 if right.numerator > 0 else -1
        return self * Ratio(sign * right.denominator, sign * right.numerator)

    def maximum(self, other: Number) -> Ratio:
        """The larger one."""
        return self._with(other, lambda a, b: Ratio(larger(a.numerator * b.denominator, b.numerator * a.denominator),
                                                    a.denominator * b.denominator))

    def minimum(self, other: Number) -> Ratio:
        """The smaller one."""
        return -(-self).maximum(-ratio_of(other))

    def floor(self) -> Ratio:
        return Ratio(self.numerator // self.denominator)

    def ceil(self) -> Ratio:
        return Ratio(-(-self.numerator // self.denominator))

    def truncated(self) -> int:
        """Rounded towards zero; whether it is negative is assumed for the lengths at hand."""
        found = self.ceil() if self.numerator < 0 else self.floor()
        return found.numerator

    def _is_of(self, dtype: DType) -> bool:
        """Whether a type of floats has a fixed number exactly."""
        try:
            with np.errstate(over="ignore"):
                found = float(dtype.numpy.type(self.numerator / self.denominator))
        except OverflowError:  # of the division
            return False
        return isfinite(found) and Ratio(*found.as_integer_ratio())._equals(self)

    def _equals(self, other: Ratio) -> bool:
        return self.numerator * other.denominator == other.numerator * self.denominator

    def within(self, dtype: DType) -> Ratio:
        """It as a value of a type of floats, which is assumed to have it, or what it is rounded to.

        Raises:
            Unknown: only a run can tell.
        """
        most = EXACT[dtype]
        if not is_length(self.numerator) and not self.is_rounded and self._is_of(dtype):
            return self
        if is_length(self.numerator) and divisor(self.numerator) > most // MOST_OF_FEW:
            raise Unknown
        common = self.denominator & (self.denominator - 1)
        if not -most <= self.numerator <= most or self.denominator > most:
            raise Unknown
        return Ratio(self.numerator, self.denominator, is_rounded=self.is_rounded or common != 0)


def ratio_of(number: Number) -> Ratio:
    """A number as a ratio.

    Raises:
        Unknown: it is NaN or infinite.
    """
    if isinstance(number, Ratio):
        return number
    if not isinstance(number, float):
        return Ratio(number)  # type: ignore[arg-type]  # a `Length` stands for an int
    if not isfinite(number):
        raise Unknown
    return Ratio(*number.as_integer_ratio())
