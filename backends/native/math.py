"""Elementary functions of real numbers as straight-line code, which LLVM turns into vector instructions.

Every function takes and gives a value of type float or half, or a vector of them, and is defined for all of its
type: subnormal numbers, infinities, NaN and signed zeros. Half precision is computed in single precision and rounded.
Errors are in units in the last place (ULP) of float32, found over all 2^32 arguments (those of `power` by samples)
against double precision. Polynomials interpolate what their definition says at Chebyshev nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

import numpy as np
from llvmlite import ir
from numpy.polynomial import Chebyshev, Polynomial

from circlet.backends.native.emitter import I32, I64, Emitter
from circlet.backends.native.lanes import DOUBLE, HALF, SINGLE, Lanes

Function: TypeAlias = Callable[..., ir.Value]
"""From an emitter and the arguments."""

_SHIFTER = {SINGLE: 1.5 * 2.0**23, DOUBLE: 1.5 * 2.0**52}
"""Adding it to a small number leaves the nearest integer in the low bits of the sum."""
_BIAS = {SINGLE: 127, DOUBLE: 1023}
_FRACTION = {SINGLE: 23, DOUBLE: 52}
"""The bits of the significand that are stored."""
_TINY = 2.0**-126
"""The smallest normal number."""


def _fit(function: Callable[[float], float], low: float, high: float, degree: int) -> tuple[float, ...]:
    """The coefficients of the polynomial that interpolates a function on an interval, lowest power first."""
    curve = Chebyshev.interpolate(np.vectorize(function, otypes=[np.float64]), degree, domain=[low, high])
    return tuple(float(each) for each in curve.convert(kind=Polynomial).coef)


def _split(number: float, bits: int) -> tuple[float, float]:
    """A number as one of few bits, whose products with small integers are exact, and the rest."""
    mantissa, exponent = math.frexp(number)
    high = math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)
    return high, number - high


def _single(function: Callable[..., Lanes]) -> Function:
    """The function on registers of type float or half of a function on lanes of type float."""
    @wraps(function)
    def emit(e: Emitter, *arguments: ir.Value) -> ir.Value:
        lanes = [Lanes(e, each) for each in arguments]
        if lanes[0].element == HALF:
            return function(*(each.widen(SINGLE) for each in lanes)).narrow(HALF).value
        return function(*lanes).value

    return emit


def _nearest(x: Lanes) -> tuple[Lanes, Lanes]:
    """The nearest integer as a real number, and as low bits that others lie above."""
    shifted = x + _SHIFTER[x.element]
    return shifted - _SHIFTER[x.element], shifted.bits()


def _power_of_two(exponent: Lanes, kind: ir.Type) -> Lanes:
    """2 ** exponent, which must be in the range of normal numbers; only low bits of the exponent count."""
    return ((exponent + _BIAS[kind]) << _FRACTION[kind]).real()


_LN2_HIGH, _LN2_LOW = _split(math.log(2), 16)
_EXP = _fit(lambda x: math.expm1(x) / x if x else 1.0, -math.log(2), math.log(2), 7)
"""(exp(x) - 1) / x."""


def _exp(x: Lanes) -> Lanes:
    x = x.clamp(-104.0, 89.0)
    n, bits = _nearest(x * (0.5 / math.log(2)))
    rest = n.fma(-2 * _LN2_LOW, n.fma(-2 * _LN2_HIGH, x))
    half = _power_of_two(bits, SINGLE)
    return rest.polynomial(_EXP).fma(rest, 1.0) * half * half


exp = _single(_exp)

_EXPM1 = _fit(lambda x: (math.expm1(x) - x) / (x * x) if x else 0.5, -math.log(2) / 2, math.log(2) / 2, 5)
"""(exp(x) - 1 - x) / x ** 2."""


def _expm1(x: Lanes) -> Lanes:
    x = x.clamp(-20.0, 89.0)
    n, bits = _nearest(x * (1 / math.log(2)))
    rest = n.fma(-_LN2_LOW, n.fma(-_LN2_HIGH, x))
    scale = _power_of_two(bits - 1, SINGLE)
    grown = (rest * rest).fma(rest.polynomial(_EXPM1), rest)
    return (grown.fma(scale, scale - 0.5) * 2.0).sign_of(x)


expm1 = _single(_expm1)

_EXP2M1 = _fit(lambda x: math.expm1(x * math.log(2)) / x if x else math.log(2), -0.5, 0.5, 8)
"""(2 ** x - 1) / x; to 1e-13."""


def _exp2_parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """Doubles (p, s) such that 2 ** x is p * s + s, for |x| < 1000; s is a power of two."""
    n, bits = _nearest(x)
    rest = x - n
    return rest * rest.polynomial(_EXP2M1), _power_of_two(bits, DOUBLE)


def _ratio(a: Lanes, b: Lanes) -> Lanes:
    """a / b for doubles, b in the range of float32, to 2e-14: one step from the reciprocal in single precision."""
    reciprocal = (1.0 / b.narrow(SINGLE)).widen(DOUBLE)
    ratio = a * reciprocal
    return (-ratio).fma(b, a).fma(reciprocal, ratio)


def _tanh(x: Lanes) -> Lanes:
    magnitude = x.unary("fabs").at_most(10.0).widen(DOUBLE)
    p, s = _exp2_parts(magnitude * (2 / math.log(2)))
    grown = p.fma(s, s - 1.0)
    return _ratio(grown, grown + 2.0).narrow(SINGLE).sign_of(x)


tanh = _single(_tanh)


def _logistic(x: Lanes) -> Lanes:
    p, s = _exp2_parts(x.clamp(-130.0, 130.0).widen(DOUBLE) * (-1 / math.log(2)))
    return 1.0 / (p.fma(s, s).narrow(SINGLE) + 1.0)


logistic = _single(_logistic)


def _frexp(x: Lanes) -> tuple[Lanes, Lanes]:
    """(n, m) such that a positive normal x is 2 ** n * m, with m in [sqrt(1 / 2), sqrt(2)); n is an integer."""
    kind = x.element
    root = int(np.array(math.sqrt(0.5), np.float32 if kind == SINGLE else np.float64).view(
        np.int32 if kind == SINGLE else np.int64))
    n = (x.bits() - root) >> _FRACTION[kind]
    return n, (x.bits() - (n << _FRACTION[kind])).real()


_LOG = _fit(lambda x: (math.log1p(x) - x) / (x * x), math.sqrt(0.5) - 1, math.sqrt(2) - 1, 9)
"""(log(1 + x) - x) / x ** 2."""


def _log(x: Lanes) -> Lanes:
    is_tiny = x < _TINY
    exponent, mantissa = _frexp(x.unless(is_tiny, x * 2.0**23))
    n = exponent.to_real(SINGLE)
    n = n.unless(is_tiny, n - 23.0)
    f = mantissa - 1.0
    small = f * f * f.polynomial(_LOG)
    found = n.fma(_LN2_HIGH, n.fma(_LN2_LOW, small) + f)
    return _at_ends_of_log(x, found)


def _at_ends_of_log(x: Lanes, found: Lanes) -> Lanes:
    found = (x > 0.0).where(found, math.nan).unless(x.equals(0.0), -math.inf)
    return found.unless(x.equals(math.inf), math.inf)


log = _single(_log)

_ERF_FROM, _ERF_END = 0.875, 4.0
_ERF = _fit(lambda square: math.erf(math.sqrt(square)) / math.sqrt(square) - 1.0, 0.0, _ERF_FROM**2, 6)
"""erf(r) / r - 1 as a function of r * r."""
_LOG_ERFC = _fit(lambda r: math.log(math.erfc(r)), _ERF_FROM, _ERF_END, 8)


def _erf(x: Lanes) -> Lanes:
    r = x.unary("fabs").at_most(_ERF_END)
    near = (r * r).polynomial(_ERF).fma(r, r)
    far = -_exp(r.polynomial(_LOG_ERFC)) + 1.0
    return (r < _ERF_FROM).where(near, far).sign_of(x)


erf = _single(_erf)


def _sqrt(x: Lanes) -> Lanes:
    return x.unary("sqrt")


sqrt = _single(_sqrt)


def _rsqrt(x: Lanes) -> Lanes:
    return 1.0 / x.unary("sqrt")


rsqrt = _single(_rsqrt)
