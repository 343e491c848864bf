"""Elementary functions of real numbers as straight-line code, which LLVM turns into vector instructions.

Every function takes and gives a value of type float or half, or a vector of them, and is defined for all of its
type: subnormal numbers, infinities, NaN and signed zeros. Half precision is computed in single precision and rounded.
Errors are in units in the last place (ULP) of float32, found over all 2^32 arguments (those of `power` by samples)
against double precision. Polynomials interpolate what their definition says at Chebyshev nodes, or fit it with weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Lanes, single
from circlet.backends.native.emit.pairs import Pair

_SHIFTER = {SINGLE: 1.5 * 2.0**23, DOUBLE: 1.5 * 2.0**52}
"""Adding it to a small number leaves the nearest integer in the low bits of the sum: the last bit of a number in [2 **
23, 2 ** 24), or [2 ** 52, 2 ** 53), counts 1. The half keeps negative numbers there."""
_BIAS = {SINGLE: 127, DOUBLE: 1023}
"""What IEEE 754 adds to an exponent."""
_FRACTION = {SINGLE: 23, DOUBLE: 52}
"""The bits of the significand that are stored."""
_ROOT_OF_HALF = {SINGLE: 0x3F3504F3, DOUBLE: 0x3FE6A09E667F3BCD}
"""The pattern of sqrt(1 / 2). What is taken from a pattern before its exponent is cut off moves the border between two
exponents there, as in fdlibm's `log`."""
_TINY = 2.0**-126
"""The smallest normal number of float32."""


@cache
def fit(function: Callable[[float], float], low: float, high: float, degree: int) -> tuple[float, ...]:
    """The coefficients of the polynomial that interpolates a function on an interval, lowest power first."""
    polynomials = np.polynomial
    curve = polynomials.Chebyshev.interpolate(np.vectorize(function, otypes=[np.float64]), degree, domain=[low, high])
    return tuple(float(each) for each in curve.convert(kind=polynomials.Polynomial).coef)


def _split(number: float, bits: int) -> tuple[float, float]:
    """A number as one of few bits, whose products with small integers are exact, and the rest: Cody and Waite's
    reduction of arguments in two steps."""
    mantissa, exponent = math.frexp(number)
    high = math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)
    return high, number - high


def _nearest(x: Lanes) -> tuple[Lanes, Lanes]:
    """The nearest integer as a real number, and as low bits that others lie above; see `_SHIFTER`. Numbers must be
    below 2 ** 22, doubles below 2 ** 51, in magnitude."""
    shifted = x + _SHIFTER[x.element]
    return shifted - _SHIFTER[x.element], shifted.bits()


def power_of_two(exponent: Lanes, kind: ir.Type) -> Lanes:
    """2 ** exponent, made of its pattern; it must be in the range of normal numbers. Only low bits of the exponent
    count."""
    return ((exponent + _BIAS[kind]) << _FRACTION[kind]).real()


_BIASED = _SHIFTER[SINGLE] + _BIAS[SINGLE]
"""Adding it to a small number leaves the nearest integer as the exponent of a float32 in the low bits of the sum."""
_LN2_HIGH, _LN2_LOW = _split(math.log(2), 16)
"""log(2) as a number of 16 bits, whose products with integers of up to 8 bits are exact in float32, and the rest."""
_EXP = partial(fit, lambda x: math.expm1(x) / x if x else 1.0, -math.log(2), math.log(2), 7)
"""(exp(x) - 1) / x on [-log(2), log(2)]: our own interpolation, which leaves exp(x) a relative error below 1.6e-9, a
fortieth of half a unit in the last place."""


def _exp(x: Lanes) -> Lanes:
    """Of lanes of float, as lanes of float. x is n log(4) + r with |r| <= log(2); the polynomial of r is multiplied
    twice by 2 ** n, so that it is rounded once where the result is subnormal, and overflows where it should. Beyond
    -104 and 89 results are 0 and infinite; from -176 on, where n is -127, 2 ** n is 0, too: products that come to be 0
    take processors a hundred times as long as products by it. 12 multiply-adds and products."""
    x = x.clamp(-176.0, 89.0)
    shifted = x.fma(0.5 / math.log(2), _BIASED)
    n, half = shifted - _BIASED, (shifted.bits() << 23).real()
    rest = n.fma(-2 * _LN2_LOW, n.fma(-2 * _LN2_HIGH, x))
    return rest.polynomial(_EXP()).fma(rest, 1.0) * half * half


exp = single(_exp)
"""To 1.44 ULP; 1.6 on a processor that cannot fuse products and sums."""

_EXPM1 = partial(fit, lambda x: (math.expm1(x) - x) / (x * x) if x else 0.5, -math.log(2) / 2, math.log(2) / 2, 5)
"""(exp(x) - 1 - x) / x ** 2 on [-log(2) / 2, log(2) / 2]: our own interpolation; expm1 has a relative error below 6e-10
there."""


def _expm1(x: Lanes) -> Lanes:
    """exp(x) - 1. x is n log(2) + r; the result is 2 ** n (expm1(r) + 1) - 1, scaled by a half on the way
    since 2 ** 128 is no float32. Below -20 it is -1."""
    x = x.clamp(-20.0, 89.0)
    n, bits = _nearest(x * (1 / math.log(2)))
    rest = n.fma(-_LN2_LOW, n.fma(-_LN2_HIGH, x))
    scale = power_of_two(bits - 1, SINGLE)
    grown = (rest * rest).fma(rest.polynomial(_EXPM1()), rest)
    return (grown.fma(scale, scale - 0.5) * 2.0).sign_of(x)


expm1 = single(_expm1)
"""To 1.45 ULP."""


_EXP2M1 = partial(fit, lambda x: math.expm1(x * math.log(2)) / x if x else math.log(2), -0.5, 0.5, 8)
"""(2 ** x - 1) / x on [-1/2, 1/2]: our own interpolation, to 1e-13 relative; 2 ** x to 4e-14."""


def exp2_parts(x: Lanes, shift: int = 0) -> tuple[Lanes, Lanes]:
    """Doubles (p, s) such that 2 ** (x + shift) is p * s + s, for |x| < 1000; s is a power of two."""
    n, bits = _nearest(x)
    rest = x - n
    return rest * rest.polynomial(_EXP2M1()), power_of_two(bits + shift, DOUBLE)


@single
def tanh(x: Lanes) -> Lanes:
    """Correctly rounded but for 68 of all arguments: (exp(2 |x|) - 1) / (exp(2 |x|) + 1) in double precision, with the
    sign of x. From 10 on it is 1. Where there are no instructions for that, in single precision, to 2.5 ULP."""
    if not x.e.target.has_doubles:
        more = _expm1(x.unary("fabs").at_most(10.0) * 2.0)
        return (more / (more + 2.0)).sign_of(x)
    magnitude = x.unary("fabs").at_most(10.0).widen(DOUBLE)
    p, s = exp2_parts(magnitude * (2 / math.log(2)))
    grown = p.fma(s, s - 1.0)
    return (grown / (grown + 2.0)).narrow(SINGLE).sign_of(x)


_UNIT_BITS = -24
"""The exponent of `_UNIT`; exp(104.5) times it is in the range of float32 from -23 on down."""
_UNIT = 2.0**_UNIT_BITS
"""What 1 is scaled to in `logistic`, so that exp(104) is in the range of float32."""


@single
def logistic(x: Lanes) -> Lanes:
    """1 / (1 + exp(-x)), to 2.49 ULP: in float32 from a correctly rounded exponential, as the numpy kernel. Where there
    are no instructions for doubles the exponential is `exp`: 2.8 ULP, and results below 2e-38 may be 0."""
    if not x.e.target.has_doubles:
        return 1.0 / (_exp(-x) + 1.0)
    p, s = exp2_parts(x.clamp(-104.5, 104.5).widen(DOUBLE) * (-1 / math.log(2)), _UNIT_BITS)
    return _UNIT / (p.fma(s, s).narrow(SINGLE) + _UNIT)


@single
def silu(x: Lanes) -> Lanes:
    """x / (1 + exp(-x)), to 2.6 ULP, and less than 1e-36 below -88, where the exponential overflows."""
    return x / (_exp(-x) + 1.0)


def _frexp(x: Lanes) -> tuple[Lanes, Lanes]:
    """(n, m) such that a positive normal x is 2 ** n * m, with m in [sqrt(1 / 2), sqrt(2)); n is an integer."""
    bits, width = x.bits(), _FRACTION[x.element]
    n = (bits - _ROOT_OF_HALF[x.element]) >> width
    return n, (bits - (n << width)).real()


_LOG = partial(fit, lambda x: (math.log1p(x) - x) / (x * x), math.sqrt(0.5) - 1, math.sqrt(2) - 1, 9)
"""(log(1 + x) - x) / x ** 2 on [sqrt(1 / 2) - 1, sqrt(2) - 1]: our own interpolation; log(1 + x) has a relative error
below 1.4e-9."""


@single
def log(x: Lanes) -> Lanes:
    """The natural logarithm, to 0.90 ULP: n log(2) + log(m) of `_frexp`, log(2) in two parts. Subnormal numbers are
    scaled by 2 ** 23 first."""
    is_tiny = x < _TINY
    exponent, mantissa = _frexp(x.unless(is_tiny, x * 2.0**23))
    n = exponent.to_real(SINGLE)
    n = n.unless(is_tiny, n - 23.0)
    f = mantissa - 1.0
    small = f * f * f.polynomial(_LOG())
    return _with_ends_of_log(x, n.fma(_LN2_HIGH, n.fma(_LN2_LOW, small) + f))


def _with_ends_of_log(x: Lanes, found: Lanes) -> Lanes:
    """A logarithm of x, which is right for positive numbers, made right for the others."""
    found = (x > 0.0).where(found, math.nan).unless(x.equals(0.0), -math.inf)
    return found.unless(x.equals(math.inf), math.inf)


_LOG2 = partial(fit, lambda x: math.log1p(x) / (x * math.log(2)), math.sqrt(0.5) - 1, math.sqrt(2) - 1, 15)
"""log2(1 + x) / x on [sqrt(1 / 2) - 1, sqrt(2) - 1]: our own interpolation, to 1e-13 relative."""


def log2(x: Lanes) -> Lanes:
    """Of a double that came from a float32, so that it is not subnormal."""
    n, mantissa = _frexp(x)
    f = mantissa - 1.0
    return _with_ends_of_log(x, f.fma(f.polynomial(_LOG2()), n.to_real(DOUBLE)))


def _exp2(x: Lanes) -> Lanes:
    """2 ** x of a double, as float32; below -200 and above 200 results are 0 and infinite all the same."""
    p, s = exp2_parts(x.clamp(-200.0, 200.0))
    return p.fma(s, s).narrow(SINGLE)


def _log2_pair(x: Lanes) -> Pair:
    """Of a positive float, to 40 digits."""
    is_tiny = x < _TINY
    exponent, mantissa = _frexp(x.unless(is_tiny, x * 2.0**23))
    n = exponent.to_real(SINGLE)
    f = Pair.of(mantissa - 1.0)
    return f * f.polynomial(_LOG2(), 6) + Pair.of(n.unless(is_tiny, n - 23.0))


_PATTERN = 0x4B400000
"""That of `_SHIFTER`."""


def _exp2_pair(x: Pair) -> Lanes:
    """2 ** x, to 0.9 ULP; below -200 and above 200 results are 0 and infinite all the same."""
    limited = x.high.clamp(-200.0, 200.0)
    n, bits = _nearest(limited)
    rest = limited - n + x.high.equals(limited).where(x.low, 0.0)
    found = rest.polynomial(_EXP2M1()).fma(rest, 1.0)
    whole = bits - _PATTERN
    half = whole >> 1
    return found * power_of_two(half, SINGLE) * power_of_two(whole - half, SINGLE)


def _power_by_pairs(x: Lanes, y: Lanes) -> Lanes:
    """x ** y of a number that is not negative, to 0.9 ULP, but where it is 1 or y is 0."""
    found = _exp2_pair(Pair.of(y.clamp(-_MOST_POWER, _MOST_POWER)) * _log2_pair(x))
    end = (x < 1.0) ^ (y < 0.0)
    found = found.unless(x.equals(0.0) | x.equals(math.inf), end.where(x.constant(0.0), math.inf))
    return (x.equals(x) & y.equals(y)).where(found, math.nan)


_MOST_POWER = 2.0**40
"""A power from which on those of all floats but 1 are infinite or 0: their logarithms are 8e-8 at least."""


@single
def power(x: Lanes, y: Lanes) -> Lanes:
    """x ** y to 0.501 ULP, as C's `pow` defines it: a negative number has a power only where y is whole. It is 2 ** (y
    log2(|x|)) in double precision, then signs and special values. Where there are no instructions for that, to 0.9
    ULP."""
    size = x.unary("fabs")
    wide = x.e.target.has_doubles
    found = _exp2(y.widen(DOUBLE) * log2(size.widen(DOUBLE))) if wide else _power_by_pairs(size, y)
    is_whole = y.equals(y.unary("floor"))
    half = y * 0.5
    is_odd = is_whole & (half > half.unary("floor"))
    found = found.unless(is_odd, found.sign_of(x))
    found = (is_whole | (x >= 0.0) | size.equals(math.inf)).where(found, math.nan)
    of_minus_one = x.equals(-1.0) & y.unary("fabs").equals(math.inf)
    return found.unless(y.equals(0.0) | x.equals(1.0) | of_minus_one, 1.0)


@single
def cbrt(x: Lanes) -> Lanes:
    """The real cube root, correctly rounded but for 700 of all arguments, or to 0.9 ULP."""
    if not x.e.target.has_doubles:
        size = x.unary("fabs")
        is_special = size.equals(0.0) | (size < math.inf) ^ True
        return _exp2_pair(_log2_pair(size) * (1 / 3)).unless(is_special, size).sign_of(x)
    return _exp2(log2(x.unary("fabs").widen(DOUBLE)) * (1 / 3)).sign_of(x)


_ERF_FROM, _ERF_END = 0.875, 4.0
"""Where the polynomial of erf ends and that of log(erfc) begins, and where erf is 1 in float32 (from 3.92 on). The
first is a choice; both polynomials are exact enough there."""
_ERF = partial(fit, lambda square: math.erf(math.sqrt(square)) / math.sqrt(square) - 1.0, 0.0, _ERF_FROM**2, 6)
"""erf(r) / r - 1 as a function of r * r, for r up to 0.875: our own interpolation; erf has a relative error below
3e-10."""
_LOG_ERFC = partial(fit, lambda r: math.log(math.erfc(r)), _ERF_FROM, _ERF_END, 8)
"""log(1 - erf(r)) for r from 0.875 to 4: our own interpolation, to 2.3e-8; erf has an absolute error below 5e-9."""


def _erf(x: Lanes) -> Lanes:
    """erf of lanes of float: both polynomials are computed, and one result chosen, with the sign of x."""
    r = x.unary("fabs").at_most(_ERF_END)
    near = (r * r).polynomial(_ERF()).fma(r, r)
    far = -_exp(r.polynomial(_LOG_ERFC())) + 1.0
    return (r < _ERF_FROM).where(near, far).sign_of(x)


erf = single(_erf)
"""To 1.27 ULP."""


_GELU_END = 5.5
"""Where gelu is x or 0 but for 2e-8 of x: the odds of a greater number are 2e-8 there, and are kept so beyond it."""


@cache
def _odds() -> tuple[float, ...]:
    """-log2(c / (1 - c)) / x for the share c of a normal distribution below x, as a polynomial in x * x; each point
    counts as much as gelu(x) changes with it. It is our own weighted least squares at 200 points; gelu has an absolute
    error below 7e-8 by it before it is rounded."""
    x = _GELU_END * np.sqrt(np.linspace(1, 0, 200, endpoint=False))
    below, above = (np.array([math.erfc(sign * each * math.sqrt(0.5)) / 2 for each in x]) for sign in (-1, 1))
    polynomials = np.polynomial
    curve = polynomials.Chebyshev.fit(x * x, np.log2(above / below) / x, 6, [0, _GELU_END**2], w=x * x * below * above)
    return tuple(float(each) for each in curve.convert(kind=polynomials.Polynomial).coef)


_EXP2 = partial(fit, lambda x: 2.0**x, -0.5, 0.5, 5)
"""2 ** x on [-1/2, 1/2]: our own interpolation, to 1.1e-7 relative, two units in the last place."""


def _one_and_exp2(x: Lanes) -> Lanes:
    """1 + 2 ** x, where 2 ** x is infinite from 127.5 on, and 0 where it does not count."""
    x = x.clamp(-127.0, 128.0)
    shifted = x + _BIASED
    rest = x - (shifted - _BIASED)
    return rest.polynomial(_EXP2()).fma((shifted.bits() << 23).real(), 1.0)


@single
def gelu(x: Lanes) -> Lanes:
    """x * (1 + erf(x / sqrt(2))) / 2, to 4e-7 absolute or relative; x / (1 + 2 ** u) with the binary logarithm u of the
    odds of a greater number than x."""
    return x / _one_and_exp2((x * x).at_most(_GELU_END**2).polynomial(_odds()) * x)


_LOG2_ODDS = -2 * math.sqrt(2 / math.pi) / math.log(2)
"""The factor from tanh's argument, x + 0.044715 x ** 3, to the binary logarithm of exp(-2 u); u has sqrt(2 / pi) before
it."""


@single
def gelu_by_tanh(x: Lanes) -> Lanes:
    """x * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x ** 3) (Hendrycks and Gimpel 2016), which is x / (1 +
    exp(-2 * u)), to 4e-7 absolute or relative."""
    return x / _one_and_exp2((x * x).fma(0.044715 * _LOG2_ODDS, _LOG2_ODDS) * x)


@single
def sqrt(x: Lanes) -> Lanes:
    """Correctly rounded."""
    return x.unary("sqrt")


@single
def rsqrt(x: Lanes) -> Lanes:
    """1 / sqrt(x), to 1.50 ULP."""
    return 1.0 / x.unary("sqrt")
