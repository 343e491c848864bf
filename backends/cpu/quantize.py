"""Numpy rules of the operators that change the element type."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from circlet.backends.arithmetic.fixed_point import quantize_multiplier, rescaler, round_half_away
from circlet.backends.arithmetic.quantization import quantization_of, unpack_int4
from circlet.backends.cpu.quantized import NUMBERS, parameters, supports
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, like, saturating
from circlet.backends.refusal import names
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import QUANTIZABLE, Array, DType, Quantization
from circlet.runtime.ops import quantize as ops

_CASTABLE = NUMBERS | {DType.BOOL, DType.BFLOAT16}
_REAL = frozenset({DType.FLOAT16, DType.FLOAT32})
_STORED = QUANTIZABLE | {DType.INT32}


def _refuse_cast(call: Call) -> str | None:
    """Complex numbers become real ones, and nothing becomes complex."""
    found = ({call.input(0).dtype} - {DType.COMPLEX64} | {call.outputs[0].dtype}) - _CASTABLE
    return f"element type {names(found)} (supported: {names(_CASTABLE)})" if found else None


@rule(ops.Cast, accepts=_refuse_cast)
def cast(node: Node[ops.Cast]) -> Step:
    return _convert(node)


@rule(ops.StablehloConvert, accepts=_refuse_cast)
def stablehlo_convert(node: Node[ops.StablehloConvert]) -> Step:
    return _convert(node)


def _convert(node: Node[Any]) -> Step:
    x, out = node.input(0).real, node.out
    narrow, wide = node.dtype() is DType.BFLOAT16, node.call.outputs[0].dtype is DType.BFLOAT16
    if narrow and wide:
        return partial(np.copyto, out, x)
    if narrow:
        single = np.empty(x.shape, np.float32)
        return chain(partial(_widen, x, single), _convert_plain(single, out))
    if wide:
        single = np.empty(x.shape, np.float32)
        return chain(_convert_plain(x, single), partial(_narrow, single, out))
    return _convert_plain(x, out)


def _widen(bits: Array, out: Array) -> None:
    """The values of bfloat16 bits, in float32."""
    np.left_shift(bits, 16, out=out.view(np.uint32), dtype=np.uint32)


def _narrow(x: Array, out: Array) -> None:
    """The bits of the nearest bfloat16 values of float32 ones, halves to the even one; NaN stays NaN."""
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    out[...] = np.where(np.isnan(x), bits >> 16 | 0x40, rounded)


def _convert_plain(x: Array, out: Array) -> Step:
    if out.dtype.kind == "b":
        return partial(np.not_equal, x, 0, out)
    if x.dtype.kind != "f" or out.dtype.kind == "f":
        return partial(np.copyto, out, x, "unsafe")
    return _truncate(x, out)


def _truncate(x: Array, out: Array) -> Step:
    limits = np.iinfo(out.dtype)
    wide = np.empty(out.shape, np.promote_types(x.dtype, np.float32))
    fits = np.empty(out.shape, np.bool_)
    return chain(partial(np.less, x, like(wide, limits.max + 1), fits),
                 partial(np.maximum, x, like(wide, limits.min), out=wide),
                 partial(out.fill, limits.max), partial(np.copyto, out, wide, "unsafe", fits))


def _along(quantization: Quantization, rank: int) -> tuple[Array, Array]:
    """Scales, in single precision, and zero points, shaped to broadcast against a tensor of the given rank."""
    scales = np.array(quantization.scales, np.float32)
    zeros = np.broadcast_to(np.array(quantization.zero_points or (0,), np.int64), scales.shape)
    if not quantization.per_axis:
        return scales.reshape(()), zeros.reshape(())
    shape = tuple(-1 if k == quantization.axis else 1 for k in range(rank))
    return scales.reshape(shape), zeros.reshape(shape)


def _refuse_scales(tensor: Tensor) -> str | None:
    found = tensor.quantization
    if found is not None and found.blockwise:
        return f"blockwise quantisation of tensor {tensor.name!r}"
    return None if found is not None and found.scales else f"tensor {tensor.name!r} has no quantisation"


def _refuse_quantize(call: Call) -> str | None:
    source, target = call.input(0), call.outputs[0]
    if source.dtype in _REAL:
        return _refuse_scales(target) if target.dtype in QUANTIZABLE else \
            f"{target.dtype.value} from {source.dtype.value} (supported: {names(QUANTIZABLE)})"
    if {source.dtype, target.dtype} - _STORED:
        return f"{target.dtype.value} from {source.dtype.value} (supported: {names(_STORED)})"
    per_axis = any(each.quantization and each.quantization.per_axis for each in (source, target))
    return _refuse_scales(source) or _refuse_scales(target) or (
        "a change of quantisation per axis (supported: per tensor)" if per_axis else None)


@rule(ops.Quantize, accepts=_refuse_quantize)
def quantize(node: Node[ops.Quantize]) -> Step:
    x, out, limits = node.input(0), node.out, np.iinfo(node.out.dtype)
    if node.dtype() not in _REAL:
        return _requantize(node)
    scales, zeros = _along(parameters(node)[-1], out.ndim)
    least, greatest, shift = ((each - zeros).astype(np.float32) for each in (limits.min, limits.max, 0))

    def step() -> None:
        nearest = round_half_away(x.astype(np.float32) / scales)
        np.subtract(np.fmin(np.fmax(nearest, least), greatest), shift, out, casting="unsafe")

    return step


def _requantize(node: Node[ops.Quantize]) -> Step:
    source, target = parameters(node)
    x, store = node.input(0), saturating(node.out)
    rescale = rescaler(*quantize_multiplier(source.scale / target.scale))
    return lambda: store(rescale(x.astype(np.int64) - source.zero_point).astype(np.int64) + target.zero_point)


def _refuse_dequantize(call: Call) -> str | None:
    found = call.input(0)
    if found.dtype == DType.FLOAT16:
        return None
    if found.dtype == DType.INT4:
        return _refuse_scales(found) if found.data is not None else "int4 that is not a constant"
    return _refuse_scales(found) if found.dtype in QUANTIZABLE else \
        f"element type {found.dtype.value} (supported: {names(QUANTIZABLE | {DType.FLOAT16, DType.INT4})})"


@rule(ops.Dequantize, accepts=_refuse_dequantize)
def dequantize(node: Node[ops.Dequantize]) -> Step:
    x, out, quantization = node.input(0), node.out, quantization_of(node.call.input(0))
    if node.dtype() == DType.FLOAT16 or quantization is None:
        return partial(np.copyto, out, x)
    if node.dtype() == DType.INT4:
        x = unpack_int4(x, out.shape)
    scales, zeros = _along(quantization, out.ndim)
    multiply = partial(np.multiply, x, scales, out, dtype=np.float32)
    if not zeros.any():
        return multiply
    return chain(partial(np.subtract, x, zeros.astype(np.float32), out, dtype=np.float32),
                 partial(np.multiply, out, scales, out))


def _refuse_fake_quant(call: Call) -> str | None:
    assert isinstance(call.op, ops.FakeQuant)
    if not (2 <= call.op.num_bits <= 16 and call.op.min < call.op.max):
        return f"{call.op.num_bits} bits over [{call.op.min}, {call.op.max}] (supported: 2 to 16 bits, min < max)"
    return supports({DType.FLOAT32})(call)


@rule(ops.FakeQuant, accepts=_refuse_fake_quant)
def fake_quant(node: Node[ops.FakeQuant]) -> Step:
    x, out, op = node.input(0), node.out, node.op
    first, last = np.float32(op.narrow_range), np.float32((1 << op.num_bits) - 1)
    scale = (np.float32(op.max) - np.float32(op.min)) / (last - first)
    zero = round_half_away(np.clip(first - np.float32(op.min) / scale, first, last))
    least, greatest, inverse = (first - zero) * scale, (last - zero) * scale, np.float32(1) / scale

    def step() -> None:
        above = np.fmin(np.fmax(x, least), greatest) - least
        np.add(round_half_away(above * inverse) * scale, least, out)

    return step
