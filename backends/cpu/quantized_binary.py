"""Numpy rules of quantised arithmetic on two inputs, equal to the bit to LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import frexp
from typing import Any

import numpy as np

from circlet.backends.arithmetic import fixed_point_functions as fixed
from circlet.backends.arithmetic.fixed_point import (
    Int32s,
    Int64s,
    product,
    quantize_multiplier,
    quantized_range,
    rescaler,
    shift_right,
)
from circlet.backends.arithmetic.quantization import stored_values
from circlet.backends.cpu.quantized import parameters, reader
from circlet.backends.cpu.rule import Node
from circlet.backends.cpu.steps import saturating
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Activation, Array, DType, Quantization
from circlet.runtime.ops import elementwise as ops


def _finish(node: Node[Any], rescale: Callable[[Any], Int32s], compute: Callable[[], Any]) -> Step:
    """The step that rescales what `compute` gives to the output's stored values and clamps them."""
    target = parameters(node)[-1]
    activation = node.op.fused_activation_function if isinstance(node.op, ops.Activated) else Activation.NONE
    low, high = quantized_range(activation, target, node.call.outputs[0].dtype)
    zero, store = target.zero_point, saturating(node.out, low, high)
    return lambda: store(rescale(compute()) + zero)


def offset(node: Node[Any], index: int) -> Callable[[], Array]:
    """Reads an input as integers that count its scale: stored values without their zero point."""
    return _table(node, index, lambda stored: stored)


def scaled(node: Node[Any], index: int, unit: float, shift: int) -> Callable[[], Array]:
    """Reads an input in multiples of `unit / 2 ** shift`, rounded."""
    rescale = rescaler(*quantize_multiplier(parameters(node)[index].scale / unit))
    return _table(node, index, lambda stored: rescale(stored << shift))


def _table(node: Node[Any], index: int, function: Callable[[Int64s], Array]) -> Callable[[], Array]:
    zero = parameters(node)[index].zero_point
    return reader(node.input(index), function(stored_values(node.dtype(index)) - zero).astype(np.int32))


def add(node: Node[ops.Add | ops.Sub]) -> Step:
    """Both inputs are brought to twice the larger scale, with fraction bits, and the sum to the output's."""
    function = np.add if isinstance(node.op, ops.Add) else np.subtract
    shifts = _shifts(node)
    if shifts is not None:
        a, b = (_table(node, k, partial(shift_right, bits=shifts[k])) for k in range(2))
        return _finish(node, np.asarray, lambda: function(a(), b()))
    first, second, target = parameters(node)
    shift = 15 if node.dtype() == DType.INT16 else 20
    unit = 2 * max(first.scale, second.scale)
    a, b = (scaled(node, k, unit, shift) for k in range(2))
    rescale = rescaler(*quantize_multiplier(unit / ((1 << shift) * target.scale)))
    return _finish(node, rescale, lambda: function(a(), b()))


def _shifts(node: Node[ops.Add | ops.Sub]) -> tuple[int, int] | None:
    """By how many bits to shift the inputs of an int16 sum whose scales are powers of two; None for all others.

    One input has the output's scale, the other a smaller one.
    """
    if node.dtype() != DType.INT16 or not node.op.pot_scale_int16:
        return None
    (mantissas, exponents) = zip(*(frexp(each.scale) for each in parameters(node)), strict=True)
    shifts = (exponents[2] - exponents[0], exponents[2] - exponents[1])
    symmetric = not any(each.zero_point for each in parameters(node))
    return shifts if symmetric and set(mantissas) == {0.5} and min(shifts) == 0 else None


def squared_difference(node: Node[ops.SquaredDifference]) -> Step:
    first, second, target = parameters(node)
    shift = 7
    unit = 2 * max(first.scale, second.scale)
    a, b = scaled(node, 0, unit, shift), scaled(node, 1, unit, shift)
    rescale = rescaler(*quantize_multiplier(unit * unit / ((1 << 2 * shift) * target.scale)))
    return _finish(node, rescale, lambda: np.square(a() - b()))


def multiply(node: Node[ops.Mul]) -> Step:
    first, second, target = parameters(node)
    a, b = offset(node, 0), offset(node, 1)
    return _finish(node, _ratio(target, first, second), lambda: a() * b())


def prelu(node: Node[ops.Prelu]) -> Step:
    first, second, target = parameters(node)
    x, slope = offset(node, 0), offset(node, 1)
    above, below = _ratio(target, first), _ratio(target, first, second)

    def compute() -> Array:
        value = x()
        return np.where(value >= 0, above(value), below(value * slope()))

    return _finish(node, lambda value: value, compute)


def _ratio(target: Quantization, *sources: Quantization) -> Callable[[Any], Int32s]:
    """Rescales products of the sources' values to the target's; the ratio is computed in single precision."""
    real = np.float32(1)
    for source in sources:
        real = real * np.float32(source.scale)
    return rescaler(*quantize_multiplier(float(real / np.float32(target.scale))))


def divide(node: Node[ops.Div]) -> Step:
    """The quotient by a reciprocal that Newton's method finds in fixed point.

    The step raises ExecutionError where the divisor is zero.
    """
    first, second, target = parameters(node)
    multiplier, shift = quotient_factor(first, second, target)
    dividend, divisor = offset(node, 0), offset(node, 1)
    values = stored_values(node.dtype(1)) - second.zero_point
    reciprocals, exponents = reciprocal(np.abs(values))
    inverse, exponent = reader(node.input(1), reciprocals), reader(node.input(1), exponents)

    def compute() -> Array:
        by = divisor()
        if node.out.size and not by.all():
            raise ExecutionError("division by zero")
        value = np.where(by < 0, -dividend(), dividend()).astype(np.int64)
        headroom: Int64s = 31 - fixed.bit_length(np.where(value < 0, ~value, value))
        quotient = product(value << headroom, inverse())
        return rescaler(multiplier, shift - headroom - exponent())(quotient)

    return _finish(node, lambda value: value, compute)


def quotient_factor(first: Quantization, second: Quantization, target: Quantization) -> tuple[int, int]:
    """The multiplier from quotients of stored values to the target's; the ratio is computed in single precision."""
    return quantize_multiplier(float(np.float32(first.scale) / (np.float32(second.scale) * np.float32(target.scale))))


def reciprocal(values: Int64s) -> tuple[Int64s, Int64s]:
    """1 / x of positive integers, as fractions of 31 bits in [1/2, 1] and the exponents of two to divide them by."""
    bits = fixed.bit_length(values)
    return fixed.reciprocal_of_one_plus((values << (32 - bits)) - (1 << 31)), bits - 1
