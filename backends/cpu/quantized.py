"""What the rules of quantised operators share: which tensors they take, and functions as tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from circlet.backends.arithmetic.fixed_point import Int64s
from circlet.backends.arithmetic.quantization import is_quantized, quantization_of, scale_and_zero_point, stored_values
from circlet.backends.cpu.rule import Node
from circlet.backends.refusal import Refusal, names, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import FLOATS, INTEGERS, QUANTIZABLE, Array, DType, Quantization

OpT = TypeVar("OpT", bound=Op)
StoredFunction: TypeAlias = Callable[[Node[OpT], Int64s], Array]
"""What becomes of each stored value: integers, not clamped yet."""

NUMBERS = INTEGERS | FLOATS


def supports(plain: Collection[DType], quantized: Collection[DType] = (), further: Refusal | None = None,
             operand: int = 0) -> Refusal:
    """Refuses all calls but those whose inputs have one of the `plain` types, or `quantized` types per tensor.

    `further` may refuse quantised calls too; `operand` is the input whose type counts. Integers without quantisation
    are plain. Quantised int16 has no zero point.
    """
    def refuses(call: Call) -> str | None:
        found = call.input(operand)
        if not is_quantized(found):
            return only(plain, operand)(call)
        if found.dtype not in quantized:
            return f"quantised {found.dtype.value} (supported: {names(quantized) or 'none'})"
        return _refuse_quantization((*call.inputs, *call.outputs)) or (None if further is None else further(call))

    return refuses


def _refuse_quantization(tensors: Collection[Tensor | None]) -> str | None:
    for tensor in tensors:
        if tensor is None or tensor.dtype not in QUANTIZABLE:
            continue
        found = tensor.quantization
        if found is None or not is_quantized(tensor):
            return f"tensor {tensor.name!r} is not quantised, the others are"
        if found.per_axis or found.blockwise:
            return f"tensor {tensor.name!r} is quantised per axis (supported: per tensor)"
        if tensor.dtype == DType.INT16 and found.zero_point:
            return f"int16 tensor {tensor.name!r} has zero point {found.zero_point} (supported: 0)"
    return None


def one_quantization(call: Call) -> str | None:
    """Refuses quantised operands whose stored values mean different numbers."""
    tensors = [each for each in (*call.inputs, *call.outputs) if is_quantized(each)]
    found = {(each.quantization.scales[0], each.quantization.zero_point) for each in tensors
             if each is not None and each.quantization is not None}
    return None if len(found) < 2 else f"operands of different quantisation {sorted(found)}"


def object_to_weights(tensor: Tensor, axis: int | None, symmetric: bool) -> Iterator[str]:
    """Why quantised weights are refused; `axis` is the one that may have a scale for each index, if any."""
    found = tensor.quantization
    if found is None or not found.scales:
        yield "quantised weights without a scale" if found is None or found.blockwise is None else "blockwise weights"
    elif found.per_axis and (found.axis != axis or tensor.signature[axis:axis + 1] != (len(found.scales),)):
        yield f"weights quantised along axis {found.axis} (supported: {'per tensor' if axis is None else axis})"
    elif (symmetric or found.per_axis) and any(found.zero_points):
        yield f"weights with zero points {sorted(set(found.zero_points))} (supported: 0)"


def object_to_activations(source: Tensor, made: Tensor) -> Iterator[str]:
    """Why input and output of a product of integers are refused."""
    if made.dtype is not source.dtype:
        yield f"an output of {made.dtype.value} (supported: {source.dtype.value}, as the input)"
    for what, tensor in (("input", source), ("output", made)):
        found = scale_and_zero_point(tensor)
        if found is None:
            yield f"quantised {what} without exactly one scale"
        elif tensor.dtype is DType.INT16 and found[1]:
            yield f"int16 {what} with zero point {found[1]} (supported: 0)"


def parameters(node: Node[OpT]) -> tuple[Quantization, ...]:
    """The quantisation of each input, then of the output."""
    found = (quantization_of(each) for each in (*node.call.inputs, *node.call.outputs) if each is not None)
    return tuple(each for each in found if each is not None)


def reader(array: Array, table: Array) -> Callable[..., Array]:
    """A function that looks each element of a bound buffer up in a table that `stored_values` orders."""
    return partial(table.take, array.view(f"u{array.itemsize}"), mode="clip")


def lookup(function: StoredFunction[OpT], node: Node[OpT]) -> Step:
    """The step that applies a function of one stored value, which is evaluated for all of them now."""
    limits = np.iinfo(node.out.dtype)
    with np.errstate(all="ignore"):
        values = np.clip(function(node, stored_values(node.dtype())), limits.min, limits.max).astype(node.out.dtype)
    return partial(reader(node.input(0), values), out=node.out)
