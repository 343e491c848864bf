"""Numpy rules of softmax and the normalisations; quantised results are equal to the bit to LiteRT's reference kernels.

What depends on one 8-bit value alone, such as its exponential, is tabulated when binding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from circlet.backends.arithmetic import fixed_point_functions as fixed
from circlet.backends.arithmetic.fixed_point import Int64s, product, quantize_multiplier, rescaler, shift_right
from circlet.backends.arithmetic.quantization import scale_and_zero_point
from circlet.backends.arithmetic.softmax import (
    LOG_OF_TWO,
    SCALED_BITS,
    SUM_BITS,
    Decay,
    decay_of_16,
    exponentials_16,
    reciprocals_16,
)
from circlet.backends.cpu.reduce import mean
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import activate, chain, saturating
from circlet.backends.refusal import names, refusal
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops.normalize import (
    InstanceNorm,
    L2Normalization,
    LocalResponseNormalization,
    LogSoftmax,
    RmsNorm,
    Softmax,
)

Results: TypeAlias = "dict[tuple[DType, DType], tuple[tuple[float, int], ...]]"
"""The element types of input and output that an operator takes, with the quantisations that the output may have; none
of reals."""
_NEAR = 1e-3
"""How far from that a scale may be, relatively: LiteRT's tolerance. Converters have 1 / 65535, too."""
_WIDE = ((1 / 65536, -32768), (1 / 32768, 0))
"""Of probabilities in 16 bits: the first is what LiteRT's kernel computes, whatever the output says."""

SOFTMAX: Results = {
    (DType.FLOAT32, DType.FLOAT32): (),
    (DType.INT8, DType.INT8): ((1 / 256, -128),),
    (DType.UINT8, DType.UINT8): ((1 / 256, 0),),
    (DType.INT8, DType.INT16): _WIDE,
    (DType.UINT8, DType.INT16): _WIDE,
    (DType.INT16, DType.INT16): ((1 / 32768, 0),),
}
LOG_SOFTMAX: Results = {
    (DType.FLOAT32, DType.FLOAT32): (),
    (DType.INT8, DType.INT8): ((1 / 16, 127),),
    (DType.UINT8, DType.UINT8): ((1 / 16, 255),),
}
L2_NORMALIZATION: Results = {
    (DType.FLOAT32, DType.FLOAT32): (),
    (DType.INT8, DType.INT8): ((1 / 128, 0),),
    (DType.UINT8, DType.UINT8): ((1 / 128, 128),),
}


def _object(call: Call, results: Results) -> Iterator[str]:
    source, made = call.input(0), call.outputs[0]
    if (source.dtype, made.dtype) not in results:
        supported = ", ".join(f"{first.value} to {second.value}" for first, second in results)
        yield f"element types {source.dtype.value} to {made.dtype.value} (supported: {supported})"
    expected = results[source.dtype, made.dtype]
    if not expected:
        return
    if scale_and_zero_point(source) is None:
        yield "quantised input without exactly one scale"
    found = scale_and_zero_point(made)
    if found is None or not any(found[1] == zero and abs(found[0] - scale) <= _NEAR * scale
                                for scale, zero in expected):
        yield (f"an output of {made.dtype.value} with (scale, zero point) {found} (supported: "
               f"{', '.join(map(str, expected))})")


def _below_maximum(x: Array) -> Int64s:
    """How far each element is below the greatest of its row."""
    values = x.astype(np.int64)
    distances: Int64s = values.max(axis=-1, keepdims=True, initial=np.iinfo(x.dtype).min) - values
    return distances


def _softmax(node: Node[Softmax]) -> Step:
    x, out, beta = node.input(0), node.out, np.float32(node.op.beta)
    totals = np.empty((*out.shape[:-1], 1), np.float32)

    def step() -> None:
        np.max(x, axis=-1, keepdims=True, out=totals, initial=-np.inf)
        np.subtract(x, totals, out)
        if beta != 1:
            np.multiply(out, beta, out)
        np.exp(out, out)
        np.sum(out, axis=-1, keepdims=True, out=totals)
        np.divide(out, totals, out)

    return step


def _softmax_8(node: Node[Softmax]) -> Step:
    x, out = node.input(0), node.out
    exponentials = Decay.of(float(np.float32(node.op.beta)) * node.quantization().scale).exponentials
    summands = shift_right(exponentials, SUM_BITS)
    least, bits, store = np.iinfo(out.dtype).min, 8 * out.itemsize, saturating(out)

    def step() -> None:
        distances = _below_maximum(x)
        total = summands[distances].sum(axis=-1, keepdims=True)
        headroom = fixed.leading_zeros(total)
        reciprocal = fixed.reciprocal_of_one_plus((total << headroom) - (1 << 31))
        shift = SUM_BITS - headroom + 31 - bits
        values = shift_right(product(reciprocal, exponentials[distances]), shift)
        store(values + least)

    return step


def _softmax_16(node: Node[Softmax]) -> Step:
    x, out = node.input(0), node.out
    rescale = rescaler(*quantize_multiplier(decay_of_16(node.quantization().scale, node.op.beta)))
    exponential, reciprocal = exponentials_16(), reciprocals_16()

    def step() -> None:
        distances = rescale(-_below_maximum(x)) + np.int64(32767)
        exponentials = fixed.interpolate(exponential, fixed.saturated(distances, 15))
        total = exponentials.sum(axis=-1, keepdims=True)
        headroom = fixed.leading_zeros(total)
        mantissa = ((total << (headroom - 1)) + (1 << 13)) >> 14
        inverse = fixed.interpolate(reciprocal, fixed.saturated(mantissa - (3 << 15), 15))
        shift = 31 - headroom
        values = (exponentials * inverse + (np.int64(1) << (shift - 1))) >> shift
        np.copyto(out, values.clip(0, 32767), casting="unsafe")

    return step


@rule(Softmax, accepts=refusal(lambda call: _object(call, SOFTMAX)))
def softmax(node: Node[Softmax]) -> Step:
    return {DType.FLOAT32: _softmax, DType.INT16: _softmax_16}.get(node.dtype(), _softmax_8)(node)


@rule(LogSoftmax, accepts=refusal(lambda call: _object(call, LOG_SOFTMAX)))
def log_softmax(node: Node[LogSoftmax]) -> Step:
    return (_log_softmax if node.dtype() is DType.FLOAT32 else _log_softmax_8)(node)


def _log_softmax(node: Node[LogSoftmax]) -> Step:
    x, out = node.input(0), node.out

    def step() -> None:
        np.subtract(x, np.max(x, axis=-1, keepdims=True, initial=-np.inf), out)
        np.subtract(out, np.log(np.exp(out).sum(axis=-1, keepdims=True)), out)

    return step


def _log_softmax_8(node: Node[LogSoftmax]) -> Step:
    x, out = node.input(0), node.out
    decay = Decay.of(node.quantization().scale)
    summands = shift_right(decay.exponentials, SUM_BITS)
    limits, store = np.iinfo(out.dtype), saturating(out)
    to_steps = rescaler(*decay.to_steps)

    def step() -> None:
        """Differences that do not fit Q5 together with the logarithm give the least value."""
        distances = _below_maximum(x)
        total = summands[distances].sum(axis=-1, keepdims=True)
        logarithm = _log_of_sum(total)
        reach = np.minimum(decay.reach, -1 - to_steps(logarithm - (1 << 31)))
        values = shift_right(decay.scaled[distances] - logarithm, 31 - SCALED_BITS - 4) + limits.max
        store(np.where(distances <= reach, values, limits.min))

    return step


def _log_of_sum(total: Int64s) -> Int64s:
    """The logarithm in Q5 of sums of exponentials; those of 2**12 or more, which overflow in LiteRT, are halved."""
    halvings = np.maximum(fixed.bit_length(total) - 31, 0)
    logarithm = fixed.log_of_at_least_one(shift_right(total, halvings), SUM_BITS, SCALED_BITS)
    result: Int64s = logarithm + halvings * LOG_OF_TWO
    return result


@refusal
def _refuse_l2_normalization(call: Call) -> Iterator[str]:
    yield from _object(call, L2_NORMALIZATION)
    assert isinstance(call.op, L2Normalization)
    if call.op.fused_activation_function is not Activation.NONE:
        yield f"fused activation {call.op.fused_activation_function.name} (supported: NONE)"


@rule(L2Normalization, accepts=_refuse_l2_normalization)
def l2_normalization(node: Node[L2Normalization]) -> Step:
    x, out, least = node.input(0), node.out, np.float32(1e-6)
    if node.dtype() is not DType.FLOAT32:
        return _l2_normalization_8(node)
    return lambda: np.divide(x, np.maximum(np.sqrt(np.square(x).sum(axis=-1, keepdims=True)), least), out)


def _l2_normalization_8(node: Node[L2Normalization]) -> Step:
    x, out, store, zero = node.input(0), node.out, saturating(node.out), node.quantization().zero_point

    def step() -> None:
        values = np.subtract(x, zero, dtype=np.int64)
        mantissa, shift = fixed.inverse_square_root(np.square(values).sum(axis=-1, keepdims=True))
        if out.dtype == np.uint8:
            store(shift_right(product(values << 7, mantissa), shift) + 128)
        else:
            left = values << np.maximum(7 - shift, 0)
            store(shift_right(product(left, mantissa), np.maximum(shift - 7, 0)))

    return step


@rule(LocalResponseNormalization, accepts={DType.FLOAT32})
def local_response_normalization(node: Node[LocalResponseNormalization]) -> Step:
    x, out, op = node.input(0), node.out, node.op
    depth, radius = x.shape[-1], min(max(op.radius, 0), x.shape[-1])
    if not depth:
        return chain()
    squares = np.zeros((*x.shape[:-1], depth + 2 * radius), np.float32)
    inner = squares[..., radius:radius + depth]
    windows = np.lib.stride_tricks.sliding_window_view(squares, 2 * radius + 1, axis=-1)
    bias, alpha, beta = np.float32(op.bias), np.float32(op.alpha), np.float32(-op.beta)

    def step() -> None:
        np.square(x, inner)
        np.multiply(x, (windows.sum(axis=-1) * alpha + bias) ** beta, out)

    return step


@refusal
def _refuse_floats(call: Call) -> Iterator[str]:
    found = {tensor.dtype for tensor in (*call.inputs, *call.outputs) if tensor is not None}
    if found != {DType.FLOAT32}:
        yield f"element types {names(found)} (supported: float32)"
    if isinstance(call.op, InstanceNorm) and call.op.fused_activation_function is Activation.SIGN_BIT:
        yield "fused activation SIGN_BIT"


@rule(InstanceNorm, accepts=_refuse_floats)
def instance_norm(node: Node[InstanceNorm]) -> Step:
    x, gamma, beta, out = node.input(0), node.input(1).reshape(-1), node.input(2).reshape(-1), node.out
    epsilon = np.float32(node.op.epsilon)

    def normalize() -> None:
        np.subtract(x, mean(x, 1, 2), out)
        variance = mean(np.square(out), 1, 2)
        np.multiply(out, gamma / np.sqrt(variance + epsilon), out)
        np.add(out, beta, out)

    return chain(normalize, *activate(node.op.fused_activation_function, out))


@rule(RmsNorm, accepts=_refuse_floats)
def rms_norm(node: Node[RmsNorm]) -> Step:
    x, gamma, out, epsilon = node.input(0), node.input(1).reshape(-1), node.out, np.float32(node.op.epsilon)

    def step() -> None:
        np.divide(x, np.sqrt(mean(np.square(x), -1) + epsilon), out)
        np.multiply(out, gamma, out)

    return step
