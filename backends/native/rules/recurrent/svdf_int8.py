"""The SVDF of int8 activations and weights with a state of int16, to the bit as the numpy backend's."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import quantize_multiplier
from circlet.backends.native.emit.emitter import I8, I32, Emitter
from circlet.backends.native.emit.loops import folded, rolled
from circlet.backends.native.rules.figures.figure import quantization
from circlet.backends.native.rules.figures.multiplier import rescale
from circlet.backends.native.rules.preferences import INT8
from circlet.backends.native.rules.quantized.fully_connected import I16
from circlet.backends.native.rules.quantized.requantize import SUMS_BELOW, clamped
from circlet.backends.native.rules.real.reduce import Register
from circlet.backends.native.rules.recurrent.rnn import depth, variables
from circlet.backends.native.rules.refusals import sums_below
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.recurrent import SVDF, Svdf


def _refuses(call: Call) -> str | None:
    """Refuses sparse weights, and rows that make sums too large."""
    sparse = (f"input {k} is sparse" for k in (SVDF.weights, SVDF.recurrent) if call.input(k).sparsity is not None)
    return next(sparse, None) or sums_below(SUMS_BELOW, depth(call.input(SVDF.weights)) * 255 * 128)


@nest(Svdf, all_of(only((DType.INT8,)), variables([SVDF.state]), _refuses), is_last=True, name=INT8)
def svdf(node: Node[Svdf], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """One step: as that of floats, TFLite's `EvalIntegerSVDF`. Products with the input are rescaled to the state's
    scale, sums over time, which wrap, to the output's."""
    b, function, (batch, units) = e.builder, node.function, node.shape
    (filters, memory), rank = node.input(SVDF.recurrent).shape, node.op.rank
    x, weights, over_time, state = (function.pointer(node.input(k)) for k in (
        0, SVDF.weights, SVDF.recurrent, SVDF.state))
    bias = None if node.optional(SVDF.bias) is None else function.pointer(node.input(SVDF.bias))
    given, made = quantization(node.call.input(0)), quantization(node.call.outputs[0])
    scales = [np.float32(quantization(node.call.input(k)).scale) for k in (0, SVDF.weights, SVDF.recurrent, SVDF.state)]
    to_state = quantize_multiplier(float(scales[0] * scales[1] / scales[3]))
    to_output = quantize_multiplier(float(scales[3] * scales[2] / np.float32(made.scale)))
    length = node.input(SVDF.weights).shape[1]
    size = I16.width // 8
    e.copy(state, e.address(state, I16, 1), max(batch * filters * memory - 1, 0) * size)
    with rolled(e, batch) as row, rolled(e, filters) as each:
        source = e.address(x, I8, b.mul(row, e.number(length)))
        total = _dot(e, source, e.address(weights, I8, b.mul(each, e.number(length))), DType.INT8, length,
                     given.zero_point)
        value = clamped(e, rescale(e, total, *to_state), -(1 << 15), (1 << 15) - 1)
        number = b.add(b.mul(row, e.number(filters)), each)
        last = b.add(b.mul(number, e.number(memory)), e.number(memory - 1))
        e.store(b.trunc(value, I16), state, DType.INT16, last)
    with rolled(e, batch) as row, rolled(e, units) as unit:
        begin = b.mul(unit, e.number(rank * memory))
        values = e.address(state, I16, b.add(b.mul(row, e.number(filters * memory)), begin))
        total = _dot(e, values, e.address(over_time, I16, begin), DType.INT16, rank * memory)
        total = total if bias is None else b.add(total, e.load(bias, DType.INT32, unit))
        moved = b.add(rescale(e, total, *to_output), ir.Constant(I32, made.zero_point))
        sinks[0](e, [row, unit], b.trunc(clamped(e, moved, -128, 127), I8))


def _dot(e: Emitter, one: ir.Value, other: ir.Value, dtype: DType, count: int, zero: int = 0) -> ir.Value:
    """The sum, an i32 that wraps, of products of stored integers, the first ones less a zero point."""
    b, total = e.builder, Register(e, I32)
    total.set(ir.Constant(I32, 0))
    with folded(e, count) as k:
        first, second = (b.sext(e.load(each, dtype, k), I32) for each in (one, other))
        total.set(b.add(total.get(), b.mul(b.sub(first, ir.Constant(I32, zero)), second)))
    return total.get()
