"""Hyperbolic functions and their inverses, as `math` has elementary functions."""

from __future__ import annotations

import math

from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Function, Lanes, single
from circlet.backends.native.emit.math import exp, exp2_parts, expm1, log, log2

_MOST = 90.0
"""Where exp(x) / 2 is infinite in float32."""
_FAR = 20.0
"""From it on exp(-x) counts for nothing beside exp(x) in float32."""
_SMALL = 2.0**-10
"""Below it the first two terms of a Taylor series do: the third is 1e-13 of the first."""
_LARGE = 2.0**12
"""From it on x * x + 1 is x * x in float32."""


def _grown(x: Lanes) -> Lanes:
    """exp(|x|) - 1 as a double, up to `_MOST`."""
    p, s = exp2_parts(x.unary("fabs").at_most(_MOST).widen(DOUBLE) * (1 / math.log(2)))
    return p.fma(s, s - 1.0)


def _of(function: Function, x: Lanes) -> Lanes:
    """A function of registers on lanes."""
    return Lanes(x.e, function(x.e, x.value))


@single
def sinh(x: Lanes) -> Lanes:
    """(exp(x) - exp(-x)) / 2, to 0.501 ULP: of m = exp(|x|) - 1 in double precision it is (m + m / (m + 1)) / 2. In
    single precision to 4 ULP."""
    if x.e.target.has_doubles:
        more = _grown(x)
        return ((more + more / (more + 1.0)) * 0.5).narrow(SINGLE).sign_of(x)
    size = x.unary("fabs").at_most(_MOST)
    more, root = _of(expm1, size.at_most(_FAR)), _of(exp, size * 0.5)
    return (size < _FAR).where((more + more / (more + 1.0)) * 0.5, root * 0.5 * root).sign_of(x)


@single
def cosh(x: Lanes) -> Lanes:
    """(exp(x) + exp(-x)) / 2, to 0.501 ULP, or 4 in single precision."""
    if x.e.target.has_doubles:
        power = _grown(x) + 1.0
        return ((power + 1.0 / power) * 0.5).narrow(SINGLE)
    root = _of(exp, x.unary("fabs").at_most(_MOST) * 0.5)
    return root * 0.5 * root + 0.5 / root / root


def _log(x: Lanes) -> Lanes:
    """The natural logarithm of a double."""
    return log2(x) * math.log(2)


def _log1p(x: Lanes) -> Lanes:
    """log(1 + x) in single precision: what 1 + x lost is made up for (Kahan)."""
    above = x + 1.0
    gained = above - 1.0
    found = _of(log, above) * (x / gained)
    return found.unless(gained.equals(0.0), x).unless(above.equals(math.inf), math.inf)


@single
def asinh(x: Lanes) -> Lanes:
    """The number whose hyperbolic sine is x, to 0.51 ULP, or 4 in single precision: log(|x| + sqrt(x * x + 1)), for
    small numbers x - x ** 3 / 6."""
    size = x.unary("fabs")
    if x.e.target.has_doubles:
        wide = size.widen(DOUBLE)
        square = wide * wide
        found = _log(wide + (square + 1.0).unary("sqrt"))
        return (wide < _SMALL).where(wide - wide * square * (1 / 6), found).narrow(SINGLE).sign_of(x)
    few = size.at_most(_LARGE)
    square = few * few
    found = _log1p(few + square / ((square + 1.0).unary("sqrt") + 1.0))
    return (size < _LARGE).where(found, _of(log, size) + math.log(2)).sign_of(x)


@single
def acosh(x: Lanes) -> Lanes:
    """The number that is not negative whose hyperbolic cosine is x, to 0.51 ULP, or 4 in single precision: log(x +
    sqrt(x * x - 1)); NaN below 1."""
    if x.e.target.has_doubles:
        wide = x.widen(DOUBLE)
        found = _log(wide + ((wide - 1.0) * (wide + 1.0)).unary("sqrt")).narrow(SINGLE)
        return found.unless(x < 1.0, math.nan)
    beyond = x.at_most(_LARGE) - 1.0
    found = _log1p(beyond + (beyond * (beyond + 2.0)).unary("sqrt"))
    return (x < _LARGE).where(found, _of(log, x) + math.log(2)).unless(x < 1.0, math.nan)


@single
def atanh(x: Lanes) -> Lanes:
    """The number whose hyperbolic tangent is x, to 0.51 ULP, or 4 in single precision: log((1 + x) / (1 - x)) / 2, for
    small numbers x + x ** 3 / 3; NaN beyond 1."""
    size = x.unary("fabs")
    if x.e.target.has_doubles:
        wide = size.widen(DOUBLE)
        found = _log((wide + 1.0) / (-wide + 1.0)) * 0.5
        small = wide + wide * wide * wide * (1 / 3)
        return (wide < _SMALL).where(small, found).narrow(SINGLE).sign_of(x)
    return (_log1p(size * 2.0 / (-size + 1.0)) * 0.5).sign_of(x)
