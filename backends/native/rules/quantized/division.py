"""Native rule of the quotients of quantised values, equal to the bit to the numpy backend's."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.quantization import stored_values
from circlet.backends.cpu.quantized_binary import quotient_factor, reciprocal
from circlet.backends.native.emit.emitter import I1, I32, I64, Emitter
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.figures.figure import offset, quantization, stored
from circlet.backends.native.rules.figures.multiplier import GREATEST_SHIFT
from circlet.backends.native.rules.preferences import QUANTIZED
from circlet.backends.native.rules.quantized.requantize import rescale_by
from circlet.backends.native.rules.real.division import checked
from circlet.backends.native.rules.real.elementwise import elementwise
from circlet.backends.native.rules.refusals import quantized
from circlet.backends.native.rules.rule import Node, fused, is_single
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.elementwise import Div

_MOST = 62
"""The greatest shift to the right of a fraction in 64 bits."""


def _factor(call: Call) -> tuple[int, int]:
    """The multiplier from a quotient of stored values to the result's."""
    return quotient_factor(*map(quantization, (call.input(0), call.input(1), call.outputs[0])))


def _far_apart(call: Call) -> str | None:
    """Refuses scales with which a quotient would be shifted by more than registers have."""
    _, shift = _factor(call)
    bits = 8 * call.input(1).dtype.numpy.itemsize
    return None if 31 + bits - _MOST <= shift <= GREATEST_SHIFT else "scales that are far apart"


def _is_sound(call: Call, divisor: Array) -> bool:
    """Whether no stored value of a divisor stands for zero."""
    return bool(np.all(divisor != quantization(call.input(1)).zero_point))


def _may_fail(call: Call) -> bool:
    """Whether elements may be divided by zero, as far as is known."""
    data = call.input(1).data
    return not is_single(call.input(1)) and (data is None or not _is_sound(call, data))


def _bits(e: Emitter, value: ir.Value) -> ir.Value:
    """How many bits an i32 has that is not negative."""
    return e.builder.sub(ir.Constant(I32, 32), e.builder.ctlz(value, ir.Constant(I1, False)))


@fused(Div, all_of(quantized, _far_apart), may_fail=_may_fail, name=QUANTIZED)
def divide(node: Node[Div]) -> tuple[Value]:
    """Of two tensors that broadcast, stored values: quotients by reciprocals out of a table, TFLite's `DivElementwise`.
    A divisor that is zero ends the run."""
    call, result = node.call, node.call.outputs[0]
    first, second = call.input(0), call.input(1)
    zero, (multiplier, shift) = quantization(second).zero_point, _factor(call)
    found, exponents = reciprocal(np.abs(stored_values(second.dtype) - zero))
    table = node.function.external(np.stack([found, exponents], -1).astype(np.int32))

    def combine(e: Emitter, dtype: DType, values: Any) -> ir.Value:
        b, none = e.builder, ir.Constant(I32, 0)
        by, entry = offset(e, values[1], second), b.shl(b.zext(values[1], e.index), e.number(1))
        inverse, exponent = (e.load(table, DType.INT32, b.add(entry, e.number(k))) for k in range(2))
        value = offset(e, values[0], first)
        value = b.select(b.icmp_signed("<", by, none), b.neg(value), value)
        magnitude = b.select(b.icmp_signed("<", value, none), b.not_(value), value)
        headroom = b.sub(ir.Constant(I32, 31), _bits(e, magnitude))
        product = b.mul(b.sext(b.shl(value, headroom), I64), b.sext(inverse, I64))
        quotient = b.ashr(b.add(product, ir.Constant(I64, 1 << 30)), ir.Constant(I64, 31))
        moved = b.sub(ir.Constant(I32, shift), b.add(headroom, exponent))
        scaled = rescale_by(e, quotient, ir.Constant(I32, multiplier), moved)
        return stored(e, scaled, result, node.op.fused_activation_function)

    return elementwise(node, checked(
        node, lambda e, element: e.builder.icmp_signed("!=", element, ir.Constant(element.type, zero)),
        lambda divisor: _is_sound(call, divisor), "division by zero", combine))
