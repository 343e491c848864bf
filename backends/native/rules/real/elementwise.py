"""Native rules of elementwise operators on two or more inputs; quotients, remainders and powers are in `division`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, TypeAlias

from llvmlite import ir

from circlet.backends.native.emit import math, trigonometry
from circlet.backends.native.emit.emitter import UNSIGNED, Emitter, is_real
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value, computed
from circlet.backends.native.rules.refusals import movable, plain, single_or_half
from circlet.backends.native.rules.rule import Node, fused
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import alike, is_known
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

    flat = all(alike(each.shape, shape) or is_known(each.size, 1) for each in inputs)

    def linear(e: Emitter, position: ir.Value) -> ir.Value:
        zero = e.number(0)
        return combine(e, kind, [each.linear(e, zero if is_known(each.size, 1) else position) for each in inputs])

    return (computed(shape, dtype, element, linear if flat else None),)


_BOUNDS = {Activation.NONE: (None, None), Activation.RELU: (0, None), Activation.RELU6: (0, 6),
           Activation.RELU_N1_TO_1: (-1, 1)}
"""The interval of each fused activation that clamps; None where it has no bound."""


def clamp(e: Emitter, value: ir.Value, dtype: DType, low: float | None, high: float | None) -> ir.Value:
    """The nearest number in an interval, whose bounds may be None; NaN of NaN."""
    if low is not None and (low >= 0 or dtype not in UNSIGNED):
        value = maximum(e, dtype, [value, e.constant(low, dtype)])
    return value if high is None else minimum(e, dtype, [value, e.constant(high, dtype)])


def activate(e: Emitter, value: ir.Value, dtype: DType, activation: Activation) -> ir.Value:
    """Applies a fused activation that `refuses_activation` does not refuse."""
    if activation is Activation.TANH:
        return math.tanh(e, value)
    return clamp(e, value, dtype, *_BOUNDS[activation])


def activated(node: Node[Any], combine: Combine) -> tuple[Value]:
    """`elementwise`, and then the operator's fused activation if it can have one."""
    activation = getattr(node.op, "fused_activation_function", Activation.NONE)
    return elementwise(node, lambda e, dtype, values: activate(e, combine(e, dtype, values), dtype, activation))


def _clamps(call: Call) -> str | None:
    """Refuses fused activations that neither clamp nor are TANH in single or half precision."""
    activation = getattr(call.op, "fused_activation_function", Activation.NONE)
    if activation in _BOUNDS or (activation is Activation.TANH and single_or_half(call) is None):
        return None
    return f"fused activation {activation.name} of {call.input(0).dtype.value}"


refuses_activation = all_of(plain, _clamps)
"""Refuses what `plain` does, and fused activations that neither clamp nor are TANH in single or half precision."""


def add(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The sum; integers wrap."""
    return e.builder.fadd(*values) if is_real(dtype) else e.builder.add(*values)


def sub(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The difference; integers wrap."""
    return e.builder.fsub(*values) if is_real(dtype) else e.builder.sub(*values)


def mul(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The product; integers wrap."""
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


def _nan_if_any(choose: Combine) -> Combine:
    """NaN where either of two values is, else what `choose` gives, which is NaN where the first is."""
    def combine(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
        chosen = choose(e, dtype, values)
        return e.select(compare(e, dtype, "!=", values[1], values[1]), values[1], chosen) if is_real(dtype) else chosen

    return combine


def _choice(relation: str) -> Combine:
    """The first value where it precedes the second, else the second; so the second where either is NaN."""
    return lambda e, dtype, v: e.select(compare(e, dtype, relation, v[0], v[1]), v[0], v[1])


def _bits(name: str) -> Combine:
    """A builder's instruction on the bits of two integers or booleans."""
    return lambda e, dtype, v: getattr(e.builder, name)(v[0], v[1])


def _on_bools(bits: Combine, combine: Combine) -> Combine:
    """`bits` of booleans, `combine` of numbers."""
    return lambda e, dtype, v: (bits if dtype is DType.BOOL else combine)(e, dtype, v)


def _sum(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The sum of all inputs, from the first on."""
    return reduce(lambda total, each: add(e, dtype, [total, each]), values)


def _squared_difference(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """The square of the difference."""
    difference = sub(e, dtype, values)
    return mul(e, dtype, [difference, difference])


def _prelu(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """x, or x times the slope where it is negative or NaN."""
    x, slope = values
    return e.select(compare(e, dtype, ">=", x, e.constant(0, dtype)), x, e.builder.fmul(x, slope))


def _shift_left(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """0 where the count is negative or not below the width."""
    count = values[1]
    fits = e.builder.icmp_unsigned("<", count, ir.Constant(count.type, count.type.width))
    return e.select(fits, e.builder.shl(*values), e.constant(0, dtype))


def _shift_right(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """By a count that is clamped to what the width allows."""
    count = clamp(e, values[1], dtype, 0, values[1].type.width - 1)
    return e.builder.lshr(values[0], count) if dtype in UNSIGNED else e.builder.ashr(values[0], count)


plus, times = _on_bools(_bits("or_"), add), _on_bools(_bits("and_"), mul)
"""The sum, of booleans the disjunction; the product, of booleans the conjunction."""
_greatest, _least = _nan_if_any(maximum), _nan_if_any(minimum)
"""The larger and the smaller of two, NaN where either is."""
greatest, least = _on_bools(_bits("or_"), _greatest), _on_bools(_bits("and_"), _least)
"""The same; of booleans the disjunction and the conjunction."""


def _clamp(e: Emitter, dtype: DType, values: Sequence[ir.Value]) -> ir.Value:
    """x limited to [low, high]; NaN where any of them is."""
    low, x, high = values
    return _least(e, dtype, [_greatest(e, dtype, [x, low]), high])


_ALL = frozenset(range(3))
"""All inputs."""
fused(ops.Add, refuses_activation, opaque=_ALL)(partial(activated, combine=add))
fused(ops.Sub, refuses_activation, opaque=_ALL)(partial(activated, combine=sub))
fused(ops.Mul, refuses_activation, opaque=_ALL)(partial(activated, combine=mul))

_COMBINE: dict[type[Op], Combine] = {
    ops.SquaredDifference: _squared_difference,
    ops.AddN: _sum,
    ops.BitwiseXor: _bits("xor"),
    ops.RightShift: _shift_right,
    ops.Prelu: _prelu,
    ops.StablehloAdd: plus,
    ops.StablehloSubtract: sub,
    ops.StablehloMultiply: times,
    ops.StablehloMaximum: greatest,
    ops.StablehloMinimum: least,
    ops.StablehloAnd: _bits("and_"),
    ops.StablehloOr: _bits("or_"),
    ops.StablehloShiftLeft: _shift_left,
    ops.StablehloClamp: _clamp,
}
"""What each operator makes of an element of each input."""
for _op, _combine in _COMBINE.items():
    fused(_op, opaque=_ALL)(partial(elementwise, combine=_combine))
fused(ops.Maximum, movable, opaque=_ALL)(partial(elementwise, combine=_choice(">")))
fused(ops.Minimum, movable, opaque=_ALL)(partial(elementwise, combine=_choice("<")))
fused(ops.Atan2, single_or_half)(partial(elementwise, combine=lambda e, dtype, v: trigonometry.atan2(e, *v)))
