"""How element types enter and leave a convolution: floats, quantised integers, and floats with int8 weights.

Products are always summed as floating-point numbers, by BLAS; where integers are meant, in a type that holds every
partial sum exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.backends.arithmetic.fixed_point import convolution_multipliers, quantized_range, rescaler, rescaler_64
from circlet.backends.arithmetic.quantization import quantization_of
from circlet.backends.cpu.hybrid import exact_dtype, quantize_rows
from circlet.backends.cpu.quantized import object_to_activations, object_to_weights
from circlet.backends.cpu.rule import Node
from circlet.backends.cpu.steps import activate, refuse_fused, saturating
from circlet.backends.refusal import names
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.records import dataclass


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """What a convolution of some element types does before and after it multiplies and adds."""

    dtype: npt.DTypeLike
    """The type of operands and sums: float32 or float64."""
    weights: Array
    """The filter in its own layout, as `dtype`, zero where its real value is zero."""
    prepare: tuple[Step, ...]
    """Fills `weights`; empty where that was done when binding."""
    load: Callable[[Array], Step]
    """Fills a buffer of `dtype` and shape (n, *spatial, c, k) with the input, k times."""
    direct: bool
    """The input may be used where it lies instead."""
    finish: Callable[[Array, Array, slice], list[Step]]
    """Makes sums (n, *positions, o), which may be the output itself, into the output of the given images."""


@dataclass(frozen=True)
class Combination:
    """Element types that go together."""

    data: DType
    filter: DType
    biases: frozenset[DType]
    bind: Callable[[Node[Any], Roles], Arithmetic]
    refuses: Callable[[Call, Roles], str | None]
    made: DType | None = None
    """The type of results, if it is one alone."""

    def __str__(self) -> str:
        return f"{self.data.value} with {self.filter.value}"


@dataclass(frozen=True)
class Roles:
    """What the inputs of an operator are, and the combinations of element types that it takes."""

    combinations: tuple[Combination, ...]
    data: int = 0
    filter: int = 1
    bias: int = 2
    channels: int = 0
    """The axis of the filter that runs over the output's channels."""

    def bind(self, node: Node[Any]) -> Arithmetic:
        """The arithmetic of an operator that `refuses` accepts."""
        found = self._find(node.call)
        assert found is not None, f"{node.op.name} is bound with element types it refuses"
        return found.bind(node, self)

    def refuses(self, call: Call) -> str | None:
        """Why a call is refused; None where it is not."""
        found = self._find(call)
        if found is None:
            return (f"element type {call.input(self.data).dtype.value} with a filter of "
                    f"{call.input(self.filter).dtype.value} (supported: {', '.join(map(str, self.combinations))})")
        if call.has(self.bias) and call.input(self.bias).dtype not in found.biases:
            return f"bias of element type {call.input(self.bias).dtype.value} (supported: {names(found.biases)})"
        return refuse_fused(call) or found.refuses(call, self)

    def _find(self, call: Call) -> Combination | None:
        types = (call.input(self.data).dtype, call.input(self.filter).dtype)
        made = call.outputs[0].dtype
        return next((each for each in self.combinations
                     if (each.data, each.filter) == types and each.made in (None, made)), None)


def _floating(node: Node[Any], roles: Roles) -> Arithmetic:
    data, bias = node.input(roles.data), node.optional(roles.bias)

    def finish(sums: Array, out: Array, images: slice) -> list[Step]:
        first = partial(np.copyto, out, sums) if bias is None else partial(np.add, sums, bias, out)
        return [*([] if bias is None and sums is out else [first]),
                *activate(node.op.fused_activation_function, out)]

    return Arithmetic(data.dtype, node.input(roles.filter), (), lambda into: partial(np.copyto, into, data[..., None]),
                      True, finish)


def _quantized(node: Node[Any], roles: Roles) -> Arithmetic:
    data, bias = node.input(roles.data), node.optional(roles.bias)
    given, weighted = node.quantization(roles.data), node.quantization(roles.filter)
    made = node.output_quantization()
    zero = given.zero_point
    limits = np.iinfo(data.dtype)
    dtype, weights, prepare = _weights(node, roles, weighted.zero_point, max(limits.max - zero, zero - limits.min))
    multipliers, shifts = convolution_multipliers(given, weighted, made, DType.of(data.dtype))
    kind = getattr(node.op, "quantized_bias_type", None) if bias is None else DType.of(bias.dtype)
    wide = data.dtype == np.int16 and kind is not DType.INT32
    rescale = (rescaler_64 if wide else rescaler)(multipliers, shifts)
    low, high = quantized_range(node.op.fused_activation_function, made, node.call.outputs[0].dtype)

    def finish(sums: Array, out: Array, images: slice) -> list[Step]:
        store = saturating(out, low, high)

        def requantize() -> None:
            total = sums.astype(np.int64)
            if bias is not None:
                total += bias
            store(rescale(total) + made.zero_point)

        return [requantize]

    return Arithmetic(dtype, weights, prepare,
                      lambda into: partial(np.subtract, data[..., None], zero, into, dtype=dtype), False, finish)


def _sums(node: Node[Any], roles: Roles) -> Arithmetic:
    """Stored integers are multiplied as they are, and their sums are the results."""
    data, bias = node.input(roles.data), node.optional(roles.bias)
    dtype, weights, prepare = _weights(node, roles, 0, 128)

    def finish(sums: Array, out: Array, images: slice) -> list[Step]:
        store = partial(np.copyto, out, sums, casting="unsafe")
        return [store] if bias is None else [store, partial(np.add, out, bias, out)]

    return Arithmetic(dtype, weights, prepare, lambda into: partial(np.copyto, into, data[..., None]), False, finish)


def _hybrid(node: Node[Any], roles: Roles) -> Arithmetic:
    """Each image is quantised when it is loaded: around 0 where the filter of a plain convolution has one scale, else
    so that int8 is used up. A plain convolution scales its sums back by the filter's scale, then the image's; others by
    their product."""
    data, bias = node.input(roles.data), node.optional(roles.bias)
    weighted = node.quantization(roles.filter)
    symmetric = roles.channels == 0 and roles.data == 0 and not weighted.per_axis
    dtype, weights, prepare = _weights(node, roles, weighted.zero_point, 127 if symmetric else 255)
    filter_scales = np.array(weighted.scales, np.float32)
    apart = roles.channels == 0 and not symmetric
    factor = np.ones(1, np.float32) if apart else filter_scales
    column = (len(data), *(1,) * (data.ndim - 1))
    scales: Array = np.ones((*column[:-1], len(factor)), np.float32)

    def load(into: Array) -> None:
        quantized, found = quantize_rows(data.reshape(len(data), prod(data.shape[1:])), not symmetric)
        np.copyto(into, quantized.reshape(data.shape)[..., None])
        np.multiply(found.reshape(column), factor, scales)

    def finish(sums: Array, out: Array, images: slice) -> list[Step]:
        steps: list[Step] = [] if sums is out else [partial(np.copyto, out, sums, casting="same_kind")]
        if apart:
            steps.append(partial(np.multiply, out, filter_scales, out))
        steps.append(partial(np.multiply, out, scales[images], out))
        return [*steps, *([] if bias is None else [partial(np.add, out, bias, out)]),
                *activate(node.op.fused_activation_function, out)]

    return Arithmetic(dtype, weights, prepare, lambda into: partial(load, into), False, finish)


def _weights(node: Node[Any], roles: Roles, zero: int, reach: int
             ) -> tuple[npt.DTypeLike, Array, tuple[Step, ...]]:
    """The type that sums are exact in where inputs lie within `reach` of their zero point, the filter less its zero
    point in that type, and what fills it."""
    stored = node.input(roles.filter)
    axes = tuple(axis for axis in range(stored.ndim) if axis != roles.channels)
    if node.constant(roles.filter) is not None:
        bound = int(np.abs(np.subtract(stored, zero, dtype=np.int32)).sum(axis=axes).max(initial=0)) * reach
    else:
        bound = stored.size // max(stored.shape[roles.channels], 1) * 255 * reach
    dtype = exact_dtype(bound)
    weights: Array = np.empty(stored.shape, dtype)
    fill = partial(np.subtract, stored, zero, weights, dtype=dtype)
    if node.constant(roles.filter) is None:
        return dtype, weights, (fill,)
    fill()
    return dtype, weights, ()


def _accepts(call: Call, roles: Roles) -> str | None:
    return None


def _refuses_quantized(call: Call, roles: Roles) -> str | None:
    activations = object_to_activations(call.input(roles.data), call.outputs[0])
    return next(activations, None) or _refuses_filter(call, roles)


def _refuses_filter(call: Call, roles: Roles) -> str | None:
    tensor = call.input(roles.filter)
    signed = tensor.dtype is DType.INT8
    return next(object_to_weights(tensor, axis=roles.channels if signed else None, symmetric=signed), None)


def _refuses_hybrid(call: Call, roles: Roles) -> str | None:
    tensor = call.input(roles.filter)
    found = quantization_of(tensor)
    if roles.channels and found is not None and len(found.scales) == 1 and \
            tensor.signature[roles.channels:roles.channels + 1] != (1,):
        return "float32 input with an int8 filter that has one scale for all its channels"
    return _refuses_filter(call, roles)


FLOATING = tuple(Combination(dtype, dtype, frozenset({dtype}), _floating, _accepts)
                 for dtype in (DType.FLOAT32, DType.FLOAT64))
SUMS = (Combination(DType.INT8, DType.INT8, frozenset({DType.INT32}), _sums, _accepts, DType.INT32),)
QUANTIZED = tuple(Combination(data, filter, frozenset(biases), _quantized, _refuses_quantized)
                  for data, filter, biases in ((DType.INT8, DType.INT8, {DType.INT32}),
                                               (DType.UINT8, DType.UINT8, {DType.INT32}),
                                               (DType.INT16, DType.INT8, {DType.INT64, DType.INT32})))
HYBRID = (Combination(DType.FLOAT32, DType.INT8, frozenset({DType.FLOAT32}), _hybrid, _refuses_hybrid),)
