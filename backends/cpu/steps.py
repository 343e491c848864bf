"""What the steps of several families are made of: order, limits, checks of promised shapes, and work on constants."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from math import inf
from typing import Any, TypeVar

import numpy as np

from circlet.backends.arithmetic.fixed_point import float_range, quantized_range, refuse_activation
from circlet.backends.cpu.rule import Node
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step, in_turn
from circlet.runtime.ir.op import Operand, Operands, ShapeError
from circlet.runtime.ir.types import Activation, Array, DType, Quantization

Value = TypeVar("Value")


def chain(*steps: Step) -> Step:
    """One step that runs several in order."""
    return in_turn(steps)


def like(out: Array, value: float) -> Array:
    """A constant operand for a buffer: numpy takes arrays without dimensions faster than Python's numbers."""
    return np.array(value, out.dtype)


def clamp(x: Array, low: float, high: float, out: Array) -> list[Step]:
    """The steps that write a buffer, clamped, into another or itself; infinite bounds are none.

    NaN stays, and so do zeros, of which `np.maximum` would give either.
    """
    steps: list[Step] = []
    if low == 0 and out.dtype.kind == "f":
        steps += _rectify(x, out)
    elif low > -inf:
        steps.append(partial(np.maximum, x, like(out, low), out=out))
    if high < inf:
        steps.append(partial(np.minimum, out if steps else x, like(out, high), out=out))
    return steps if steps or x is out else [partial(np.copyto, out, x)]


def _rectify(x: Array, out: Array) -> list[Step]:
    """The steps that make floats zero that are less: their bits are multiplied by whether they are not."""
    kept, bits = np.empty(x.shape, np.bool_), f"u{x.itemsize}"
    return [partial(np.less, x, like(x, 0), kept), partial(np.logical_not, kept, kept),
            partial(np.multiply, x.view(bits), kept, out.view(bits))]


def activate(activation: Activation, out: Array, quantization: Quantization | None = None) -> list[Step]:
    """The steps that apply a fused activation, which is not SIGN_BIT, in place; none where there is nothing to do."""
    if activation is Activation.NONE:
        return []
    if activation is Activation.TANH:
        return [partial(np.tanh, out, out)]
    if out.dtype.kind == "f":
        return clamp(out, *float_range(activation), out)
    return clamp(out, *quantized_range(activation, quantization, DType.of(out.dtype)), out)


def refuse_fused(call: Call) -> str | None:
    """Why the fused activation of an operator is not a clamp; None where it is one or there is none."""
    options: Any = call.op
    return refuse_activation(getattr(options, "fused_activation_function", Activation.NONE))


def saturating(out: Array, low: float | None = None, high: float | None = None) -> Callable[[Array], object]:
    """A function that stores whole numbers of any type in a buffer of integers, clamped.

    By default they are clamped to what the buffer can hold.
    """
    limits = np.iinfo(out.dtype)
    least, most = limits.min if low is None else low, limits.max if high is None else high
    return lambda values: np.minimum(np.maximum(values, least), most, out=out, casting="unsafe")


def promised(node: Node[Any]) -> Step:
    """A step that looks whether the values now in the inputs give results of the shapes that the outputs have.

    It raises ExecutionError where the values do not fit the operator, or the results have other shapes.
    """
    args = Operands(tuple(
        None if tensor is None or array is None else Operand.of(tensor, array)
        for tensor, array in zip(node.call.inputs, node.arrays, strict=True)
    ), len(node.outputs))
    declared = tuple(out.shape for out in node.outputs)
    infer = node.op.infer

    def step() -> None:
        try:
            shapes = infer(args)
        except ShapeError as error:
            raise ExecutionError(str(error)) from None
        for found, shape in zip(shapes, declared, strict=True):
            if found != shape:
                raise ExecutionError(f"the result has shape {found}, the model declares {shape}")

    return step


def guarded(node: Node[Any], parameters: Collection[int], *steps: Step) -> Step:
    """The steps, after a check of the results' shapes where these depend on parameters that are not constant."""
    return chain(*steps) if node.is_constant(parameters) else chain(promised(node), *steps)


def rebound(node: Node[Any], parameters: Collection[int], bind: Callable[[], Step]) -> Step:
    """The step that `bind` makes for the present value of some inputs, made once if they are constant.

    Otherwise it is made anew each time, after a check of the results' shapes.
    """
    return bind() if node.is_constant(parameters) else chain(promised(node), lambda: bind()())


def prepared(node: Node[Any], inputs: Collection[int], make: Callable[[], Value]) -> Callable[[], Value]:
    """Gives what `make` makes of some inputs: once now if they are constants, else anew each time."""
    if not node.is_constant(inputs):
        return make
    value = make()
    return lambda: value
