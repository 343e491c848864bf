"""Functions of angles, and angles of their values, as `math` has elementary functions."""

from __future__ import annotations

import math
from functools import partial

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, I64
from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Lanes, single
from circlet.backends.native.emit.math import fit, power_of_two
from circlet.backends.native.emit.pairs import Pair

_FIRST_EXPONENT = 100
"""The biased exponent below which x is the sine of x, and 1 its cosine: 2 ** -27, where x ** 3 / 6 is 1e-17 of x. The
doublings from it on, 154 for the greatest number, must stay below 192, for which the five words of `_TURNS` are
made."""


_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B724
"""2 / pi as a binary fraction of 272 bits, of which `_TURNS` takes 268."""


def _signed_words(number: int, count: int) -> list[int]:
    """An integer as signed 64-bit words, the highest first."""
    words = [number >> 64 * k & (1 << 64) - 1 for k in reversed(range(count))]
    return [each - (each >> 63 << 64) for each in words]


_TURNS = _signed_words(_TWO_OVER_PI >> 272 - (62 + _FIRST_EXPONENT - 150 + 4 * 64), 5)
"""The quarter turns that the last bit of a significand with the first exponent is worth, two bits before the point."""
_SIN = partial(fit, lambda square: math.sin(math.sqrt(square)) / math.sqrt(square), 0.0, (math.pi / 4)**2, 5)
"""sin(r) / r as a function of r * r, for r up to pi / 4: our own interpolation, to 6e-15 relative."""
_COS = partial(fit, lambda square: math.cos(math.sqrt(square)), 0.0, (math.pi / 4)**2, 5)
"""cos(r) as a function of r * r, for r up to pi / 4: our own interpolation, to 8e-14 relative."""


def _turned(x: Lanes) -> tuple[Lanes, Lanes]:
    """(k, r) such that |x| is k quarter turns and r, of at most half of one in units of 2 ** -64; k counts modulo 4 in
    its low bits. Of small numbers k is 0.

    The product of the significand, an integer, with a fraction of 2 / pi loses nothing that matters (Payne and Hanek).
    """
    pattern = x.unary("fabs").bits()
    exponent = pattern >> 23
    significand = ((pattern & 0x7FFFFF) | 0x800000).widen(I64)
    doublings = (exponent - _FIRST_EXPONENT).widen(I64)
    first, second, third = (
        (doublings < 64).where(doublings.constant(_TURNS[k]),
                               (doublings < 128).where(doublings.constant(_TURNS[k + 1]), _TURNS[k + 2]))
        for k in range(3)
    )
    high, low = first.funnel(second, doublings), second.funnel(third, doublings)
    turns = significand * high + (significand * low.shift_right(32)).shift_right(32)
    quarter = (turns + (1 << 61)).shift_right(62)
    return quarter.unless(exponent < _FIRST_EXPONENT, 0), turns << 2


def _rest(x: Lanes, part: Lanes) -> Lanes:
    """What `part` of a quarter turn in units of 2 ** -64 is as an angle, a double; NaN where x is not finite."""
    exponent = x.unary("fabs").bits() >> 23
    rest = part.to_real(DOUBLE) * (math.pi / 2 / 2.0**64)
    return rest.unless(exponent < _FIRST_EXPONENT, x.unary("fabs").widen(DOUBLE)).unless(exponent.equals(255), math.nan)


def _sine_of_quarters(x: Lanes, quarter: Lanes, part: Lanes) -> Lanes:
    """The sine of `quarter` quarter turns, which count modulo 4, and of `part` of one in units of 2 ** -64, as
    `_turned` gives them for |x|; as float32."""
    if x.e.target.has_doubles:
        return _sine_of_turned(quarter, _rest(x, part)).narrow(SINGLE)
    exponent = x.unary("fabs").bits() >> 23
    is_small = exponent < _FIRST_EXPONENT
    pair = _fraction(part) * (math.pi / 2)
    high = pair.high.unless(is_small, x.unary("fabs")).unless(exponent.equals(255), math.nan)
    return _sine_of_pair(quarter, Pair(high, pair.low.unless(is_small, 0.0)))


def _fraction(part: Lanes) -> Pair:
    """An i64 in units of 2 ** -64: its first 48 digits."""
    is_negative = part < 0
    magnitude = is_negative.where(part * -1, part)
    zeros = Lanes(part.e, part.e.builder.ctlz(magnitude.value, ir.Constant(ir.IntType(1), 0))).at_most(63)
    digits = Lanes(part.e, part.e.builder.shl(magnitude.value, zeros.value))
    scale = power_of_two(zeros.narrow(I32) * -1 - 24, SINGLE)
    high, low = (digits.shift_right(each).narrow(I32) & 0xFFFFFF for each in (40, 16))
    negated = is_negative.where(-scale, scale)
    return Pair(high.to_real(SINGLE) * negated, low.to_real(SINGLE) * (negated * 2.0**-24))


def _sine_of_pair(quarter: Lanes, rest: Pair) -> Lanes:
    """As `_sine_of_turned`, to 1.3 ULP."""
    x, square = rest.high, rest.high * rest.high
    sine = x + (rest.low + x * (square * square.polynomial(_SIN()[1:])))
    less = rest.high * rest.low * 2.0 + square
    cosine = less * less.polynomial(_COS()[1:]) + 1.0
    found = (quarter & 1).equals(0).where(sine, cosine)
    return (quarter & 2).equals(0).where(found, -found)


def _sine_of_turned(quarter: Lanes, rest: Lanes) -> Lanes:
    """The sine of `quarter` quarter turns, an i64 that counts modulo 4, and `rest`, a double of at most pi / 4."""
    square = rest * rest
    sine, cosine = rest * square.polynomial(_SIN()), square.polynomial(_COS())
    found = (quarter & 1).equals(0).where(sine, cosine)
    return (quarter & 2).equals(0).where(found, -found)


@single
def sin(x: Lanes) -> Lanes:
    """Correctly rounded but for fewer than 900 of all arguments, however great: the argument in quarter turns
    (`_turned`), then a polynomial in double precision. Where there are no instructions for that, to 1.3 ULP."""
    found = _sine_of_quarters(x, *_turned(x))
    return (x < 0.0).where(-found, found.unless(x.equals(0.0), x))


@single
def cos(x: Lanes) -> Lanes:
    """Correctly rounded but for fewer than 900 of all arguments, however great; or to 1.3 ULP, as `sin`."""
    quarter, part = _turned(x)
    return _sine_of_quarters(x, quarter + 1, part)


@single
def tan(x: Lanes) -> Lanes:
    """The sine over the cosine, to 0.501 ULP, or 3.2 in single precision."""
    quarter, part = _turned(x)
    if x.e.target.has_doubles:
        rest = _rest(x, part)
        found = (_sine_of_turned(quarter, rest) / _sine_of_turned(quarter + 1, rest)).narrow(SINGLE)
    else:
        found = _sine_of_quarters(x, quarter, part) / _sine_of_quarters(x, quarter + 1, part)
    return (x < 0.0).where(-found, found.unless(x.equals(0.0), x))


_ATAN = partial(fit, lambda square: math.atan(math.sqrt(square)) / math.sqrt(square), 0.0, 1.0, 12)
"""atan(r) / r as a function of r * r, for r up to 1: our own interpolation, to 1.2e-11 relative."""


def _angle(y: Lanes, x: Lanes) -> Lanes:
    """The angle of the point (x, |y|), in [0, pi], of floats or doubles as wide as it is computed: atan of the smaller
    coordinate over the larger one, then taken to its octant."""
    a, b = y.unary("fabs"), x.unary("fabs")
    is_steep = a > b
    low, high = is_steep.where(b, a), is_steep.where(a, b)
    ratio = (low / high).unless(low.equals(high), 1.0).unless((low + high).equals(0.0), 0.0)
    angle = ratio * (ratio * ratio).polynomial(_ATAN())
    angle = angle.unless(is_steep, -angle + math.pi / 2)
    return angle.unless(x.bits() < 0, -angle + math.pi)


def _wide(x: Lanes) -> Lanes:
    """As doubles, where there are instructions for these."""
    return x.widen(DOUBLE) if x.e.target.has_doubles else x


def _narrow(x: Lanes) -> Lanes:
    """As floats."""
    return x if x.element is SINGLE else x.narrow(SINGLE)


@single
def atan2(y: Lanes, x: Lanes) -> Lanes:
    """The angle of the point (x, y), in [-pi, pi], to 0.501 ULP; where there are no instructions for doubles, in single
    precision, to 2.5 ULP."""
    return _narrow(_angle(_wide(y), _wide(x))).sign_of(y)


@single
def atan(x: Lanes) -> Lanes:
    """The angle of the point (1, x), in [-pi / 2, pi / 2], as `atan2`."""
    wide = _wide(x)
    return _narrow(_angle(wide, wide.constant(1.0))).sign_of(x)


def _other_side(x: Lanes) -> Lanes:
    """sqrt(1 - x * x): NaN beyond 1."""
    return ((-x + 1.0) * (x + 1.0)).unary("sqrt")


@single
def asin(x: Lanes) -> Lanes:
    """The angle whose sine is x, in [-pi / 2, pi / 2], to 0.501 ULP, or 4 in single precision; NaN beyond 1."""
    wide = _wide(x)
    return _narrow(_angle(wide, _other_side(wide))).sign_of(x)


@single
def acos(x: Lanes) -> Lanes:
    """The angle whose cosine is x, in [0, pi], to 0.501 ULP, or 4 in single precision; NaN beyond 1."""
    wide = _wide(x)
    return _narrow(_angle(_other_side(wide), wide))
