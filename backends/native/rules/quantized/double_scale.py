"""Sums times doubles, rounded to integers, where a processor has no instructions for doubles.

The numpy backend computes the product in double precision, which rounds it to 53 bits, and then to an integer, halves
away from zero. Here an integer of 63 bits is multiplied by the magnitude of the sum exactly, in two parts. It is the
double's mantissa, or half a unit more if some product is less than a half until it is rounded to 53 bits; that all
sums give the same is checked when the code is made.
"""

from __future__ import annotations

from fractions import Fraction
from math import frexp, ldexp

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, I64, Emitter
from circlet.backends.native.rules.function import Function
from circlet.runtime.records import dataclass

_BITS, _MORE = 63, 10
"""Of a factor, and how many of them a double does not have."""
_SHIFTS = range(1, 64)
"""By how much products can be shifted to the right, after 32 bits."""
_NEAR = 2.0**-50
"""How near to half a product is, relatively, where rounding it to 53 bits may matter."""

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factors:
    """Doubles as integers of `_BITS`.

    Attributes:
        memory: where they lie.
        shift: by how much 32 bits of a product less are shifted to the right.
        most: the magnitude of a result beyond which it is clamped.
    """

    memory: ir.Value
    shift: int
    most: int

    @classmethod
    def of(cls, function: Function, scales: Doubles, bits: int) -> Factors | None:
        """Those of positive scales, (n,), for results of so many bits, whatever their zero point and interval are; None
        where they differ too much to have one shift, or where integers would give another result."""
        greatest = 2 << bits
        exponents = np.frexp(scales)[1]
        most = int(exponents.max())
        shift = _BITS - 32 - most
        known = {each: factor_of(each, greatest) for each in np.unique(scales).tolist()}
        factors = [known[each] for each in scales.tolist()]
        drops = [most - each for each in exponents.tolist()]
        whole = [each >> drop for each, drop in zip(factors, drops, strict=True)
                 if each is not None and not each % (1 << drop)]
        if shift not in _SHIFTS or len(whole) < len(scales):
            return None
        return cls(function.external(np.array(whole, np.uint64)), shift, greatest)

    def scaled(self, e: Emitter, value: ir.Value, column: ir.Value) -> ir.Value:
        """The nearest integer to an i32 times a factor, or one beyond `most`; as an i32."""
        b = e.builder
        place = e.address(self.memory, I64, column)
        low, high = (b.zext(b.load(e.address(place, I32, k), typ=I32), I64) for k in range(2))
        is_negative = b.icmp_signed("<", value, ir.Constant(I32, 0))
        magnitude = b.zext(b.select(is_negative, b.neg(value), value), I64)
        product = b.add(b.mul(magnitude, high), b.lshr(b.mul(magnitude, low), e.wide(32)))
        rounded = b.lshr(b.add(product, e.wide(1 << (self.shift - 1))), e.wide(self.shift))
        result = b.trunc(e.intrinsic("umin", rounded, e.wide(self.most)), I32)
        return b.select(is_negative, b.neg(result), result)


def factor_of(scale: float, most: int) -> int | None:
    """The integer for a scale, in units of its exponent less `_BITS`, for results of a magnitude up to `most`; None if
    there is none."""
    mantissa, exponent = frexp(scale)
    least = int(ldexp(mantissa, _BITS - _MORE)) << _MORE
    if least <= 0:
        return None
    unit = Fraction(2) ** (exponent - _BITS)
    return next((each for each in (least, least + (1 << _MORE - 1)) if _agrees(scale, each * unit, most)), None)


def _agrees(scale: float, factor: Fraction, most: int) -> bool:
    """Whether all integers of 31 bits times a scale, rounded to double precision, are at least a half if they are times
    a factor that is nearly the same."""
    halves = np.arange(most) + 0.5
    for further in (-1, 0, 1):
        numbers = np.rint(halves / scale) + further
        products = numbers * scale
        for k in np.flatnonzero((np.abs(products - halves) <= halves * _NEAR) & (numbers < 1 << 31)):
            if (Fraction(int(numbers[k])) * factor >= Fraction(float(halves[k]))) != bool(products[k] >= halves[k]):
                return False
    return True
