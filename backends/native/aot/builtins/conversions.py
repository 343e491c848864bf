"""Real numbers of integers, integers of real numbers, and real numbers of the other width (IEEE 754, 5.4)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from circlet.backends.native.aot.builtins.body import Body, Function, Word
from circlet.backends.native.aot.builtins.reals import DOUBLE, SINGLE, Format, leave_rounded

_SUFFIXES = {32: "si", 64: "di"}
"""What names of libgcc's call integers."""


def _real(by: Format, is_signed: bool, f: Body, x: Word) -> None:
    """The real number nearest to an integer."""
    with f.when(x.equals(0)):
        f.leave(f.number(0, by.bits))
    width = max(by.bits, x.bits)
    sign = f.number(0, by.bits)
    if is_signed:
        sign = x.less(0).choose(f.number(by.sign, by.bits), 0)
        filled = x.shifted(x.bits - 1)
        x = (x ^ filled) - filled
    x = x.wide(width)
    exponent, x = f.repeat([f.number(0, 32), x], lambda _, x: x.below(1 << (width - 8)), lambda e, x: [e - 8, x << 8])
    leave_rounded(by, f, sign, exponent, x)


def _integer(by: Format, bits: int, is_signed: bool, f: Body, x: Word) -> None:
    """The integer next to a real number on the side of 0; of numbers beyond the limits the limit, of what is not a
    number 0."""
    magnitude, is_negative, width = by.magnitude(x), x.less(0), max(by.bits, bits)
    exponent = (magnitude >> by.digits).low(32) - by.bias
    with f.when(exponent.less(0) if is_signed else exponent.less(0) | is_negative):
        f.leave(f.number(0, bits))
    with f.when(~exponent.less(bits - is_signed)):
        limit = f.number((1 << (bits - is_signed)) - 1, bits) + (is_negative.wide(bits) if is_signed else 0)
        is_number = ~f.number(by.infinity, by.bits).below(magnitude)
        f.leave(is_number.choose(limit, 0))
    digits = ((magnitude & ((1 << by.digits) - 1)) | 1 << by.digits).wide(width)
    is_long = exponent.less(by.digits)
    right = is_long.choose(f.number(by.digits, 32) - exponent, 0).wide(width)
    left = is_long.choose(f.number(0, 32), exponent - by.digits).wide(width)
    found = ((digits >> right) << left).low(bits)
    f.leave(is_negative.choose(-found, found) if is_signed else found)


def _other(by: Format, to: Format, f: Body, x: Word) -> None:
    """The real number of another format nearest to one."""
    width, magnitude = max(by.bits, to.bits), by.magnitude(x)
    sign = x.less(0).choose(f.number(to.sign, to.bits), 0)
    infinity = f.number(by.infinity, by.bits)
    with f.when(magnitude.equals(0)):
        f.leave(sign)
    with f.when(~magnitude.below(infinity)):
        f.leave(infinity.below(magnitude).choose(f.number(to.nothing, to.bits), sign | to.infinity))
    exponent, digits = by.parts(magnitude)
    leave_rounded(to, f, sign, exponent, digits.wide(width))


def _functions(by: Format) -> Iterator[Function]:
    for bits, is_signed in ((32, True), (32, False), (64, True), (64, False)):
        letter, unsigned = ("l" if bits == 64 else "i"), ("" if is_signed else "un")
        for name in (f"__float{unsigned}{_SUFFIXES[bits]}{by.suffix}",
                     f"__aeabi_{unsigned[:1]}{letter}2{by.letter}"):
            yield Function(name, (by.real,), (bits,), partial(_real, by, is_signed))
        for name in (f"__fix{unsigned + 's' if unsigned else ''}{by.suffix}{_SUFFIXES[bits]}",
                     f"__aeabi_{by.letter}2{unsigned[:1]}{letter}z"):
            yield Function(name, (bits,), (by.real,), partial(_integer, by, bits, is_signed))


CONVERSIONS = {each.name: each for by in (SINGLE, DOUBLE) for each in _functions(by)} | {
    name: Function(name, (to.real,), (by.real,), partial(_other, by, to)) for name, by, to in (
        ("__extendsfdf2", SINGLE, DOUBLE), ("__aeabi_f2d", SINGLE, DOUBLE),
        ("__truncdfsf2", DOUBLE, SINGLE), ("__aeabi_d2f", DOUBLE, SINGLE))}
"""By name."""
