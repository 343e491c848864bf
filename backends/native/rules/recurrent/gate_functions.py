"""The functions of gates of int16 as code: equal to the bit to those of `arithmetic/fixed_point_functions`, which says
where formulas are from. Each is a function of the module, from an i32 to an i32."""

from __future__ import annotations

from collections.abc import Callable
from math import exp

from llvmlite import ir

from circlet.backends.arithmetic.fixed_point_functions import constant
from circlet.backends.native.emit.emitter import I32, Emitter
from circlet.backends.native.emit.lanes import Lanes

_WIDTH = 15
"""Bits of a number but for its sign."""
_ONE = 1 << _WIDTH
_ONE_THIRD = constant(1 / 3, _WIDTH)
_LINE = 23130, -15420
"""48 / 17 and -32 / 17 with 13 bits of fraction, of the line that is nearest to 1 / x on [1/2, 1]."""


def logistic(e: Emitter, x: ir.Value, integer_bits: int) -> ir.Value:
    """1 / (1 + exp(-x)), with 15 bits of fraction, of a number with so many integer bits."""
    def found(x: Lanes, magnitude: Lanes) -> Lanes:
        positive = _saturated(_reciprocal_of_half_sum(_exp(magnitude * -1, integer_bits)) << 1)
        return (x > 0).where(positive, positive ^ _ONE - 1).unless(x.equals(0), _ONE >> 1)

    return _called(e, f"logistic_{integer_bits}", x, found)


def tanh(e: Emitter, x: ir.Value, integer_bits: int) -> ir.Value:
    """tanh, with 15 bits of fraction, of a number with so many integer bits."""
    def found(x: Lanes, magnitude: Lanes) -> Lanes:
        decayed = _exp(magnitude * -1, integer_bits + 1)
        positive = _saturated(_reciprocal_of_half_sum(decayed) - (_ONE >> 2) << 2)
        return (x < 0).where(positive * -1, positive).unless(x.equals(0), 0)

    return _called(e, f"tanh_{integer_bits}", x, found)


def _called(e: Emitter, name: str, x: ir.Value, make: Callable[[Lanes, Lanes], Lanes]) -> ir.Value:
    """Calls the function of a name, which is made of a number and its magnitude when it is first called."""
    function = e.module.globals.get(name)
    if function is None:
        function = ir.Function(e.module, ir.FunctionType(I32, [I32]), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        inner = Emitter(e.module, function, e.target)
        given = Lanes(inner, function.args[0])
        inner.builder.ret(make(given, (given < 0).where(given * -1, given)).value)
    return e.builder.call(function, [x])


def _product(one: Lanes, other: Lanes | int) -> Lanes:
    """Of fractions, halves rounded up."""
    return one * other + (_ONE >> 1) >> _WIDTH


def _saturated(x: Lanes) -> Lanes:
    """Limited to 16 bits."""
    return x.clamp(-_ONE, _ONE - 1)


def _exp(x: Lanes, integer_bits: int) -> Lanes:
    """exp of a number that is not positive: a Taylor series of degree 4 around -1/8, times a power of e for each bit
    from a quarter on."""
    fraction_bits = _WIDTH - integer_bits
    quarter = 1 << fraction_bits - 2
    part = (x & quarter - 1) - quarter
    rest = part - x
    t = (part << integer_bits) + (_ONE >> 3)
    t2 = _product(t, t)
    t3, t4 = _product(t2, t), _product(t2, t2)
    fourth = (t4 + 2 >> 2) + t3
    series = _halved(_product(fourth, _ONE_THIRD) + t2)
    middle = constant(exp(-1 / 8), _WIDTH)
    result = _saturated(_product(t + series, middle) + middle)
    for exponent in range(-2, min(integer_bits, 5)):
        factor = constant(exp(-(2.0**exponent)), _WIDTH)
        is_set = (rest & 1 << fraction_bits + exponent).equals(0)
        result = is_set.where(result, _product(result, factor))
    if integer_bits > 5:
        result = result.unless(x < -(1 << fraction_bits + 5), 0)
    return result.unless(x.equals(0), _ONE - 1)


def _halved(x: Lanes) -> Lanes:
    """Half of a number, halves away from zero."""
    return x + 1 + (x >> 31) >> 1


def _reciprocal_of_half_sum(x: Lanes) -> Lanes:
    """2 / (1 + x) of a fraction, with 13 bits of fraction: three steps of Newton's method."""
    half_sum = x + _ONE >> 1
    result = _product(half_sum, _LINE[1]) + _LINE[0]
    for _ in range(3):
        error = _product(half_sum, result) * -1 + (_ONE >> 2)
        result = result + _saturated(_product(result, error) << 2)
    return result
