"""Numpy rules of arithmetic on several inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial, wraps
from typing import Any, TypeAlias

import numpy as np

from circlet.backends.arithmetic.quantization import is_quantized
from circlet.backends.cpu import quantized_binary
from circlet.backends.cpu.quantized import NUMBERS, one_quantization, supports
from circlet.backends.cpu.rule import Bind, Node, rule
from circlet.backends.cpu.steps import activate, chain, like, refuse_fused
from circlet.backends.refusal import Refusal, all_of
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import FLOATS, INTEGERS, QUANTIZABLE, Array, DType
from circlet.runtime.ops import elementwise as ops

Combine: TypeAlias = Callable[[Array, Array, Array], Step]
"""Makes the step that computes an output buffer from two input buffers."""

_BITS = INTEGERS | {DType.BOOL}


def define(op: type[Op], plain: Collection[DType], bind: Bind[Any], quantized: Bind[Any] | None = None,
           types: Collection[DType] = QUANTIZABLE, further: Refusal | None = None) -> None:
    """Registers `bind` as the rule for real values of the `plain` types, `quantized` for stored values of `types`."""
    @rule(op, accepts=all_of(refuse_fused, supports(plain, types if quantized else (), further)))
    @wraps(bind)
    def either(node: Node[Any]) -> Step:
        if quantized is not None and is_quantized(node.call.input(0)):
            return quantized(node)
        return bind(node)


def ufunc(function: np.ufunc) -> Bind[Any]:
    """The rule that applies a numpy function to two inputs, and clamps as a fused activation asks."""
    def bind(node: Node[Any]) -> Step:
        return activated(node, partial(function, node.input(0), node.input(1), node.out))

    return bind


def activated(node: Node[Any], step: Step) -> Step:
    """The step and then the operator's fused activation, if it has any."""
    if not isinstance(node.op, ops.Activated):
        return step
    return chain(step, *activate(node.op.fused_activation_function, node.out))


def _checked(node: Node[Any], step: Step) -> Step:
    """The step after a look for zeros in the divisor; none where it is a constant without zeros, or nothing is
    divided."""
    divisor, constant = node.input(1), node.constant(1)
    if not node.out.size or (constant is not None and constant.all()):
        return step
    valid = divisor.item if divisor.size == 1 else divisor.all

    def run() -> None:
        if not valid():
            raise ExecutionError("division by zero")
        step()

    return run


def _divide(node: Node[Any]) -> Step:
    a, b, out = node.input(0), node.input(1), node.out
    if out.dtype.kind == "f":
        return activated(node, partial(np.divide, a, b, out))
    multiple = np.empty_like(out)
    steps: list[Step] = [partial(np.fmod, a, b, multiple), partial(np.subtract, a, multiple, multiple),
                         partial(np.floor_divide, multiple, b, out)]
    constant = node.constant(1)
    if out.dtype.kind == "i" and (constant is None or (constant == -1).any()):
        steps = _saturated(a, b, out, steps)
    return activated(node, _checked(node, chain(*steps)))


def _saturated(a: Array, b: Array, out: Array, steps: list[Step]) -> list[Step]:
    """The steps of a division that gives the greatest integer where the least one is divided by -1."""
    overflows, negates = np.empty(out.shape, np.bool_), np.empty(out.shape, np.bool_)
    return [partial(np.equal, a, like(out, np.iinfo(out.dtype).min), overflows),
            partial(np.equal, b, like(out, -1), negates), partial(np.logical_and, overflows, negates, overflows),
            *steps, partial(np.subtract, out, overflows, out)]


def _floor_divide(node: Node[ops.FloorDiv]) -> Step:
    a, b, out = node.input(0), node.input(1), node.out
    if out.dtype.kind != "f":
        return _checked(node, partial(np.floor_divide, a, b, out))
    quotient = np.empty(out.shape, np.float64)
    return _checked(node, chain(partial(np.divide, a, b, quotient, dtype=np.float64),
                                partial(np.floor, quotient, out, casting="same_kind")))


def _remainder(function: np.ufunc) -> Bind[Any]:
    def bind(node: Node[Any]) -> Step:
        step = partial(function, node.input(0), node.input(1), node.out)
        return step if node.out.dtype.kind == "f" else _checked(node, step)

    return bind


def _power(node: Node[Any]) -> Step:
    x, exponent, out, constant = node.input(0), node.input(1), node.out, node.constant(1)
    step = partial(np.power, x, exponent, out)
    if out.dtype.kind == "f":
        return step if constant is not None and not (constant == 0.5).any() else _with_roots(step, x, exponent, out)
    if out.dtype.kind == "u" or not out.size or (constant is not None and (constant >= 0).all()):
        return step

    def checked() -> None:
        if (exponent < 0).any():
            raise ExecutionError("an integer to a negative power")
        step()

    return checked


def _with_roots(step: Step, x: Array, exponent: Array, out: Array) -> Step:
    """Corrects what numpy gives for the power 0.5 as the square root: it is inf of -inf, and 0 of -0. A step may write
    over what it reads."""
    half = like(exponent, 0.5)

    def run() -> None:
        corrected, found = np.equal(exponent, half) & (np.isneginf(x) | np.equal(x, 0)), np.abs(x)
        step()
        np.copyto(out, found, where=corrected)

    return run


def _extremum(precedes: np.ufunc, function: np.ufunc) -> Combine:
    """Takes `b` where `a` precedes it, else `a`, but NaN where either is; for integers as `function` has it."""
    def combine(a: Array, b: Array, out: Array) -> Step:
        if out.dtype.kind != "f":
            return partial(function, a, b, out=out)
        return lambda: np.copyto(out, np.where(precedes(a, b) | np.isnan(b), b, a))

    return combine


_greatest, _least = _extremum(np.less, np.maximum), _extremum(np.greater, np.minimum)


def _of_two(combine: Combine) -> Bind[Any]:
    return lambda node: combine(node.input(0), node.input(1), node.out)


def _choice(precedes: np.ufunc, function: np.ufunc) -> Bind[Any]:
    """The rule that takes `a` where it precedes `b`, else `b`: for integers as `function` has it."""
    def bind(node: Node[Any]) -> Step:
        a, b, out = node.input(0), node.input(1), node.out
        if out.dtype.kind != "f":
            return partial(function, a, b, out=out)
        return lambda: np.copyto(out, np.where(precedes(a, b), a, b))

    return bind


def _squared_difference(node: Node[ops.SquaredDifference]) -> Step:
    out = node.out
    return chain(partial(np.subtract, node.input(0), node.input(1), out), partial(np.square, out, out))


def _sum(node: Node[ops.AddN]) -> Step:
    first, *middle = node.inputs
    if not middle:
        return partial(np.copyto, node.out, first)
    last = middle.pop()
    if not middle:
        return partial(np.add, first, last, node.out)
    total = np.empty_like(node.out)
    sums = (partial(np.add, total, each, total) for each in middle[1:])
    return chain(partial(np.add, first, middle[0], total), *sums, partial(np.add, total, last, node.out))


def _right_shift(node: Node[ops.RightShift]) -> Step:
    a, count, out = node.input(0), node.input(1), node.out
    greatest = 8 * out.itemsize - 1
    if node.constant(1) is not None:
        return partial(np.right_shift, a, np.clip(count, 0, greatest), out)
    return lambda: np.right_shift(a, np.minimum(np.maximum(count, 0), greatest), out)


def _prelu(node: Node[ops.Prelu]) -> Step:
    x, slope, out = node.input(0), node.input(1), node.out
    return lambda: np.copyto(out, np.where(x >= 0, x, x * slope))


def _clamp(node: Node[ops.StablehloClamp]) -> Step:
    low, x, high = node.inputs
    raised = np.empty(node.out.shape, node.out.dtype)
    return chain(_greatest(x, low, raised), _least(raised, high, node.out))


define(ops.Add, NUMBERS, ufunc(np.add), quantized_binary.add)
define(ops.Sub, NUMBERS, ufunc(np.subtract), quantized_binary.add)
define(ops.Mul, NUMBERS, ufunc(np.multiply), quantized_binary.multiply)
define(ops.Div, NUMBERS, _divide, quantized_binary.divide)
define(ops.FloorDiv, NUMBERS, _floor_divide)
define(ops.FloorMod, NUMBERS, _remainder(np.remainder))
define(ops.Pow, NUMBERS, _power)
_maximum, _minimum = _choice(np.greater, np.maximum), _choice(np.less, np.minimum)
define(ops.Maximum, NUMBERS, _maximum, _maximum, further=one_quantization)
define(ops.Minimum, NUMBERS, _minimum, _minimum, further=one_quantization)
define(ops.SquaredDifference, NUMBERS, _squared_difference, quantized_binary.squared_difference, {DType.INT8})
define(ops.AddN, NUMBERS, _sum)
define(ops.Atan2, FLOATS, ufunc(np.arctan2))
define(ops.BitwiseXor, _BITS, ufunc(np.bitwise_xor))
define(ops.RightShift, INTEGERS, _right_shift)
define(ops.Prelu, FLOATS, _prelu, quantized_binary.prelu)
define(ops.StablehloAdd, NUMBERS | {DType.BOOL}, ufunc(np.add))
define(ops.StablehloSubtract, NUMBERS, ufunc(np.subtract))
define(ops.StablehloMultiply, NUMBERS | {DType.BOOL}, ufunc(np.multiply))
define(ops.StablehloDivide, NUMBERS, _divide)
define(ops.StablehloRemainder, NUMBERS, _remainder(np.fmod))
define(ops.StablehloPower, NUMBERS, _power)
define(ops.StablehloMaximum, NUMBERS | {DType.BOOL}, _of_two(_greatest))
define(ops.StablehloMinimum, NUMBERS | {DType.BOOL}, _of_two(_least))
define(ops.StablehloAnd, _BITS, ufunc(np.bitwise_and))
define(ops.StablehloOr, _BITS, ufunc(np.bitwise_or))
define(ops.StablehloShiftLeft, INTEGERS, ufunc(np.left_shift))
define(ops.StablehloClamp, NUMBERS, _clamp)
