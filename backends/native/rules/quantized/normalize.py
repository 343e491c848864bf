"""Native rule of L2 normalisation of quantised elements: equal to the bit to the numpy backend's."""

from __future__ import annotations

from math import prod

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point_functions import ROOT_HALF
from circlet.backends.native.emit.emitter import I32, I64, Emitter, register_type
from circlet.backends.native.emit.loops import by_length, fold, spread
from circlet.backends.native.emit.parallel import parallel_nests
from circlet.backends.native.rules.figures.figure import offset
from circlet.backends.native.rules.preferences import QUANTIZED
from circlet.backends.native.rules.quantized.requantize import (
    clamped,
    product_of_fractions,
    saturated,
    shift_right,
)
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.refusals import quantized
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.normalize import L2Normalization

_WORK = 24
"""What an element takes."""


@nest(L2Normalization, all_of(quantized, only((DType.INT8, DType.UINT8))), frozenset(), name=QUANTIZED)
def l2_normalization(node: Node[L2Normalization], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., n), int8 or uint8, the same shape, in steps of 1 / 128: each row times the inverse root of the sum of
    its squares, in fixed point. Two loops for each row, shared out."""
    x, b, made = node.input(0), e.builder, node.call.outputs[0].dtype
    *outer, depth = x.shape
    total, source = Register(e, I64), node.function.pointer(x)

    def rows(most: int | None) -> None:
        with loops() as (row,):
            begin, index = b.mul(row, e.number(depth)), e.delinear(row, tuple(outer))

            def element(k: ir.Value) -> ir.Value:
                return offset(e, e.load(source, x.dtype, b.add(begin, k)), node.call.input(0))

            def add(k: ir.Value) -> None:
                value = element(k)
                total.set(b.add(total.get(), b.sext(b.mul(value, value), I64)))

            total.set(e.wide(0))
            fold(e, depth, add, most=most)
            mantissa, shift = _inverse_root(e, total.get())

            def give(k: ir.Value) -> None:
                value = b.trunc(_scaled(e, b.sext(element(k), I64), mantissa, shift, made), register_type(made))
                sinks[0](e, [*index, k], value)

            spread(e, depth, give, most)

    with parallel_nests(e, (prod(outer),), _WORK * x.size) as loops:
        by_length(e, depth, rows)


def _scaled(e: Emitter, value: ir.Value, mantissa: ir.Value, shift: ir.Value, made: DType) -> ir.Value:
    """An element times a number, as one that is stored; an int8 is rounded once, a uint8 as LiteRT's kernel does."""
    b, limits, zero, seven = e.builder, np.iinfo(made.numpy), e.wide(0), e.wide(7)
    if made is DType.UINT8:
        found = shift_right(e, product_of_fractions(e, b.shl(value, seven), mantissa), shift)
        return clamped(e, b.add(found, e.wide(128)), int(limits.min), int(limits.max))
    beyond = b.sub(seven, shift)
    left, right = (e.intrinsic("smax", each, zero) for each in (beyond, b.neg(beyond)))
    found = shift_right(e, product_of_fractions(e, b.shl(value, left), mantissa), right)
    return clamped(e, found, int(limits.min), int(limits.max))


def _inverse_root(e: Emitter, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """See `inverse_square_root` of the numpy backend."""
    b, one, zero = e.builder, e.wide(1), e.wide(0)
    value = e.intrinsic("smax", x, e.wide(2))
    is_large = b.icmp_signed(">=", value, e.wide(1 << 29))
    value = e.select(is_large, b.lshr(value, e.wide(2)), value)
    headroom = b.zext(b.ctlz(b.trunc(value, I32), ir.Constant(ir.IntType(1), 0)), I64)
    pairs = b.sub(b.lshr(b.sub(headroom, one), one), one)
    shift = b.sub(b.add(e.wide(11), b.zext(is_large, I64)), pairs)
    half = b.ashr(b.add(b.lshr(b.shl(value, b.shl(pairs, one)), one), one), one)
    root: ir.Value = e.wide(1 << 28)
    for _ in range(5):
        cube = saturated(e, b.shl(product_of_fractions(e, product_of_fractions(e, root, root), root), e.wide(6)))
        error = b.sub(product_of_fractions(e, root, 3 << 27), product_of_fractions(e, half, cube))
        root = saturated(e, b.shl(error, e.wide(3)))
    mantissa = b.shl(product_of_fractions(e, root, ROOT_HALF), e.intrinsic("smax", b.neg(shift), zero))
    is_one = b.icmp_signed("<=", x, one)
    return (e.select(is_one, e.wide((1 << 31) - 1), mantissa),
            e.select(is_one, zero, e.intrinsic("smax", shift, zero)))
