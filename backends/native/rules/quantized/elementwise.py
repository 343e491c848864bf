"""Native rules of elementwise operators on quantised values, equal to the bit to the numpy backend's; those of one
input are in `quantized_table`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import frexp
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import quantize_multiplier
from circlet.backends.native.emit.emitter import I32, Emitter
from circlet.backends.native.emit.value import Value
from circlet.backends.native.rules.figures.figure import (
    Figure,
    beyond,
    figured,
    limits_of,
    looking_at,
    quantization,
    widened,
    within,
    without,
    zero_of,
)
from circlet.backends.native.rules.figures.multiplier import factor, rescaled
from circlet.backends.native.rules.preferences import QUANTIZED
from circlet.backends.native.rules.real.comparison import RELATIONS
from circlet.backends.native.rules.real.elementwise import elementwise
from circlet.backends.native.rules.refusals import movable, quantized, tensors
from circlet.backends.native.rules.rule import Node, fused, nothing
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import QUANTIZABLE, Activation, DType
from circlet.runtime.ops import elementwise as ops
from circlet.runtime.ops.quantize import Quantize

Combine: TypeAlias = Callable[[Emitter, Any, ir.Value, ir.Value, Sequence[Figure]], ir.Value]
"""Emits an i32 for an operator from two: the result without its zero point from the operands without theirs; given the
factors that the operator has."""
Factors: TypeAlias = Callable[[Call], Sequence[Figure]]
"""What an operator multiplies by."""
_BOTH = frozenset({0, 1})
"""The inputs of which elements are loaded alone."""


def _register_binary(op: type[Op], refuses: Refusal, factors: Factors, combine: Combine) -> None:
    """A rule for two tensors that broadcast, stored values: what `combine` gives of operands without zero points,
    activated and stored."""
    def figures(call: Call) -> Sequence[Figure]:
        activation = getattr(call.op, "fused_activation_function", Activation.NONE)
        return (zero_of(call.input(0)), zero_of(call.input(1)), zero_of(call.outputs[0]),
                limits_of(call.outputs[0], activation), *factors(call))

    def rule(node: Node[Any]) -> tuple[Value]:
        *zeros, made, limits = (found := figured(node, figures))[:4]
        result = node.call.outputs[0].dtype

        def make(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
            one, other = (without(e, widened(e, value, node.call.input(k).dtype), zeros[k])
                          for k, value in enumerate(values))
            return within(e, beyond(e, combine(e, node.op, one, other, found[4:]), made), limits, result)

        return elementwise(node, make)

    fused(op, refuses, opaque=_BOTH, name=QUANTIZED, quantized_as=looking_at(figures))(rule)


def _scales(call: Call) -> tuple[float, float, float]:
    """Those of two operands and of the result."""
    first, second, made = (quantization(each).scale for each in (call.input(0), call.input(1), call.outputs[0]))
    return first, second, made


def _of_sum(call: Call) -> Sequence[Figure]:
    """Both operands are brought to twice the larger scale, with 20 fraction bits (15 for int16), with which they are at
    most 2**30, and the sum to the result's: TFLite's `AddElementwise`."""
    shift = 15 if call.input(0).dtype is DType.INT16 else 20
    first, second, made = _scales(call)
    unit = 2 * max(first, second)
    return (*(factor(*quantize_multiplier(each / unit), shift, is_small=True) for each in (first, second)),
            factor(*quantize_multiplier(unit / ((1 << shift) * made)), is_small=True))


def _add(e: Emitter, op: Any, a: ir.Value, b: ir.Value, factors: Sequence[Figure]) -> ir.Value:
    one, other, last = factors
    one, other = rescaled(e, a, one), rescaled(e, b, other)
    return rescaled(e, e.builder.sub(one, other) if isinstance(op, ops.Sub) else e.builder.add(one, other), last)


def _shifts(call: Call) -> str | None:
    """Leaves sums of int16 whose scales are powers of two to the host, which shifts those."""
    exact = getattr(call.op, "pot_scale_int16", False) and call.input(0).dtype is DType.INT16
    shifts = exact and all(frexp(quantization(each).scale)[0] == 0.5 for _, each in tensors(call))
    return "int16 whose scales are powers of two" if shifts else None


def _ratio(call: Call, *sources: Tensor) -> tuple[int, int]:
    """The multiplier from the sources' units to the result's, of a ratio computed in single precision."""
    real = np.float32(1)
    for source in sources:
        real = real * np.float32(quantization(source).scale)
    return quantize_multiplier(float(real / np.float32(quantization(call.outputs[0]).scale)))


def _of_product(call: Call) -> Sequence[Figure]:
    """The product is rescaled once: TFLite's `MulElementwise`."""
    return (factor(*_ratio(call, call.input(0), call.input(1)), is_small=True),)


def _multiply(e: Emitter, op: Any, a: ir.Value, b: ir.Value, factors: Sequence[Figure]) -> ir.Value:
    return rescaled(e, e.builder.mul(a, b), factors[0])


def _are_bytes(call: Call) -> bool:
    """Whether both operands have 8 bits."""
    return all(call.input(k).dtype.numpy.itemsize == 1 for k in range(2))


def _of_squares(call: Call) -> Sequence[Figure]:
    """Both operands are brought to twice the larger scale, with 7 fraction bits, and the square to the result's:
    TFLite's `SquaredDifference`. Operands of 8 bits are at most 255 / 2 then, and the square of their difference, with
    14 fraction bits, 2**30."""
    shift, (first, second, made) = 7, _scales(call)
    unit = 2 * max(first, second)
    return (*(factor(*quantize_multiplier(each / unit), shift, is_small=True) for each in (first, second)),
            factor(*quantize_multiplier(unit * unit / ((1 << 2 * shift) * made)), is_small=_are_bytes(call)))


def _squared_difference(e: Emitter, op: Any, a: ir.Value, b: ir.Value, factors: Sequence[Figure]) -> ir.Value:
    one, other, last = factors
    difference = e.builder.sub(rescaled(e, a, one), rescaled(e, b, other))
    return rescaled(e, e.builder.mul(difference, difference), last)


def _of_slopes(call: Call) -> Sequence[Figure]:
    """x, or x times the slope, is rescaled once: TFLite's `BroadcastPrelu4DSlow`."""
    above, below = _ratio(call, call.input(0)), _ratio(call, call.input(0), call.input(1))
    return tuple(factor(*each, is_small=_are_bytes(call)) for each in (above, below))


def _prelu(e: Emitter, op: Any, x: ir.Value, slope: ir.Value, factors: Sequence[Figure]) -> ir.Value:
    b, (above, below) = e.builder, factors
    is_negative = b.icmp_signed("<", x, ir.Constant(I32, 0))
    return b.select(is_negative, rescaled(e, b.mul(x, slope), below), rescaled(e, x, above))


_register_binary(ops.Add, all_of(quantized, _shifts), _of_sum, _add)
_register_binary(ops.Sub, all_of(quantized, _shifts), _of_sum, _add)
_register_binary(ops.Mul, quantized, _of_product, _multiply)
_register_binary(ops.SquaredDifference, quantized, _of_squares, _squared_difference)
_register_binary(ops.Prelu, quantized, _of_slopes, _prelu)


def _choose(relation: str, node: Node[Any]) -> tuple[Value]:
    """The operand that is related to the other; stored values compare as the real ones of one quantisation do."""
    def combine(e: Emitter, dtype: DType, values: Any) -> ir.Value:
        one, other = (widened(e, each, dtype) for each in values)
        return e.select(e.builder.icmp_signed(relation, one, other), *values)

    return elementwise(node, combine)


fused(ops.Maximum, quantized, opaque=_BOTH, name=QUANTIZED, quantized_as=nothing)(partial(_choose, ">"))
fused(ops.Minimum, quantized, opaque=_BOTH, name=QUANTIZED, quantized_as=nothing)(partial(_choose, "<"))


def _of_comparison(call: Call) -> Sequence[Figure]:
    """int16 operands have one quantisation; others are compared in units of 1 / 256, as in TFLite's
    `ComparisonWithScaling`."""
    tensors = () if call.input(0).dtype is DType.INT16 else (call.input(0), call.input(1))
    factors = (factor(*quantize_multiplier(quantization(each).scale), 8, is_small=True) for each in tensors)
    return *map(zero_of, tensors), *factors


def _compare(relation: str, node: Node[Any]) -> tuple[Value]:
    """Whether stored values are so related."""
    found = figured(node, _of_comparison)

    def combine(e: Emitter, dtype: DType, values: Any) -> ir.Value:
        if dtype is DType.INT16:
            return e.builder.icmp_signed(relation, *values)
        one, other = (rescaled(e, without(e, widened(e, value, node.call.input(k).dtype), found[k]), found[2 + k])
                      for k, value in enumerate(values))
        return e.builder.icmp_signed(relation, one, other)

    return elementwise(node, combine)


for _op, _relation in RELATIONS.items():
    fused(_op, quantized, opaque=_BOTH, name=QUANTIZED, quantized_as=looking_at(_of_comparison))(
        partial(_compare, _relation))


def _narrow(call: Call) -> str | None:
    """Leaves bytes from bytes to a table."""
    return "bytes from bytes" if {call.input(0).dtype, call.outputs[0].dtype} <= {DType.INT8, DType.UINT8} else None


def _of_requantization(call: Call) -> Sequence[Figure]:
    """Stored values are rescaled once: TFLite's `Requantize`."""
    source, made = call.input(0), call.outputs[0]
    return (zero_of(source), zero_of(made), limits_of(made),
            factor(*quantize_multiplier(quantization(source).scale / quantization(made).scale)))


@fused(Quantize, all_of(movable, _narrow, only(QUANTIZABLE | {DType.INT32})), name="requantize",
       quantized_as=looking_at(_of_requantization))
def requantize(node: Node[Quantize]) -> tuple[Value]:
    """Of x, stored values of another quantisation."""
    zero, made, limits, by = figured(node, _of_requantization)
    source, result = node.call.input(0).dtype, node.call.outputs[0].dtype

    def make(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
        value = rescaled(e, without(e, widened(e, values[0], source), zero), by)
        return within(e, beyond(e, value, made), limits, result)

    return elementwise(node, make)
