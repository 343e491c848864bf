"""Native rules of elementwise operators on quantised values, equal to the bit to the numpy backend's; those of one
input are in `quantized_table`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import frexp
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import quantize_multiplier, quantized_range
from circlet.backends.native.emit.emitter import I32, UNSIGNED, Emitter, register_type
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.preferences import QUANTIZED
from circlet.backends.native.rules.quantized.requantize import clamped, rescale, rescale_short
from circlet.backends.native.rules.real.comparison import RELATIONS
from circlet.backends.native.rules.real.elementwise import elementwise
from circlet.backends.native.rules.refusals import movable, quantized, tensors
from circlet.backends.native.rules.rule import Node, fused
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import QUANTIZABLE, Activation, DType, Quantization
from circlet.runtime.ops import elementwise as ops
from circlet.runtime.ops.quantize import Quantize

Combine: TypeAlias = Callable[[Emitter, ir.Value, ir.Value], ir.Value]
"""Emits an i32 from two: the result without its zero point from the operands without theirs."""
Prepare: TypeAlias = "Callable[[Node[Any], Quantization, Quantization, Quantization], Combine]"
"""From an operator and the quantisation of its operands and its result."""


def quantization(tensor: Tensor) -> Quantization:
    """That of a tensor which the numpy backend refuses without one."""
    assert tensor.quantization is not None
    return tensor.quantization


def widened(e: Emitter, value: ir.Value, dtype: DType) -> ir.Value:
    """A stored value as an i32."""
    if value.type.width == 32:
        return value
    return e.builder.zext(value, I32) if dtype in UNSIGNED else e.builder.sext(value, I32)


def offset(e: Emitter, value: ir.Value, tensor: Tensor) -> ir.Value:
    """A stored value without its zero point, as an i32."""
    zero = ir.Constant(I32, quantization(tensor).zero_point)
    return e.builder.sub(widened(e, value, tensor.dtype), zero)


def stored(e: Emitter, value: ir.Value, tensor: Tensor, activation: Activation = Activation.NONE) -> ir.Value:
    """An i32 without zero point as a stored value, after a fused activation."""
    target = quantization(tensor)
    low, high = quantized_range(activation, target, tensor.dtype)
    moved = e.builder.add(value, ir.Constant(I32, target.zero_point))
    return e.builder.trunc(clamped(e, moved, low, high), register_type(tensor.dtype))


def _binary(prepare: Prepare, node: Node[Any]) -> tuple[Value]:
    """Of two tensors that broadcast, stored values: what `prepare` gives of operands without zero points, activated and
    stored."""
    tensors, result = [node.call.input(k) for k in range(2)], node.call.outputs[0]
    activation = getattr(node.op, "fused_activation_function", Activation.NONE)
    combine = prepare(node, *map(quantization, (*tensors, result)))

    def make(e: Emitter, dtype: DType, values: Any) -> ir.Value:
        operands = (offset(e, *each) for each in zip(values, tensors, strict=True))
        return stored(e, combine(e, *operands), result, activation)

    return elementwise(node, make)


def _scaled(e: Emitter, value: ir.Value, shift: int, factor: tuple[int, int]) -> ir.Value:
    """A value with fraction bits, with which it is at most 2**30, in another unit."""
    return rescale_short(e, value, shift, *factor)


def _add(node: Node[Any], first: Quantization, second: Quantization, target: Quantization) -> Combine:
    """Both operands are brought to twice the larger scale, with 20 fraction bits (15 for int16), and the sum to the
    result's: TFLite's `AddElementwise`."""
    shift = 15 if node.call.input(0).dtype is DType.INT16 else 20
    unit = 2 * max(first.scale, second.scale)
    factors = [quantize_multiplier(each.scale / unit) for each in (first, second)]
    last = quantize_multiplier(unit / ((1 << shift) * target.scale))

    def combine(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        one, other = (_scaled(e, each, shift, factor) for each, factor in zip((a, b), factors, strict=True))
        total = e.builder.sub(one, other) if isinstance(node.op, ops.Sub) else e.builder.add(one, other)
        return rescale(e, total, *last, is_small=True)

    return combine


def _shifts(call: Call) -> str | None:
    """Leaves sums of int16 whose scales are powers of two to the host, which shifts those."""
    exact = getattr(call.op, "pot_scale_int16", False) and call.input(0).dtype is DType.INT16
    shifts = exact and all(frexp(quantization(each).scale)[0] == 0.5 for _, each in tensors(call))
    return "int16 whose scales are powers of two" if shifts else None


def _ratio(target: Quantization, *sources: Quantization) -> tuple[int, int]:
    """The multiplier from the sources' units to the target's, of a ratio computed in single precision."""
    real = np.float32(1)
    for source in sources:
        real = real * np.float32(source.scale)
    return quantize_multiplier(float(real / np.float32(target.scale)))


def _multiply(node: Node[Any], first: Quantization, second: Quantization, target: Quantization) -> Combine:
    """The product, rescaled once: TFLite's `MulElementwise`."""
    factor = _ratio(target, first, second)
    return lambda e, a, b: rescale(e, e.builder.mul(a, b), *factor, is_small=True)


def _squared_difference(node: Node[Any], first: Quantization, second: Quantization, target: Quantization) -> Combine:
    """Both operands are brought to twice the larger scale, with 7 fraction bits, and the square to the result's:
    TFLite's `SquaredDifference`."""
    shift, unit = 7, 2 * max(first.scale, second.scale)
    factors = [quantize_multiplier(each.scale / unit) for each in (first, second)]
    last = quantize_multiplier(unit * unit / ((1 << 2 * shift) * target.scale))

    def combine(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
        one, other = (_scaled(e, each, shift, factor) for each, factor in zip((a, b), factors, strict=True))
        difference = e.builder.sub(one, other)
        return rescale(e, e.builder.mul(difference, difference), *last)

    return combine


def _prelu(node: Node[Any], first: Quantization, second: Quantization, target: Quantization) -> Combine:
    """x, or x times the slope where it is negative, each rescaled once: TFLite's `BroadcastPrelu4DSlow`."""
    above, below = _ratio(target, first), _ratio(target, first, second)

    def combine(e: Emitter, x: ir.Value, slope: ir.Value) -> ir.Value:
        b = e.builder
        is_negative = b.icmp_signed("<", x, ir.Constant(I32, 0))
        return b.select(is_negative, rescale(e, b.mul(x, slope), *below), rescale(e, x, *above))

    return combine


fused(ops.Add, all_of(quantized, _shifts), name=QUANTIZED)(partial(_binary, _add))
fused(ops.Sub, all_of(quantized, _shifts), name=QUANTIZED)(partial(_binary, _add))
fused(ops.Mul, quantized, name=QUANTIZED)(partial(_binary, _multiply))
fused(ops.SquaredDifference, quantized, name=QUANTIZED)(partial(_binary, _squared_difference))
fused(ops.Prelu, quantized, name=QUANTIZED)(partial(_binary, _prelu))


def _choose(relation: str, node: Node[Any]) -> tuple[Value]:
    """The operand that is related to the other; stored values compare as the real ones of one quantisation do."""
    def combine(e: Emitter, dtype: DType, values: Any) -> ir.Value:
        one, other = (widened(e, each, dtype) for each in values)
        return e.select(e.builder.icmp_signed(relation, one, other), *values)

    return elementwise(node, combine)


fused(ops.Maximum, quantized, name=QUANTIZED)(partial(_choose, ">"))
fused(ops.Minimum, quantized, name=QUANTIZED)(partial(_choose, "<"))


def _compare(relation: str, node: Node[Any]) -> tuple[Value]:
    """int16 operands have one quantisation; others are compared in units of 1 / 256, as in TFLite's
    `ComparisonWithScaling`."""
    tensors = [node.call.input(k) for k in range(2)]
    factors = [quantize_multiplier(quantization(each).scale) for each in tensors]

    def combine(e: Emitter, dtype: DType, values: Any) -> ir.Value:
        if dtype is DType.INT16:
            return e.builder.icmp_signed(relation, *values)
        one, other = (_scaled(e, offset(e, value, tensor), 8, factor)
                      for value, tensor, factor in zip(values, tensors, factors, strict=True))
        return e.builder.icmp_signed(relation, one, other)

    return elementwise(node, combine)


for _op, _relation in RELATIONS.items():
    fused(_op, quantized, name=QUANTIZED)(partial(_compare, _relation))


def _narrow(call: Call) -> str | None:
    """Leaves bytes from bytes to a table."""
    return "bytes from bytes" if {call.input(0).dtype, call.outputs[0].dtype} <= {DType.INT8, DType.UINT8} else None


@fused(Quantize, all_of(movable, _narrow, only(QUANTIZABLE | {DType.INT32})), name="requantize")
def requantize(node: Node[Quantize]) -> tuple[Value]:
    """Of x, stored values of another quantisation, rescaled once: TFLite's `Requantize`."""
    source, result = node.call.input(0), node.call.outputs[0]
    factor = quantize_multiplier(quantization(source).scale / quantization(result).scale)
    return elementwise(node, lambda e, dtype, v: stored(e, rescale(e, offset(e, v[0], source), *factor), result))
