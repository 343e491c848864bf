"""Sums, products, quotients and comparisons of real numbers (IEEE 754, 5.4 and 5.11), rounded to nearest, of two the
even one. What is not a number comes out as one pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.aot.builtins.body import Body, Function, Word
from circlet.runtime.records import dataclass

Parts: TypeAlias = "tuple[Word, Word]"
"""An exponent and digits."""


@dataclass(frozen=True)
class Format:
    """How a real number lies in bits.

    Attributes:
        bits: of all.
        digits: of the fraction.
    """

    bits: int
    digits: int

    @property
    def real(self) -> ir.Type:
        """Its type."""
        return ir.FloatType() if self.bits == 32 else ir.DoubleType()

    @property
    def suffix(self) -> str:
        """What names of libgcc's call it."""
        return "sf" if self.bits == 32 else "df"

    @property
    def letter(self) -> str:
        """What names of Arm's call it."""
        return "f" if self.bits == 32 else "d"

    @property
    def bias(self) -> int:
        """Of the exponent."""
        return (1 << (self.bits - self.digits - 2)) - 1

    @property
    def sign(self) -> int:
        """The pattern of -0."""
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        """Its pattern."""
        return (2 * self.bias + 1) << self.digits

    @property
    def nothing(self) -> int:
        """The pattern of what is not a number."""
        return self.infinity | 1 << (self.digits - 1)

    def magnitude(self, x: Word) -> Word:
        """A pattern without its sign."""
        return x & (self.sign - 1)

    def normal_parts(self, magnitude: Word) -> Parts:
        """The same of a normal number."""
        digits = (magnitude & ((1 << self.digits) - 1)) | 1 << self.digits
        return (magnitude >> self.digits).low(32) - (self.bias + self.digits), digits

    def parts(self, magnitude: Word) -> Parts:
        """The exponent, of 32 bits, and the digits of a finite number: an integer times a power of 2."""
        field, fraction = magnitude >> self.digits, magnitude & ((1 << self.digits) - 1)
        is_normal = field.differs(0)
        digits = is_normal.choose(fraction | 1 << self.digits, fraction)
        return (is_normal.choose(field, 1) - (self.bias + self.digits)).low(32), digits


SINGLE, DOUBLE = Format(32, 23), Format(64, 52)


def jammed(x: Word, rest: Word) -> Word:
    """A number whose last bit tells also of digits that come after it."""
    return x | rest.differs(0).wide(x.bits)


def leave_rounded(by: Format, f: Body, sign: Word, exponent: Word, digits: Word) -> None:
    """Ends a function with the real number nearest to digits, an integer at least as wide that is not 0, times a power
    of 2."""
    width = digits.bits
    exponent, digits = f.repeat([exponent, digits], lambda _, x: ~x.less(0), lambda e, x: [e - 1, x << 1])
    field = exponent + (width - 2 + by.bias)
    with f.when(~field.below(2 * by.bias)):
        name, arguments = f"circlet_extreme_{width}_{by.bits}", (by.bits, 32, width)
        f.leave(*f.call(Function(name, (by.bits,), arguments, partial(_extreme, by)), sign, field, digits))
    f.leave(_rounded(by, sign, field.wide(by.bits), digits))


def _rounded(by: Format, sign: Word, field: Word, digits: Word) -> Word:
    """The pattern of a number: its digits add 1 to the exponent if they begin with 1."""
    below = digits.bits - 1 - by.digits
    kept = digits >> below
    is_above = ((digits & ((1 << below) - 1)) + (kept & 1) + ((1 << (below - 1)) - 1)) >> below
    return sign | ((field << by.digits) + (kept + is_above).low(by.bits))


def _extreme(by: Format, f: Body, sign: Word, field: Word, digits: Word) -> None:
    """Where the exponent is too great, or too small for as many digits."""
    with f.when(~field.less(0)):
        f.leave(sign | by.infinity)
    _, digits = f.repeat([field, digits], lambda e, x: e.less(0) & ~x.below(2),
                         lambda e, x: [e + 1, (x >> 1) | (x & 1)])
    f.leave(_rounded(by, sign, f.number(0, by.bits), digits))


def _sum(by: Format, f: Body, x: Word, y: Word) -> None:
    swaps = by.magnitude(x).below(by.magnitude(y))
    x, y = swaps.choose(y, x), swaps.choose(x, y)
    if f.is_small:
        _sum_in_order(by, f, x, y)
        return
    greater, lesser = by.magnitude(x), by.magnitude(y)
    with f.when(~greater.below(by.infinity) | lesser.below(1 << by.digits)):
        f.leave(*f.call(_slow("add", by, _sum_in_order), x, y))
    _leave_sum(by, f, x, y, by.normal_parts(greater), by.normal_parts(lesser))


def _slow(name: str, by: Format, write: Callable[[Format, Body, Word, Word], None]) -> Function:
    """What is called where a number is not normal, where code is not to be small."""
    return Function(f"circlet_{name}_{by.bits}", (by.bits,), (by.bits, by.bits), partial(write, by))


def _sum_in_order(by: Format, f: Body, x: Word, y: Word) -> None:
    """Of the number with the greater magnitude and the other one."""
    greater, lesser, differs = by.magnitude(x), by.magnitude(y), (x ^ y).less(0)
    with f.when(~greater.below(by.infinity)):
        is_nothing = f.number(by.infinity, by.bits).below(greater) | (differs & lesser.equals(greater))
        f.leave(is_nothing.choose(f.number(by.nothing, by.bits), x))
    _leave_sum(by, f, x, y, by.parts(greater), by.parts(lesser))


def _leave_sum(by: Format, f: Body, x: Word, y: Word, of_x: Parts, of_y: Parts) -> None:
    (exponent, digits), (other, others) = of_x, of_y
    free = by.bits - 2 - by.digits
    digits, others = digits << free, others << free
    distance = exponent - other
    distance = distance.below(by.bits - 1).choose(distance, by.bits - 1).wide(by.bits)
    moved = others >> distance
    others = jammed(moved, others ^ (moved << distance))
    total = (x ^ y).less(0).choose(digits - others, digits + others)
    with f.when(total.equals(0)):
        f.leave(x & y & by.sign)
    leave_rounded(by, f, x & by.sign, exponent - free, total)


def _difference(by: Format, add: Function, f: Body, x: Word, y: Word) -> None:
    f.leave(*f.call(add, x, y ^ by.sign))


def _normal(by: Format, f: Body, magnitude: Word) -> Parts:
    """The parts of a number that is neither 0 nor infinite, with as many digits as there can be."""
    exponent, digits = f.repeat(by.parts(magnitude), lambda _, digits: digits.below(1 << by.digits),
                                lambda exponent, digits: [exponent - 1, digits << 1])
    return exponent, digits


def _upper_product(by: Format, x: Word, y: Word) -> Word:
    """The product of the digits of two numbers without its last digits, 16 or 64 of them, which are jammed."""
    half = by.bits // 2
    (a, b), (c, d) = ((each >> half, each & ((1 << half) - 1)) for each in (x, y))
    least, first, second = b * d, a * d, b * c
    if by.bits == 32:
        return jammed((a * c << 16) + first + second + (least >> 16), least & 0xFFFF)
    middle = (least >> 32) + (first & 0xFFFFFFFF) + (second & 0xFFFFFFFF)
    return jammed(a * c + (first >> 32) + (second >> 32) + (middle >> 32), (middle << 32) | (least & 0xFFFFFFFF))


def _product(by: Format, f: Body, x: Word, y: Word) -> None:
    if f.is_small:
        _any_product(by, f, x, y)
        return
    one, other = by.magnitude(x), by.magnitude(y)
    are_normal = [((each >> by.digits) - 1).below(2 * by.bias) for each in (one, other)]
    with f.when(~(are_normal[0] & are_normal[1])):
        f.leave(*f.call(_slow("multiply", by, _any_product), x, y))
    _leave_product(by, f, (x ^ y) & by.sign, by.normal_parts(one), by.normal_parts(other))


def _any_product(by: Format, f: Body, x: Word, y: Word) -> None:
    """Of numbers of any kind."""
    sign, one, other = (x ^ y) & by.sign, by.magnitude(x), by.magnitude(y)
    infinity = f.number(by.infinity, by.bits)
    has_zero = one.equals(0) | other.equals(0)
    with f.when(~one.below(by.infinity) | ~other.below(by.infinity)):
        is_nothing = infinity.below(one) | infinity.below(other) | has_zero
        f.leave(is_nothing.choose(f.number(by.nothing, by.bits), sign | infinity))
    with f.when(has_zero):
        f.leave(sign)
    _leave_product(by, f, sign, _normal(by, f, one), _normal(by, f, other))


def _leave_product(by: Format, f: Body, sign: Word, of_x: Parts, of_y: Parts) -> None:
    (exponent, digits), (second, others) = of_x, of_y
    free = 0 if by.bits == 32 else by.bits - 1 - by.digits
    found = _upper_product(by, digits << free, others << free)
    leave_rounded(by, f, sign, exponent + second + (16 if by.bits == 32 else by.bits - 2 * free), found)


def _quotient(by: Format, f: Body, x: Word, y: Word) -> None:
    """Digit by digit, with three more than a number has."""
    sign, one, other = (x ^ y) & by.sign, by.magnitude(x), by.magnitude(y)
    infinity, nothing = f.number(by.infinity, by.bits), f.number(by.nothing, by.bits)
    with f.when(infinity.below(one) | infinity.below(other)):
        f.leave(nothing)
    with f.when(~one.below(infinity) | other.equals(0)):
        f.leave((one.equals(other)).choose(nothing, sign | infinity))
    with f.when(one.equals(0) | ~other.below(infinity)):
        f.leave(sign)
    (exponent, rest), (second, divisor) = _normal(by, f, one), _normal(by, f, other)
    more = by.digits + 3

    def turn(left: Word, quotient: Word, rest: Word) -> list[Word]:
        is_in = ~rest.below(divisor)
        return [left - 1, (quotient << 1) | is_in.wide(by.bits), is_in.choose(rest - divisor, rest) << 1]

    _, quotient, rest = f.repeat([f.number(more + 1, 32), f.number(0, by.bits), rest],
                                 lambda left, *_: left.differs(0), turn)
    leave_rounded(by, f, sign, exponent - second - more, jammed(quotient, rest))


@dataclass(frozen=True)
class _Order:
    """Bits that tell of two numbers how they compare."""

    less: Word
    equal: Word
    unordered: Word


def _order(by: Format, f: Body, x: Word, y: Word) -> _Order:
    infinity, one, other = f.number(by.infinity, by.bits), by.magnitude(x), by.magnitude(y)
    equal = x.equals(y) | (one | other).equals(0)
    less = (x & y).less(0).choose(y.less(x), x.less(y)) & ~equal
    unordered = infinity.below(one) | infinity.below(other)
    return _Order(less & ~unordered, equal & ~unordered, unordered)


def _truth(by: Format, tells: Callable[[_Order], Word], f: Body, x: Word, y: Word) -> None:
    """1 or 0."""
    f.leave(tells(_order(by, f, x, y)).wide(32))


def _three_way(by: Format, of_unordered: int, f: Body, x: Word, y: Word) -> None:
    """-1, 0 or 1, as x is less than y, equal or greater."""
    order = _order(by, f, x, y)
    found = order.less.choose(f.number(-1, 32), order.equal.choose(f.number(0, 32), 1))
    f.leave(order.unordered.choose(f.number(of_unordered, 32), found))


_ARITHMETIC = {"add": _sum, "mul": _product, "div": _quotient}
_TESTS: dict[str, Callable[[_Order], Word]] = {
    "eq": lambda order: order.equal, "lt": lambda order: order.less, "le": lambda order: order.less | order.equal,
    "gt": lambda order: ~(order.less | order.equal | order.unordered),
    "ge": lambda order: ~(order.less | order.unordered), "un": lambda order: order.unordered}
_OF_UNORDERED = {"eq": 1, "ne": 1, "lt": 1, "le": 1, "gt": -1, "ge": -1}
"""What comparisons give for what is not a number."""


def _functions(by: Format) -> Iterator[Function]:
    pair = (by.real, by.real)
    for name, write in _ARITHMETIC.items():
        for called in (f"__{name}{by.suffix}3", f"__aeabi_{by.letter}{name}"):
            yield Function(called, (by.real,), pair, partial(write, by))
    for called in (f"__{{}}{by.suffix}3", f"__aeabi_{by.letter}{{}}"):
        add = Function(called.format("add"), (by.real,), pair, partial(_sum, by))
        yield Function(called.format("sub"), (by.real,), pair, partial(_difference, by, add))
    for name, unordered in _OF_UNORDERED.items():
        yield Function(f"__{name}{by.suffix}2", (32,), pair, partial(_three_way, by, unordered))
    for name, tells in _TESTS.items():
        yield Function(f"__aeabi_{by.letter}cmp{name}", (32,), pair, partial(_truth, by, tells))
    yield Function(f"__unord{by.suffix}2", (32,), pair, partial(_truth, by, _TESTS["un"]))


REALS = {each.name: each for by in (SINGLE, DOUBLE) for each in _functions(by)}
"""By name."""
