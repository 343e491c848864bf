"""The zero point of a row of real numbers, without instructions for doubles.

Where 8 bits are used up, it is the nearest integer to `-128 - low / scale` or `127 - high / scale`, halves away from
zero, in double precision; see `_asymmetric` in `hybrid.py`. Numbers of single precision are so short that a quotient is
either a half or farther from it than double precision errs. So all that matters is how it rounds the quotient where
this is a half, which long division of significands of 53 bits tells.
"""

from __future__ import annotations

from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, I64, Emitter
from circlet.backends.native.emit.loops import carry

_SINGLE = ir.FloatType()
_DIGITS = 53
"""Of double precision."""
_UNIT = 47
"""Fraction bits of quotients, which are at most 128: from 32 on double precision has no more."""
_MOST = 63
"""By how much 64 bits may be shifted."""


def zero_point(e: Emitter, low: ir.Value, high: ir.Value, span: ir.Value) -> ir.Value:
    """Of numbers from `low` to `high`, float32, between which zero is; `span`, a normal number, is how far they are
    apart. An i32 from -128 to 127."""
    function = e.module.globals.get("zero_point") or _function(e)
    return e.builder.call(function, [low, high, span])


def _function(e: Emitter) -> ir.Function:
    function = ir.Function(e.module, ir.FunctionType(I32, [_SINGLE] * 3), "zero_point")
    function.linkage = "internal"
    function.attributes.add("noinline")
    inner = Emitter(e.module, function, e.target)
    inner.builder.ret(_found(inner, *function.args))
    return function


def _found(e: Emitter, low: ir.Value, high: ir.Value, span: ir.Value) -> ir.Value:
    """The integer nearest to the one of the two that is nearer to its end of the interval."""
    b = e.builder
    below, scale = b.fneg(low), b.fdiv(span, ir.Constant(_SINGLE, 255.0))
    is_nearer = b.fcmp_ordered("<", b.fadd(below, scale), high)
    quotient = _quotient(e, b.select(is_nearer, below, high), span)
    end = b.select(is_nearer, e.wide(128 << _UNIT), e.wide(127 << _UNIT))
    rest = b.sub(end, quotient)
    is_negative = b.icmp_signed("<", rest, e.wide(0))
    nearest = b.lshr(b.add(_rounded(e, b.select(is_negative, b.neg(rest), rest)), e.wide(1 << _UNIT - 1)),
                     e.wide(_UNIT))
    number = b.trunc(e.intrinsic("umin", nearest, e.wide(128)), I32)
    found = b.select(b.or_(is_nearer, is_negative), b.neg(number), number)
    return e.intrinsic("smin", found, I32(127))


def _rounded(e: Emitter, value: ir.Value) -> ir.Value:
    """To `_DIGITS`: of one more, the last one is rounded to even."""
    b = e.builder
    odd = b.and_(b.lshr(value, e.wide(1)), e.wide(1))
    even = b.and_(b.add(value, odd), e.wide(-2))
    return b.select(b.icmp_unsigned(">=", value, e.wide(1 << _DIGITS)), even, value)


Number: TypeAlias = "tuple[ir.Value, ir.Value]"
"""A significand of `_DIGITS` or the next power of two, an i64, and the exponent of the first digit, an i32."""


def _quotient(e: Emitter, value: ir.Value, span: ir.Value) -> ir.Value:
    """A number over the 255th part of another one, both quotients in double precision, with `_UNIT` bits of
    fraction."""
    whole = e.wide(255 << _DIGITS - 8), I32(7)
    digits, exponent = _divided(e, _parts(e, value), _divided(e, _parts(e, span), whole))
    return _shifted(e, digits, e.builder.add(exponent, I32(_UNIT + 1 - _DIGITS)))


def _parts(e: Emitter, x: ir.Value) -> Number:
    """Of a float32 that is not negative; its exponent is as biased as that of others."""
    b, bits = e.builder, e.builder.bitcast(x, I32)
    significand = b.or_(b.and_(bits, I32(0x7FFFFF)), I32(0x800000))
    return b.shl(b.zext(significand, I64), e.wide(_DIGITS - 24)), b.and_(b.lshr(bits, I32(23)), I32(255))


def _divided(e: Emitter, one: Number, other: Number) -> Number:
    """The quotient of two numbers, rounded."""
    b, (numerator, exponent), (divisor, power) = e.builder, one, other
    is_less = b.icmp_unsigned("<", numerator, divisor)
    digits = _rounded_digits(e, b.shl(numerator, b.zext(is_less, I64)), divisor)
    return digits, b.sub(b.sub(exponent, power), b.zext(is_less, I32))


def _rounded_digits(e: Emitter, numerator: ir.Value, divisor: ir.Value) -> ir.Value:
    """The quotient of integers, from 1 to 2, as an integer of `_DIGITS`, rounded to even: long division."""
    b = e.builder

    def turn(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        digits, rest = carried
        fits = b.icmp_unsigned(">=", rest, divisor)
        rest = b.select(fits, b.sub(rest, divisor), rest)
        return [b.or_(b.shl(digits, e.wide(1)), b.zext(fits, I64)), b.shl(rest, e.wide(1))]

    digits, rest = carry(e, e.number(_DIGITS + 1), [e.wide(0), numerator], turn)
    found, last = b.lshr(digits, e.wide(1)), b.and_(digits, e.wide(1))
    is_more = b.or_(b.zext(b.icmp_unsigned("!=", rest, e.wide(0)), I64), b.and_(found, e.wide(1)))
    return b.add(found, b.and_(last, is_more))


def _shifted(e: Emitter, value: ir.Value, count: ir.Value) -> ir.Value:
    """To the left, or to the right and rounded."""
    b, none = e.builder, I32(0)
    left, right = (b.zext(e.intrinsic("smin", e.intrinsic("smax", each, none), I32(_MOST)), I64)
                   for each in (count, b.neg(count)))
    half = b.lshr(b.shl(e.wide(1), right), e.wide(1))
    return b.lshr(b.add(b.shl(value, left), half), right)
