"""The remainder of floats by integers, where there are no instructions for doubles."""

from __future__ import annotations

import math

from llvmlite import ir

from circlet.backends.native.emit.emitter import I32, Emitter
from circlet.backends.native.emit.lanes import Lanes
from circlet.backends.native.emit.loops import carry

_FRACTION = 23
"""Bits of a significand that are stored."""
_HIDDEN, _MAGNITUDE, _INFINITE = 1 << _FRACTION, (1 << 31) - 1, 0x7F800000


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """The exact remainder with the sign of x, as C's `fmod`; scalars."""
    e = x.e
    function = e.module.globals.get("remainder") or _function(e)
    return Lanes(e, e.builder.call(function, [x.value, y.value]))


def _function(e: Emitter) -> ir.Function:
    kind = ir.FloatType()
    function = ir.Function(e.module, ir.FunctionType(kind, [kind] * 2), "remainder")
    function.linkage = "internal"
    function.attributes.add("noinline")
    inner = Emitter(e.module, function, e.target)
    x, y = (Lanes(inner, each) for each in function.args)
    size, divisor = (each.bits() & _MAGNITUDE for each in (x, y))
    is_none = divisor.equals(0) | (size >= _INFINITE) | (divisor > _INFINITE)
    found = (size < divisor).where(size, _rest(inner, size, divisor))
    inner.builder.ret(found.real().sign_of(x).unless(is_none, math.nan).value)
    return function


def _rest(e: Emitter, size: Lanes, divisor: Lanes) -> Lanes:
    """Of patterns of numbers that are not negative, of which the second is not greater: long division, whose last step
    is that of the exponent of the divisor."""
    b, one = e.builder, I32(1)
    (rest, exponent), (by, power) = _parts(size), _parts(divisor)

    def turn(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return [b.shl(_less(Lanes(e, carried[0]), by).value, one)]

    count = b.zext if e.index.width > I32.width else lambda value, _: value
    steps = (exponent - power).at_least(0)
    (found,) = carry(e, count(steps.value, e.index), [rest.value], turn)
    return _pattern(_less(Lanes(e, found), by), power)


def _less(value: Lanes, by: Lanes) -> Lanes:
    """A number, less another one if that is not greater."""
    return (value >= by).where(value - by, value)


def _zeros(value: Lanes) -> Lanes:
    """The zeros before the first bit of a significand."""
    return Lanes(value.e, value.e.builder.ctlz(value.value, ir.Constant(ir.IntType(1), 0))) - (31 - _FRACTION)


def _parts(pattern: Lanes) -> tuple[Lanes, Lanes]:
    """The significand and the biased exponent of a number; those of subnormal ones go on below 1."""
    e, zeros = pattern.e, _zeros(pattern)
    moved = Lanes(e, e.builder.shl(pattern.value, zeros.at_least(0).at_most(_FRACTION).value))
    is_small = pattern < _HIDDEN
    significand = is_small.where(moved, (pattern & _HIDDEN - 1) | _HIDDEN)
    return significand, is_small.where(zeros * -1 + 1, pattern >> _FRACTION)


def _pattern(significand: Lanes, exponent: Lanes) -> Lanes:
    """The pattern of a significand, perhaps with zeros before it, at an exponent."""
    e, zeros = significand.e, _zeros(significand)
    moved = Lanes(e, e.builder.shl(significand.value, zeros.at_least(0).at_most(_FRACTION).value))
    power = exponent - zeros
    normal = (moved - _HIDDEN) | (power << _FRACTION)
    shift = (power * -1 + 1).at_least(0).at_most(31)
    subnormal = Lanes(e, e.builder.lshr(moved.value, shift.value))
    return (power > 0).where(normal, subnormal).unless(significand.equals(0), 0)
