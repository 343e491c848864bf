"""Numbers as sums of two floats, of some 48 digits, where there are no instructions for doubles.

Sums and products are those of Dekker (A Floating-Point Technique for Extending the Available Precision, 1971) and Knuth
(The Art of Computer Programming, 4.2.2). Numbers are finite, and neither they nor what is computed of them overflows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.backends.native.emit.lanes import Lanes
from circlet.runtime.records import dataclass

_SPLITTER = 4097.0
"""2 ** 12 + 1, which halves a float by Veltkamp's method."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A number and what rounding took off it."""

    high: Lanes
    low: Lanes

    @classmethod
    def of(cls, x: Lanes) -> Pair:
        """A float."""
        return cls(x, x.constant(0.0))

    @classmethod
    def sum(cls, x: Lanes, y: Lanes) -> Pair:
        """Of two floats, exactly."""
        total = x + y
        part = total - x
        return cls(total, (x - (total - part)) + (y - part))

    @classmethod
    def product(cls, x: Lanes, y: Lanes) -> Pair:
        """Of two floats, exactly."""
        total = x * y
        if x.e.target.has_instruction("fma", 32):
            return cls(total, Lanes(x.e, x.e.intrinsic("fma", x.value, y.value, (-total).value)))
        (one, rest), (other, more) = _halves(x), _halves(y)
        return cls(total, ((one * other - total) + one * more + rest * other) + rest * more)

    def _constant(self, number: float) -> Pair:
        high = float(np.float32(number))
        return Pair(self.high.constant(high), self.high.constant(number - high))

    def __add__(self, other: Pair | float) -> Pair:
        other = other if isinstance(other, Pair) else self._constant(other)
        total = Pair.sum(self.high, other.high)
        return _normal(total.high, total.low + (self.low + other.low))

    def __mul__(self, other: Pair | float) -> Pair:
        other = other if isinstance(other, Pair) else self._constant(other)
        total = Pair.product(self.high, other.high)
        return _normal(total.high, total.low + (self.high * other.low + self.low * other.high))

    def polynomial(self, coefficients: Sequence[float], exact: int) -> Pair:
        """The polynomial whose coefficients are given from that of the lowest power on, as many of them as are said to
        be `exact` as pairs, the others as floats."""
        found = Pair.of(self.high.polynomial(coefficients[exact:]))
        for each in reversed(coefficients[:exact]):
            found = found * self + each
        return found


def _halves(x: Lanes) -> tuple[Lanes, Lanes]:
    """A float as a sum of two of 12 digits."""
    scaled = x * _SPLITTER
    high = scaled - (scaled - x)
    return high, x - high


def _normal(high: Lanes, low: Lanes) -> Pair:
    """A sum of which the second part is smaller."""
    total = high + low
    return Pair(total, low - (total - high))
