"""Division, products and shifts of integers, and how many zeros they begin with."""

from __future__ import annotations

from functools import partial

from circlet.backends.native.aot.builtins.body import Body, Function, Word


def _divided_by_bits(f: Body, number: Word, divisor: Word) -> None:
    """The quotient and the remainder, bit by bit: the divisor is doubled as often as it stays within the number."""
    def fits(bit: Word, multiple: Word) -> Word:
        return multiple.below(number) & ~multiple.less(0)

    bit, multiple = f.repeat([f.number(1, number.bits), divisor], fits, lambda *state: [each << 1 for each in state])

    def turn(bit: Word, multiple: Word, rest: Word, quotient: Word) -> list[Word]:
        is_in = ~rest.below(multiple)
        return [bit >> 1, multiple >> 1, is_in.choose(rest - multiple, rest), is_in.choose(quotient | bit, quotient)]

    *_, rest, quotient = f.repeat([bit, multiple, number, f.number(0, number.bits)],
                                  lambda bit, *_: bit.differs(0), turn)
    f.leave(quotient, rest)


def _digit(rest: Word, following: Word, divisor: Word) -> tuple[Word, Word]:
    """A digit of 16 bits of a quotient, and what is left: the estimate by the first half of the divisor is at most 2
    too great (Knuth, The Art of Computer Programming, 4.3.1)."""
    first, second = divisor >> 16, divisor & 0xFFFF
    digit = rest // first
    left = rest - digit * first
    for _ in range(2):
        is_above = ~digit.below(1 << 16) | ((left << 16) | following).below(digit * second)
        is_above &= left.below(1 << 16)
        digit, left = digit - is_above.wide(32), is_above.choose(left + first, left)
    return digit, ((rest << 16) | following) - digit * divisor


def _divided_in_halves(f: Body, high: Word, low: Word, divisor: Word) -> None:
    """The quotient, of 32 bits, and the remainder of a number of 64 bits by one of 32 that begins with 1."""
    first, rest = _digit(high, low >> 16, divisor)
    second, rest = _digit(rest, low & 0xFFFF, divisor)
    f.leave((first << 16) | second, rest)


_HALVES = Function("circlet_divide_halves", (32, 32), (32, 32, 32), _divided_in_halves)


def _moved(high: Word, low: Word, count: Word) -> Word:
    """The first half of a number of 64 bits that is moved to the left by less than 32."""
    return (high << count) | ((low >> 1) >> (count ^ 31))


def _divided_by_halves(f: Body, number: Word, divisor: Word) -> None:
    """The quotient and the remainder of 64 bits by divisions of 32 (Warren, Hacker's Delight, 9-5)."""
    high, low, upper, lower = number.high(32), number.low(32), divisor.high(32), divisor.low(32)
    with f.when(upper.equals(0)):
        with f.when(high.equals(0)):
            quotient = low // lower
            f.leave(quotient.wide(64), (low - quotient * lower).wide(64))
        first = high // lower
        count, rest = lower.leading_zeros(), high - first * lower
        second, rest = f.call(_HALVES, _moved(rest, low, count), low << count, lower << count)
        f.leave(first.beside(second), (rest >> count).wide(64))
    with f.when(number.below(divisor)):
        f.leave(f.number(0, 64), number)
    count, half = upper.leading_zeros(), number >> 1
    quotient, _ = f.call(_HALVES, half.high(32), half.low(32), _moved(upper, lower, count))
    quotient = quotient >> (count ^ 31)
    quotient -= quotient.differs(0).wide(32)
    rest = number - quotient.wide(64) * divisor
    is_above = ~rest.below(divisor)
    f.leave((quotient + is_above.wide(32)).wide(64), is_above.choose(rest - divisor, rest))


def _divided(f: Body, number: Word, divisor: Word) -> None:
    (_divided_by_halves if number.bits == 64 and f.word == 32 else _divided_by_bits)(f, number, divisor)


def _divide(bits: int) -> Function:
    """The quotient and the remainder of unsigned numbers."""
    return Function(f"circlet_divide_{bits}", (bits, bits), (bits, bits), _divided)


def _unsigned(f: Body, number: Word, divisor: Word) -> list[Word]:
    return f.call(_divide(number.bits), number, divisor)


def _signed(f: Body, number: Word, divisor: Word) -> list[Word]:
    """The quotient, rounded towards 0, and the remainder, with the sign of the number."""
    sign, other = (each.shifted(number.bits - 1) for each in (number, divisor))
    quotient, rest = _unsigned(f, (number ^ sign) - sign, (divisor ^ other) - other)
    both = sign ^ other
    return [(quotient ^ both) - both, (rest ^ sign) - sign]


def _both(is_signed: bool, f: Body, number: Word, divisor: Word) -> None:
    f.leave(*(_signed if is_signed else _unsigned)(f, number, divisor))


def _one(is_signed: bool, which: int, f: Body, number: Word, divisor: Word) -> None:
    f.leave((_signed if is_signed else _unsigned)(f, number, divisor)[which])


def _product(f: Body, one: Word, other: Word) -> None:
    """Bit by bit."""
    def turn(total: Word, one: Word, other: Word) -> list[Word]:
        return [total + (one & -(other & 1)), one << 1, other >> 1]

    f.leave(f.repeat([f.number(0, one.bits), one, other], lambda *state: state[2].differs(0), turn)[0])


def _long_product(f: Body, one: Word, other: Word) -> None:
    """Of 64 bits, by products of 32, which give the last 32 bits alone."""
    a, b = one.low(32), other.low(32)
    (c, d), (p, q) = ((each >> 16, each & 0xFFFF) for each in (a, b))
    least = d * q
    first = c * q + (least >> 16)
    second = d * p + (first & 0xFFFF)
    high = c * p + (first >> 16) + (second >> 16) + one.high(32) * b + a * other.high(32)
    f.leave(high.beside((second << 16) | (least & 0xFFFF)))


def _left(f: Body, number: Word, count: Word) -> None:
    high, low = number.high(32), number.low(32)
    with f.when(~count.below(32)):
        f.leave((low << (count - 32)).beside(f.number(0, 32)))
    f.leave(_moved(high, low, count).beside(low << count))


def _right(is_signed: bool, f: Body, number: Word, count: Word) -> None:
    high, low = number.high(32), number.low(32)
    with f.when(~count.below(32)):
        far = count - 32
        f.leave(high.shifted(31).beside(high.shifted(far)) if is_signed else (high >> far).wide(64))
    first = high.shifted(count) if is_signed else high >> count
    f.leave(first.beside((low >> count) | ((high << 1) << (count ^ 31))))


def _zeros(f: Body, number: Word) -> None:
    """By halves."""
    count = f.number(0, number.bits)
    for step in (16, 8, 4, 2, 1):
        is_small = (number >> (32 - step)).equals(0)
        count = is_small.choose(count + step, count)
        number = is_small.choose(number << step, number)
    f.leave(count + (~number >> 31))


def _quotients(bits: int, suffix: str) -> dict[str, Function]:
    found = {name: partial(_one, is_signed, which) for name, is_signed, which in (
        ("udiv", False, 0), ("umod", False, 1), ("div", True, 0), ("mod", True, 1))}
    return {f"__{name}{suffix}3": Function(f"__{name}{suffix}3", (bits,), (bits, bits), write)
            for name, write in found.items()}


_ARM = (
    Function("__aeabi_uidiv", (32,), (32, 32), partial(_one, False, 0)),
    Function("__aeabi_idiv", (32,), (32, 32), partial(_one, True, 0)),
    Function("__aeabi_uidivmod", (32, 32), (32, 32), partial(_both, False)),
    Function("__aeabi_idivmod", (32, 32), (32, 32), partial(_both, True)),
    Function("__aeabi_uldivmod", (64, 64), (64, 64), partial(_both, False)),
    Function("__aeabi_ldivmod", (64, 64), (64, 64), partial(_both, True)),
    Function("__aeabi_lmul", (64,), (64, 64), _long_product),
)
_SHIFTS = (("__ashldi3", "__aeabi_llsl", _left), ("__lshrdi3", "__aeabi_llsr", partial(_right, False)),
           ("__ashrdi3", "__aeabi_lasr", partial(_right, True)))
_OTHERS = (
    Function("__mulsi3", (32,), (32, 32), _product),
    Function("__muldi3", (64,), (64, 64), _product),
    Function("__clzsi2", (32,), (32,), _zeros),
    *(Function(name, (64,), (64, 32), write) for *names, write in _SHIFTS for name in names),
)
INTEGERS = {each.name: each for each in (*_ARM, *_OTHERS)} | _quotients(32, "si") | _quotients(64, "di")
"""By name."""
