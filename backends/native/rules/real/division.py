"""Native rules of quotients, remainders and powers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit import math
from circlet.backends.native.emit.emitter import UNSIGNED, Emitter, is_real
from circlet.backends.native.emit.lanes import DOUBLE, Function, Lanes, single
from circlet.backends.native.emit.pairs import Pair
from circlet.backends.native.emit.remainder import remainder
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.preferences import REAL
from circlet.backends.native.rules.real.elementwise import (
    Combine,
    activated,
    compare,
    elementwise,
    mul,
    refuses_activation,
)
from circlet.backends.native.rules.refusals import plain
from circlet.backends.native.rules.rule import Node, fused, is_single
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import is_known
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import elementwise as ops

State: TypeAlias = "list[ir.Value]"
"""The values that a loop hands from turn to turn."""


def repeat(e: Emitter, state: State, goes_on: Callable[[State], ir.Value], turn: Callable[[State], State]) -> State:
    """`while goes_on(state): state = turn(state)`: a head with a phi for each value, the body, and what comes after."""
    b, before = e.builder, e.builder.block
    head, body, after = (e.function.append_basic_block(name) for name in ("again", "turn", "enough"))
    b.branch(head)
    b.position_at_end(head)
    phis = [b.phi(each.type) for each in state]
    for phi, each in zip(phis, state, strict=True):
        phi.add_incoming(each, before)
    b.cbranch(goes_on(list(phis)), body, after)
    b.position_at_end(body)
    for phi, each in zip(phis, turn(list(phis)), strict=True):
        phi.add_incoming(each, b.block)
    b.branch(head)
    b.position_at_end(after)
    return list(phis)


def checked(node: Node[Any], holds: Callable[[Emitter, ir.Value], ir.Value], is_sound: Callable[[Array], Any],
             message: str, combine: Combine) -> Combine:
    """`combine` where a condition holds for every element of input 1; elsewhere the operator fails, unless its result
    is empty.

    `is_sound` tells the same of a constant. The only element of a tensor is looked at once, before the loops.
    """
    value = node.input(1)
    if not prod(node.shape) or (value.known is not None and is_sound(value.known)):
        return combine

    def check(e: Emitter, element: ir.Value) -> None:
        node.function.fail_unless(holds(e, element), node.place, message)

    if is_known(value.size, 1):
        check(node.function.e, value.scalar(node.function.e))
        return combine

    def after_check(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
        check(e, values[1])
        return combine(e, dtype, values)

    return after_check


def _not_by_zero(node: Node[Any], combine: Combine) -> Combine:
    """`combine`, which divides by input 1."""
    dtype = node.input(1).dtype
    return checked(node, lambda e, element: compare(e, dtype, "!=", element, e.constant(0, dtype)), np.all,
                    "division by zero", combine)


def _quotient(e: Emitter, dtype: DType, values: Sequence[ir.Value], of_least: str) -> tuple[ir.Value, ir.Value]:
    """The quotient of integers, rounded towards zero, and the remainder.

    The least integer divided by -1, which processors trap, `saturates` or `wraps`.
    """
    b, (x, divisor) = e.builder, values
    if dtype in UNSIGNED:
        return b.udiv(x, divisor), b.urem(x, divisor)
    negates = b.icmp_signed("==", divisor, e.constant(-1, dtype))
    safe = b.select(negates, e.constant(1, dtype), divisor)
    negated = b.neg(x)
    if of_least == "saturates":
        limits = np.iinfo(dtype.numpy)
        overflows = b.icmp_signed("==", x, e.constant(limits.min, dtype))
        negated = b.select(overflows, e.constant(limits.max, dtype), negated)
    return b.select(negates, negated, b.sdiv(x, safe)), b.srem(x, safe)


def _truncating(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The quotient of integers, rounded towards zero; the least one over -1 is the greatest."""
    return _quotient(e, dtype, values, "saturates")[0]


def _remainder(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The remainder of integers with the sign of the dividend."""
    return _quotient(e, dtype, values, "wraps")[1]


def _is_past_floor(e: Emitter, dtype: DType, rest: ir.Value, divisor: ir.Value) -> ir.Value:
    """Whether a remainder of signed integers has the other sign than the divisor."""
    b, zero = e.builder, e.constant(0, dtype)
    return b.and_(b.icmp_signed("!=", rest, zero), b.icmp_signed("<", b.xor(rest, divisor), zero))


def _floored(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The quotient of integers, rounded down."""
    quotient, rest = _quotient(e, dtype, values, "wraps")
    if dtype in UNSIGNED:
        return quotient
    past = _is_past_floor(e, dtype, rest, values[1])
    return e.builder.select(past, e.builder.sub(quotient, e.constant(1, dtype)), quotient)


def _modulo(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The remainder of integers with the sign of the divisor."""
    rest = _remainder(e, dtype, values)
    if dtype in UNSIGNED:
        return rest
    past = _is_past_floor(e, dtype, rest, values[1])
    return e.builder.select(past, e.builder.add(rest, values[1]), rest)


_HUGE, _LESS = 2.0**100, 2.0**-30
"""A divisor that is made less so that no product overflows with which it is compared, and by what."""


@single
def _real_floored(a: Lanes, b: Lanes) -> Lanes:
    """The quotient, rounded down, by way of double precision, in which no quotient of floats below 2 ** 29 rounds up to
    a whole number. Where there are no instructions for that, what a whole quotient leaves tells whether it is too
    great."""
    if not a.e.target.has_doubles:
        quotient = a / b
        size = b.unary("fabs")
        scale = (size > _HUGE).where(b.constant(_LESS), 1.0)
        floor, made = quotient.unary("floor"), Pair.product(quotient, b * scale)
        rest = ((a * scale - made.high) - made.low).unless(quotient.equals(0.0) & (size < np.inf), a)
        is_above = quotient.equals(floor) & ((rest < 0.0) ^ (b < 0.0)) & ((rest < 0.0) | (rest > 0.0))
        return floor.unless(is_above, floor - 1.0)
    return (a.widen(DOUBLE) / b.widen(DOUBLE)).unary("floor").narrow(a.element)


_UNDER = 1.0 - 2.0**-52
"""What a quotient is multiplied by so that rounding cannot make it too great: less than 1 by two units of double
precision, and a quotient and this product err by half a unit each."""


@single
def _real_remainder(a: Lanes, b: Lanes) -> Lanes:
    """The exact remainder with the sign of a, as C's `fmod`: each turn takes 51 bits off the quotient; or one, where
    there are no instructions for doubles."""
    if not a.e.target.has_doubles:
        return remainder(a, b)
    e, divisor = a.e, b.unary("fabs").widen(DOUBLE)

    def turn(state: State) -> State:
        rest = Lanes(e, state[0])
        quotient = (rest / divisor * _UNDER).unary("trunc").at_least(1.0)
        return [e.intrinsic("fma", (-quotient).value, divisor.value, rest.value)]

    start = a.unary("fabs").widen(DOUBLE)
    (found,) = repeat(e, [start.value], lambda state: (Lanes(e, state[0]) >= divisor).value, turn)
    return b.equals(b).where(Lanes(e, found).narrow(a.element).sign_of(a), b)


@single
def _real_modulo(a: Lanes, b: Lanes) -> Lanes:
    """The remainder with the sign of b."""
    rest = Lanes(a.e, _real_remainder(a.e, a.value, b.value))
    corrected = rest.unless((b < 0.0) ^ (rest < 0.0), rest + b)
    return corrected.unless(rest.equals(0.0), rest.sign_of(b))


def _may_fail(is_sound: Callable[[Array], Any], reals: bool, call: Call) -> bool:
    """Whether elements of the result may be errors that are found as they are computed."""
    divisor = call.input(1)
    known = divisor.data is not None and bool(is_sound(divisor.data))
    return (reals or not is_real(divisor.dtype)) and not known and not is_single(divisor)


_BY_ZERO = partial(_may_fail, np.all, False)
"""Whether integers may be divided by zero, as far as is known."""


def _other_reals(call: Call) -> str | None:
    """Refuses real numbers that are not in single precision."""
    dtype = call.input(0).dtype
    return f"element type {dtype.value}" if is_real(dtype) and dtype is not DType.FLOAT32 else None


def _refuses_integers(call: Call) -> str | None:
    """Refuses what are no real numbers."""
    dtype = call.input(0).dtype
    return None if is_real(dtype) else f"element type {dtype.value}"


_refuses_real = all_of(refuses_activation, _other_reals)
"""Refuses what `refuses_activation` does, and double and half precision."""


def _divide_reals(node: Node[Any]) -> tuple[Value]:
    """Of two tensors that broadcast, the quotients."""
    return activated(node, lambda e, dtype, v: e.builder.fdiv(*v))


def _divide(node: Node[Any]) -> tuple[Value]:
    """Of two tensors of integers that broadcast, the quotients, rounded towards zero."""
    return activated(node, _not_by_zero(node, _truncating))


def _floor_divide(node: Node[Any]) -> tuple[Value]:
    """Of two tensors that broadcast, the quotients rounded down."""
    real = is_real(node.input(0).dtype)
    return elementwise(node, _not_by_zero(node, (lambda e, dtype, v: _real_floored(e, *v)) if real else _floored))


def _rest(of_real: Function, of_integers: Combine, node: Node[Any]) -> tuple[Value]:
    """Of two tensors that broadcast, the remainders."""
    if is_real(node.input(0).dtype):
        return elementwise(node, lambda e, dtype, v: of_real(e, *v))
    return elementwise(node, _not_by_zero(node, of_integers))


for _op in (ops.Div, ops.StablehloDivide):
    fused(_op, all_of(refuses_activation, _refuses_integers), opaque=frozenset({0, 1}), name=REAL)(_divide_reals)
    fused(_op, refuses_activation, may_fail=_BY_ZERO)(_divide)
fused(ops.FloorDiv, _refuses_real, may_fail=partial(_may_fail, np.all, True))(_floor_divide)
fused(ops.FloorMod, _refuses_real, may_fail=_BY_ZERO)(partial(_rest, _real_modulo, _modulo))
fused(ops.StablehloRemainder, _refuses_real, may_fail=_BY_ZERO)(partial(_rest, _real_remainder, _remainder))


def _integer_power(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """By squaring, a loop over the exponent's bits; wraps."""
    b, zero, one = e.builder, e.constant(0, dtype), e.constant(1, dtype)

    def turn(state: State) -> State:
        found, base, exponent = state
        is_odd = b.icmp_unsigned("!=", b.and_(exponent, one), zero)
        return [b.select(is_odd, b.mul(found, base), found), b.mul(base, base), b.lshr(exponent, one)]

    return repeat(e, [one, *values], lambda state: b.icmp_unsigned("!=", state[2], zero), turn)[0]


def _constant_power(exponent: int) -> Combine:
    """By squaring, in as many products as it takes."""
    def combine(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
        found, base = e.constant(1, dtype), values[0]
        for digit in f"{exponent:b}"[::-1]:
            found = mul(e, dtype, [found, base]) if digit == "1" else found
            base = mul(e, dtype, [base, base])
        return found

    return combine


@single
def _root(x: Lanes) -> Lanes:
    """x ** 0.5, which differs from the square root for -0 and -inf."""
    return (x + 0.0).unary("sqrt").unless(x.equals(-np.inf), np.inf)


@single
def _cube(x: Lanes) -> Lanes:
    """x ** 3, correctly rounded; where there are no instructions for doubles, to 1 ULP."""
    if not x.e.target.has_doubles:
        return x * x * x
    return (x.widen(DOUBLE) * x.widen(DOUBLE) * x.widen(DOUBLE)).narrow(x.element)


_SIMPLE_POWERS: dict[float, Function] = {
    -1.0: single(lambda x: 1.0 / x),
    -0.5: single(lambda x: 1.0 / Lanes(x.e, _root(x.e, x.value))),
    0.5: _root,
    1.0: single(lambda x: x),
    2.0: single(lambda x: x * x),
    3.0: _cube,
}
"""Powers that need no logarithm, by exponent."""
_CORRECT = frozenset({-1.0, 0.5, 1.0, 2.0})
"""The exponents of those which one rounding makes of doubles, too."""


def _real_power(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """Of doubles by the C library's function."""
    return e.intrinsic("pow", *values) if dtype is DType.FLOAT64 else math.power(e, *values)


def _are_natural(exponents: Array) -> Any:
    """Whether no exponent is negative."""
    return np.all(exponents >= 0)


def _power(node: Node[Any]) -> tuple[Value]:
    """Of two tensors that broadcast, the powers: by what `_SIMPLE_POWERS` has for a constant exponent, by squaring for
    integers, else by `_real_power`."""
    dtype, known = node.input(0).dtype, node.input(1).known
    exponent = known.item() if known is not None and known.size == 1 else None
    if is_real(dtype):
        simple = _SIMPLE_POWERS.get(exponent) if exponent is not None else None
        if dtype is DType.FLOAT64 and exponent not in _CORRECT:
            simple = None
        if simple is not None:
            return elementwise(node, lambda e, _, v: simple(e, v[0]))
        return elementwise(node, _real_power)
    if exponent is not None and exponent >= 0:
        return elementwise(node, _constant_power(exponent))
    if dtype in UNSIGNED:
        return elementwise(node, _integer_power)
    return elementwise(node, checked(
        node, lambda e, element: compare(e, dtype, ">=", element, e.constant(0, dtype)),
        _are_natural, "an integer to a negative power", _integer_power))


fused(ops.Pow, plain, may_fail=partial(_may_fail, _are_natural, False))(_power)
fused(ops.StablehloPower, plain, may_fail=partial(_may_fail, _are_natural, False))(_power)
