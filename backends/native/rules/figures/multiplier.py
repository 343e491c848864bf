"""Quantised multipliers as code, equal to the bit to the `rescaler` of the numpy backend.

That rounds twice: `y = floor((x m + 2**30) / 2**31)`, then `y / 2**s` with halves rounded away from zero. Both are one
shift: `floor((x m + 2**30 + 2**(30 + s) - (2**31 where y < 0)) / 2**(31 + s))`, for floors nest and the second
rounding differs between the signs by one unit of `y`.
"""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, I64, Emitter
from circlet.backends.native.rules.figures.figure import Figure
from circlet.runtime.records import dataclass

_SMALL_SHIFT = 29
"""The right shift up to which a number of at most 2 ** 30 and half a unit, 2 ** 28, add up in 32 bits."""
GREATEST_SHIFT = 31
"""A longer left shift leaves nothing of 32 bits."""
_FEWEST_BITS = 16
"""So many zeros at the end of a number of 31 bits let products of 32 bits do."""
_MULTIPLIER, _COUNT, _HALF, _HIGH, _LOW, _BELOW = range(6)
"""The numbers of a factor: the mantissa; by how much its products are shifted to the right, and half a unit then; the
mantissa in two parts, the lower one of `31 - bits`; the least number whose rounded product is not negative."""


@dataclass(frozen=True)
class _Way:
    """What code looks at of a multiplier."""

    shift: int | None
    """None to the right, by no more than `_SMALL_SHIFT`, or the shift."""
    is_lost: bool
    """Whether nothing is left of anything."""
    is_half: bool
    """Whether the mantissa is one half."""
    has_low: bool
    """Whether there is anything in its lower part."""
    bits: int
    """How many zeros there are at the end of what is multiplied."""
    is_small: bool
    """As for `factor`."""

    @property
    def is_short(self) -> bool:
        """Whether the shift is one of those for which 32 bits do."""
        return self.is_small and self.shift in (None, 0)


def factor(multiplier: int, shift: int, bits: int = 0, is_small: bool = False) -> Figure:
    """What `rescaled` multiplies by.

    Args:
        multiplier: the mantissa.
        shift: by how much.
        bits: what is multiplied is shifted to the left by so many before.
        is_small: whether it is at most 2**30 in magnitude then: 32 bits do for the second rounding, and no arithmetic
            shift of 64 bits is needed, which some processors lack; the count of bits may then be another one in each
            operator, as vectors of such counts are as fast as known ones.
    """
    low, count = multiplier & ((1 << 31 - bits) - 1), max(-shift, 0)
    is_counted = is_small and 0 < count <= _SMALL_SHIFT
    is_lost = multiplier == 0 or shift > GREATEST_SHIFT
    way = _Way(None if is_counted else shift, is_lost, multiplier == 1 << 30, low != 0, bits, is_small)
    below = -((1 << 30) // multiplier) if multiplier else -(1 << 31)
    return Figure((multiplier, count, (1 << count) >> 1, multiplier >> 31 - bits, low, below), way)


def rescaled(e: Emitter, value: ir.Value, by: Figure) -> ir.Value:
    """An i32, or an i64 that is not much larger, times a factor, as an i32: TFLite's `MultiplyByQuantizedMultiplier`; a
    left shift comes first and wraps. From 16 bits on products of 32 bits do: `floor((x 2**b m + 2**30) / 2**31)` is
    `x h + floor((x l + 2**(30 - b)) / 2**w)` for w = 31 - b, m = h 2**w + l, and |x l| is less than 2**(61 - 2 b)."""
    b, way = e.builder, _way(by)
    if way.is_lost:
        return ir.Constant(I32, 0)
    if way.bits >= _FEWEST_BITS and way.is_short:
        return _halved(e, _short_product(e, value, by), by)
    if way.bits:
        value = b.shl(value, ir.Constant(I32, way.bits))
    if way.is_short:
        return _halved(e, _high_half(e, value, by), by)
    return _rescaled_at_once(e, value, by, way.shift or 0)


def rescale(e: Emitter, value: ir.Value, multiplier: int, shift: int, is_small: bool = False) -> ir.Value:
    """`rescaled` by a multiplier that is known; `is_small` is as for `factor`."""
    return rescaled(e, value, factor(multiplier, shift, is_small=is_small))


def _way(by: Figure) -> _Way:
    """What code looks at of a factor."""
    assert isinstance(by.looks, _Way), "it is a factor"
    return by.looks


def _rescaled_at_once(e: Emitter, value: ir.Value, by: Figure, shift: int) -> ir.Value:
    """By both shifts at once, given the second one."""
    b = e.builder
    if shift > 0:
        value = b.shl(b.trunc(value, I32) if value.type.width > 32 else value, ir.Constant(I32, shift))
    nearest = b.add(_wide_product(e, value, by), e.wide(1 << 30))
    if shift >= 0:
        return b.trunc(b.ashr(nearest, e.wide(31)), I32)
    half = 1 << (30 - shift)
    is_below = b.icmp_signed("<", value, by.number(e, _BELOW, value.type))
    rounding = b.select(is_below, e.wide(half - (1 << 31)), e.wide(half))
    return b.trunc(b.ashr(b.add(nearest, rounding), e.wide(31 - shift)), I32)


def _wide_product(e: Emitter, value: ir.Value, by: Figure) -> ir.Value:
    """A number times the mantissa, an i64. What is loaded is widened here, so that it is seen to have 32 bits."""
    b, multiplier = e.builder, by.number(e, _MULTIPLIER)
    wide = e.wide(multiplier.constant) if isinstance(multiplier, ir.Constant) else b.sext(multiplier, I64)
    return b.mul(b.sext(value, I64) if value.type.width < 64 else value, wide)


def _short_product(e: Emitter, value: ir.Value, by: Figure) -> ir.Value:
    """`floor((x 2**b m + 2**30) / 2**31)` by products of 32 bits."""
    b, way = e.builder, _way(by)
    width = 31 - way.bits
    high = ir.Constant(I32, 1 << 30 - width) if way.is_half else by.number(e, _HIGH)
    nearest = b.mul(value, high)
    if not way.has_low:
        return nearest
    rest = b.add(b.mul(value, by.number(e, _LOW)), ir.Constant(I32, 1 << (width - 1)))
    return b.add(nearest, b.ashr(rest, ir.Constant(I32, width)))


def _high_half(e: Emitter, value: ir.Value, by: Figure) -> ir.Value:
    """`floor((x m + 2**30) / 2**31)` of a number of at most 2**30 in magnitude, as an i32."""
    b = e.builder
    if _way(by).is_half and value.type.width == I32.width:
        return b.ashr(b.add(value, ir.Constant(I32, 1)), ir.Constant(I32, 1))
    return b.trunc(b.lshr(b.add(_wide_product(e, value, by), e.wide(1 << 30)), e.wide(31)), I32)


def _halved(e: Emitter, value: ir.Value, by: Figure) -> ir.Value:
    """An i32 of at most 2**30 in magnitude halved as often as a factor says, then rounded, halves away from zero."""
    b = e.builder
    if _way(by).shift == 0:
        return value
    rounded = b.add(b.add(value, by.number(e, _HALF)), b.ashr(value, ir.Constant(I32, 31)))
    return b.ashr(rounded, by.number(e, _COUNT))
