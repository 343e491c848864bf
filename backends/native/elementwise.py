"""Native rules of elementwise operators on two or more inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emitter import UNSIGNED, Emitter, Index, is_real
from circlet.backends.native.rule import Node, fused, plain
from circlet.backends.native.value import Value, computed
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops import elementwise as ops

Combine: TypeAlias = Callable[[Emitter, DType, Sequence[ir.Value]], ir.Value]
"""Emits a result from one element of each input, of the given type."""


def elementwise(node: Node[Any], combine: Combine) -> tuple[Value]:
    """The output whose every element is made of the inputs' elements, broadcast to its shape."""
    shape, dtype = node.shape, node.call.outputs[0].dtype
    kind = node.input(0).dtype
    inputs = [each for each in node.inputs if each is not None]
    operands = [each.broadcast(shape) for each in inputs]

    def element(e: Emitter, index: Index) -> ir.Value:
        return combine(e, kind, [operand(e, index) for operand in operands])

    flat = all(each.shape == shape or each.size == 1 for each in inputs)

    def linear(e: Emitter, position: ir.Value) -> ir.Value:
        zero = e.number(0)
        return combine(e, kind, [each.linear(e, zero if each.size == 1 else position) for each in inputs])

    return (computed(shape, dtype, element, linear if flat else None),)


def activate(e: Emitter, value: ir.Value, dtype: DType, activation: Activation) -> ir.Value:
    """Applies a fused activation that clamps."""
    low, high = {Activation.NONE: (None, None), Activation.RELU: (0, None), Activation.RELU6: (0, 6),
                 Activation.RELU_N1_TO_1: (-1, 1)}[activation]
    if low is not None:
        value = maximum(e, dtype, [value, e.constant(low, dtype)])
    return value if high is None else minimum(e, dtype, [value, e.constant(high, dtype)])


def _activated(combine: Combine, node: Node[Any]) -> tuple[Value]:
    activation = node.op.fused_activation_function
    return elementwise(node, lambda e, dtype, values: activate(e, combine(e, dtype, values), dtype, activation))


def refuses_activation(call: Call) -> bool:
    """Refuses fused activations that do not clamp."""
    activation = getattr(call.op, "fused_activation_function", Activation.NONE)
    return plain(call) or activation in (Activation.TANH, Activation.SIGN_BIT)


def add(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    return e.builder.fadd(*values) if is_real(dtype) else e.builder.add(*values)


def sub(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    return e.builder.fsub(*values) if is_real(dtype) else e.builder.sub(*values)


def mul(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    return e.builder.fmul(*values) if is_real(dtype) else e.builder.mul(*values)


def maximum(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The larger one; NaN where the first is."""
    return e.select(compare(e, dtype, "<", *values), values[1], values[0])


def minimum(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The smaller one; NaN where the first is."""
    return e.select(compare(e, dtype, ">", *values), values[1], values[0])


def compare(e: Emitter, dtype: DType, relation: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """An i1; comparisons with NaN are false, but for `!=`."""
    if is_real(dtype):
        return e.builder.fcmp_unordered("!=", a, b) if relation == "!=" else e.builder.fcmp_ordered(relation, a, b)
    unsigned = dtype in UNSIGNED or dtype is DType.BOOL
    return e.builder.icmp_unsigned(relation, a, b) if unsigned else e.builder.icmp_signed(relation, a, b)


fused(ops.Add, refuses_activation)(partial(_activated, add))
fused(ops.Sub, refuses_activation)(partial(_activated, sub))
fused(ops.Mul, refuses_activation)(partial(_activated, mul))


def _squared_difference(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    difference = sub(e, dtype, values)
    return mul(e, dtype, [difference, difference])


_COMBINE: dict[type[Op], Combine] = {
    ops.Maximum: lambda e, dtype, v: e.select(compare(e, dtype, ">", v[0], v[1]), v[0], v[1]),
    ops.Minimum: lambda e, dtype, v: e.select(compare(e, dtype, "<", v[0], v[1]), v[0], v[1]),
    ops.SquaredDifference: _squared_difference,
    ops.StablehloAdd: add,
    ops.StablehloSubtract: sub,
    ops.StablehloMultiply: mul,
}
for _op, _combine in _COMBINE.items():
    fused(_op)(partial(elementwise, combine=_combine))


def _refuses_division(call: Call) -> bool:
    return refuses_activation(call) or not is_real(call.input(0).dtype)


@fused(ops.Div, _refuses_division)
def div(node: Node[ops.Div]) -> tuple[Value]:
    return _activated(lambda e, dtype, v: e.builder.fdiv(*v), node)


def _refuses_floor_division(call: Call) -> bool:
    """Only integers by a constant that is neither zero nor -1."""
    dtype, divisor = call.input(0).dtype, call.input(1).data
    safe = divisor is not None and not bool(np.any((divisor == 0) | (divisor == -1)))
    return plain(call) or is_real(dtype) or dtype in UNSIGNED or not safe


def _floor_mod(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The remainder with the sign of the divisor."""
    b = e.builder
    rest, zero = b.srem(*values), e.constant(0, dtype)
    differs = b.icmp_signed("<", b.xor(rest, values[1]), zero)
    return b.select(b.and_(b.icmp_signed("!=", rest, zero), differs), b.add(rest, values[1]), rest)


def _floor_div(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    b = e.builder
    quotient, rest, zero = b.sdiv(*values), b.srem(*values), e.constant(0, dtype)
    differs = b.icmp_signed("<", b.xor(rest, values[1]), zero)
    return b.select(b.and_(b.icmp_signed("!=", rest, zero), differs), b.sub(quotient, e.constant(1, dtype)), quotient)


fused(ops.FloorMod, _refuses_floor_division)(partial(elementwise, combine=_floor_mod))
fused(ops.FloorDiv, _refuses_floor_division)(partial(elementwise, combine=_floor_div))
