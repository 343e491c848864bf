"""Functions of real numbers that processors may have no instructions for, made of those that all have.

Each takes and gives scalars or vectors of float32 or float64, and has the results of the instruction: integers of IEEE
754 (5.3.1, 5.9), and the fused product rounded once (5.4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Protocol

from llvmlite import ir

from circlet.runtime.records import dataclass

_SINGLE, _DOUBLE = ir.FloatType(), ir.DoubleType()


class Writer(Protocol):
    """What writes a function."""

    builder: ir.IRBuilder

    def intrinsic(self, name: str, *arguments: ir.Value, flags: Sequence[str] = ()) -> ir.Value:
        """Calls an intrinsic whose arguments and result have one type."""
        ...

    def widened(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A real number as a wider type."""
        ...

    def narrowed(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A real number as a narrower type, rounded once."""
        ...


@dataclass(frozen=True)
class _Format:
    """How a real number lies in bits.

    Attributes:
        real: its type, perhaps a vector.
        integer: that of its pattern.
        digits: of the fraction.
        bias: of the exponent.
    """

    real: ir.Type
    integer: ir.Type
    digits: int
    bias: int

    @classmethod
    def of(cls, kind: ir.Type) -> _Format:
        """The format of a type."""
        element = kind.element if isinstance(kind, ir.VectorType) else kind
        bits, digits = (32, 23) if element == _SINGLE else (64, 52)
        return cls(kind, _like(kind, ir.IntType(bits)), digits, (1 << (bits - digits - 2)) - 1)

    @property
    def bits(self) -> int:
        """Of a number."""
        return 32 if self.digits == 23 else 64

    def pattern(self, value: int) -> ir.Constant:
        """An integer, in all lanes."""
        return _constant(self.integer, value)

    def number(self, value: float) -> ir.Constant:
        """A real number, in all lanes."""
        return _constant(self.real, value)


def _like(kind: ir.Type, element: ir.Type) -> ir.Type:
    return ir.VectorType(element, kind.count) if isinstance(kind, ir.VectorType) else element


def _constant(kind: ir.Type, value: float) -> ir.Constant:
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [ir.Constant(kind.element, value)] * kind.count)
    return ir.Constant(kind, value)


def trunc(e: Writer, x: ir.Value) -> ir.Value:
    """The integer nearest to it on the side of 0: as many digits of the fraction are left as the exponent says."""
    b, by = e.builder, _Format.of(x.type)
    bits = b.bitcast(x, by.integer)
    exponent = b.sub(b.and_(b.lshr(bits, by.pattern(by.digits)), by.pattern(2 * by.bias + 1)), by.pattern(by.bias))
    is_small = b.icmp_signed("<", exponent, by.pattern(0))
    is_large = b.icmp_signed(">=", exponent, by.pattern(by.digits))
    left = b.select(b.or_(is_small, is_large), by.pattern(0), exponent)
    rest = b.lshr(by.pattern((1 << by.digits) - 1), left)
    cut = b.and_(bits, b.xor(rest, by.pattern(-1)))
    sign = b.and_(bits, by.pattern(-1 << (by.bits - 1)))
    return b.bitcast(b.select(is_small, sign, b.select(is_large, bits, cut)), by.real)


def floor(e: Writer, x: ir.Value) -> ir.Value:
    """The greatest integer that is not greater."""
    b, by, near = e.builder, _Format.of(x.type), trunc(e, x)
    return b.select(b.fcmp_ordered(">", near, x), b.fsub(near, by.number(1.0)), near)


def ceil(e: Writer, x: ir.Value) -> ir.Value:
    """The least integer that is not less."""
    b, by, near = e.builder, _Format.of(x.type), trunc(e, x)
    above = e.intrinsic("copysign", b.fadd(near, by.number(1.0)), x)
    return b.select(b.fcmp_ordered("<", near, x), above, near)


def rint(e: Writer, x: ir.Value) -> ir.Value:
    """The nearest integer, of two the even one: numbers as large as 2 to the digits have no fraction."""
    b, by = e.builder, _Format.of(x.type)
    magnitude, large = e.intrinsic("fabs", x), by.number(float(1 << by.digits))
    near = b.fsub(b.fadd(magnitude, large), large)
    return e.intrinsic("copysign", b.select(b.fcmp_ordered("<", magnitude, large), near, magnitude), x)


def maximum(e: Writer, x: ir.Value, y: ir.Value) -> ir.Value:
    """The greater one; NaN if either is; 0 is greater than -0."""
    b, by = e.builder, _Format.of(x.type)
    greater = b.select(b.fcmp_ordered(">", x, y), x, y)
    both = b.bitcast(b.and_(b.bitcast(x, by.integer), b.bitcast(y, by.integer)), by.real)
    greater = b.select(b.fcmp_ordered("==", x, y), both, greater)
    return b.select(b.fcmp_unordered("uno", x, y), b.fadd(x, y), greater)


def minnum(e: Writer, x: ir.Value, y: ir.Value) -> ir.Value:
    """The lesser one; the number where the other is NaN."""
    b = e.builder
    return b.select(b.or_(b.fcmp_ordered("<", x, y), b.fcmp_unordered("uno", y, y)), x, y)


def maxnum(e: Writer, x: ir.Value, y: ir.Value) -> ir.Value:
    """The greater one; the number where the other is NaN."""
    b = e.builder
    return b.select(b.or_(b.fcmp_ordered(">", x, y), b.fcmp_unordered("uno", y, y)), x, y)


def fma(e: Writer, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x y + z of float32, rounded once: the product is exact in float64, and the sum is rounded to odd, so that
    rounding it again gives what rounding it once does (Boldo and Melquiond, Emulation of a FMA and Correctly Rounded
    Sums, 2008).

    Of float64, where the product neither overflows nor has digits below the least: the product as two numbers by
    Dekker's method, then the same.
    """
    b = e.builder
    if _Format.of(x.type).digits == 23:
        wide = _like(x.type, _DOUBLE)
        product = b.fmul(b.fpext(x, wide), b.fpext(y, wide))
        return b.fptrunc(_odd_sum(e, product, b.fpext(z, wide)), x.type)
    high, low = _product(e, x, y)
    first, rest = _sum(e, z, low)
    total, error = _sum(e, high, first)
    return b.fadd(total, _odd_sum(e, error, rest))


def _sum(e: Writer, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The sum and what rounding takes off it (Knuth, The Art of Computer Programming, 4.2.2)."""
    b = e.builder
    total = b.fadd(x, y)
    part = b.fsub(total, x)
    return total, b.fadd(b.fsub(x, b.fsub(total, part)), b.fsub(y, part))


def _product(e: Writer, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The product and what rounding takes off it (Dekker, A Floating-Point Technique for Extending the Available
    Precision, 1971)."""
    b = e.builder
    product, (high, low), (tall, rest) = b.fmul(x, y), _halves(e, x), _halves(e, y)
    error = b.fsub(b.fmul(high, tall), product)
    error = b.fadd(b.fadd(error, b.fmul(high, rest)), b.fmul(low, tall))
    return product, b.fadd(error, b.fmul(low, rest))


def _halves(e: Writer, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """A float64 as a sum of two numbers of 26 digits (Veltkamp)."""
    b = e.builder
    scaled = b.fmul(x, _constant(x.type, float((1 << 27) + 1)))
    high = b.fsub(scaled, b.fsub(scaled, x))
    return high, b.fsub(x, high)


def _odd_sum(e: Writer, x: ir.Value, y: ir.Value) -> ir.Value:
    """The sum of two float64, rounded to odd: if it is not exact, the neighbour whose last digit is 1."""
    b, by = e.builder, _Format.of(x.type)
    total, error = _sum(e, x, y)
    bits = b.bitcast(total, by.integer)
    is_exact = b.fcmp_unordered("==", error, by.number(0.0))
    is_odd = b.icmp_unsigned("!=", b.and_(bits, by.pattern(1)), by.pattern(0))
    differs = b.icmp_signed("<", b.xor(bits, b.bitcast(error, by.integer)), by.pattern(0))
    moved = b.add(bits, b.select(differs, by.pattern(-1), by.pattern(1)))
    return b.bitcast(b.select(b.or_(is_exact, is_odd), bits, moved), by.real)


def sqrt(e: Writer, x: ir.Value) -> ir.Value:
    """The square root of a number, not of a vector, rounded to nearest (IEEE 754, 5.4.1)."""
    module, by = e.builder.module, _Format.of(x.type)
    name = f"circlet_sqrt_{by.bits}"
    return e.builder.call(module.globals.get(name) or _function(module, name, by), [x])


def _function(module: ir.Module, name: str, by: _Format) -> ir.Function:
    """A function of one number, which all calls of a module share."""
    function = ir.Function(module, ir.FunctionType(by.real, [by.real]), name)
    function.linkage = "internal"
    (x,) = function.args
    entry, positive, special = (function.append_basic_block(each) for each in ("entry", "positive", "special"))
    b = ir.IRBuilder(entry)
    is_finite = b.fcmp_ordered("<", x, by.number(inf))
    b.cbranch(b.and_(b.fcmp_ordered(">", x, by.number(0.0)), is_finite), positive, special)
    b.position_at_end(special)
    b.ret(b.select(b.fcmp_ordered("<", x, by.number(0.0)), by.number(nan), x))
    b.position_at_end(positive)
    b.ret(_root(b, by, x))
    return function


def _root(b: ir.IRBuilder, by: _Format, x: ir.Value) -> ir.Value:
    """The square root of a positive number: half of its exponent, and the root of its digits."""
    even = by.digits + by.digits % 2  # by this power of 2 the least numbers are multiplied, which lack digits
    is_small = b.icmp_unsigned("<", b.bitcast(x, by.integer), by.pattern(1 << by.digits))
    bits = b.bitcast(b.select(is_small, b.fmul(x, by.number(float(1 << even))), x), by.integer)
    exponent = b.sub(b.lshr(bits, by.pattern(by.digits)), by.pattern(by.bias))
    fraction = b.or_(b.and_(bits, by.pattern((1 << by.digits) - 1)), by.pattern(1 << by.digits))
    is_odd = b.and_(exponent, by.pattern(1))
    root, rest = _digits(b, by, b.shl(fraction, b.add(is_odd, by.pattern(1))))
    is_inexact = b.icmp_unsigned("!=", rest, by.pattern(0))
    nearest = b.add(root, b.select(is_inexact, b.and_(root, by.pattern(1)), by.pattern(0)))
    half = b.sub(b.ashr(exponent, by.pattern(1)), b.select(is_small, by.pattern(even // 2), by.pattern(0)))
    power = b.shl(b.add(half, by.pattern(by.bias - 1)), by.pattern(by.digits))
    return b.bitcast(b.add(b.lshr(nearest, by.pattern(1)), power), by.real)


def _digits(b: ir.IRBuilder, by: _Format, number: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The root of a number from 1 to 4, with one binary digit more than a fraction has, and what is left: a digit is in
    the root if its square and twice its product with those before are in what is left."""
    before = b.block
    turn, after = (b.function.append_basic_block(each) for each in ("turn", "after"))
    b.branch(turn)
    b.position_at_end(turn)
    digit, root, twice, rest = (b.phi(by.integer) for _ in range(4))
    tried = b.add(twice, digit)
    is_in = b.icmp_unsigned("<=", tried, rest)
    roots = b.select(is_in, b.add(root, digit), root)
    rests = b.shl(b.select(is_in, b.sub(rest, tried), rest), by.pattern(1))
    smaller = b.lshr(digit, by.pattern(1))
    for each, start, later in ((digit, by.pattern(2 << by.digits), smaller), (root, by.pattern(0), roots),
                               (twice, by.pattern(0), b.select(is_in, b.add(tried, digit), twice)),
                               (rest, number, rests)):
        each.add_incoming(start, before)
        each.add_incoming(later, turn)
    b.cbranch(b.icmp_unsigned("==", smaller, by.pattern(0)), after, turn)
    b.position_at_end(after)
    return roots, rests


def extended(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """A half as float32: its digits as those of a number 2 ** 112 times as small, which a product corrects exactly,
    subnormal ones too; what is not finite stays so."""
    whole = _like(x.type, ir.IntType(32))
    single = _like(x.type, _SINGLE)
    bits = b.zext(b.bitcast(x, _like(x.type, ir.IntType(16))), whole)
    magnitude = b.and_(bits, _constant(whole, 0x7FFF))
    moved = b.shl(magnitude, _constant(whole, 13))
    finite = b.bitcast(b.fmul(b.bitcast(moved, single), _constant(single, 2.0**112)), whole)
    is_finite = b.icmp_unsigned("<", magnitude, _constant(whole, 0x7C00))
    found = b.select(is_finite, finite, b.or_(moved, _constant(whole, 0x7F800000)))
    sign = b.shl(b.and_(bits, _constant(whole, 0x8000)), _constant(whole, 16))
    return b.bitcast(b.or_(found, sign), single)


def truncated(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """A float32 as the nearest half, of two the even one. Numbers that become subnormal are rounded by adding a half,
    whose last digit is theirs; others by an integer that carries into what is left of them."""
    whole, half = _like(x.type, ir.IntType(32)), _like(x.type, ir.IntType(16))
    bits = b.bitcast(x, whole)
    magnitude = b.and_(bits, _constant(whole, 0x7FFFFFFF))
    small = b.bitcast(b.fadd(b.bitcast(magnitude, x.type), _constant(x.type, 0.5)), whole)
    small = b.sub(small, _constant(whole, 0x3F000000))
    odd = b.and_(b.lshr(magnitude, _constant(whole, 13)), _constant(whole, 1))
    rounded = b.add(b.add(magnitude, _constant(whole, 0xFFF - (112 << 23))), odd)
    found = b.select(b.icmp_unsigned("<", magnitude, _constant(whole, 0x38800000)), small,
                     b.lshr(rounded, _constant(whole, 13)))
    found = b.select(b.icmp_unsigned("<", magnitude, _constant(whole, 0x47800000)), found, _constant(whole, 0x7C00))
    payload = b.or_(b.and_(b.lshr(magnitude, _constant(whole, 13)), _constant(whole, 0x3FF)), _constant(whole, 0x7E00))
    found = b.select(b.icmp_unsigned(">", magnitude, _constant(whole, 0x7F800000)), payload, found)
    sign = b.and_(b.lshr(bits, _constant(whole, 16)), _constant(whole, 0x8000))
    return b.bitcast(b.trunc(b.or_(found, sign), half), _like(x.type, ir.HalfType()))


SOFT: dict[str, Callable[..., ir.Value]] = {
    "ceil": ceil, "floor": floor, "fma": fma, "maximum": maximum, "maximumnum": maxnum, "maxnum": maxnum,
    "minimumnum": minnum, "minnum": minnum, "rint": rint, "sqrt": sqrt, "trunc": trunc,
}
"""What stands for an intrinsic, by its name."""


def soft(e: Writer, name: str, arguments: Sequence[ir.Value]) -> ir.Value:
    """What stands for an intrinsic. Halves are computed in float32, where integers and extremes of theirs are exact; no
    rule asks for a fused product of these."""
    kind = arguments[0].type
    if (kind.element if isinstance(kind, ir.VectorType) else kind) != ir.HalfType():
        return SOFT[name](e, *arguments)
    assert name != "fma", "it would be rounded twice"
    single = _like(kind, _SINGLE)
    return e.narrowed(e.intrinsic(name, *(e.widened(each, single) for each in arguments)), kind)
