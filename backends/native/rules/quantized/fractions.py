"""Fractions with 31 bits behind the point, as i64: gemmlowp's arithmetic, as the numpy backend has it."""

from __future__ import annotations

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.rules.quantized.requantize import clamped


def product(e: Emitter, one: ir.Value, other: ir.Value | int) -> ir.Value:
    """Of two fractions, halves rounded up."""
    factor = e.wide(other) if isinstance(other, int) else other
    return e.builder.ashr(e.builder.add(e.builder.mul(one, factor), e.wide(1 << 30)), e.wide(31))


def saturated(e: Emitter, value: ir.Value) -> ir.Value:
    """Limited to 32 bits."""
    return clamped(e, value, -(1 << 31), (1 << 31) - 1)


def shift_right(e: Emitter, value: ir.Value, bits: ir.Value) -> ir.Value:
    """`value / 2 ** bits`, halves rounded away from zero."""
    b = e.builder
    half = b.lshr(b.shl(e.wide(1), bits), e.wide(1))
    above = b.ashr(b.add(value, half), bits)
    below = b.neg(b.ashr(b.sub(half, value), bits))
    return e.select(b.icmp_signed("<", value, e.wide(0)), below, above)
