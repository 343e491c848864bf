"""The LSTM and the SVDF of int8 activations and weights with int16 states, equal to the bit to LiteRT's kernels.

Gates of the LSTM are int16 with 12 fraction bits, their functions are tables over all int16 values, and the cells'
scale is a power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import frexp
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.backends.arithmetic import fixed_point_functions as fixed
from circlet.backends.arithmetic.fixed_point import (
    Int32s,
    Int64s,
    quantize_multiplier,
    quantize_multipliers,
    rescaler,
    shift_right,
)
from circlet.backends.arithmetic.gates import GATE_SCALE, INT16, LOGISTIC, TANH, cell_limit
from circlet.backends.arithmetic.quantization import scale_and_zero_point
from circlet.backends.cpu.hybrid import integer_matrix
from circlet.backends.cpu.quantized import object_to_weights
from circlet.backends.cpu.rule import Node
from circlet.backends.cpu.steps import prepared
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Array, DType
from circlet.runtime.ops.recurrent import LSTM, Svdf, UnidirectionalSequenceLstm
from circlet.runtime.records import dataclass

_PEEPHOLES = range(LSTM.peephole, LSTM.peephole + 3)
_BIASES = range(LSTM.bias, LSTM.bias + 4)
_TYPES = dict.fromkeys(_BIASES, DType.INT32) | dict.fromkeys((*_PEEPHOLES, LSTM.cell_state), DType.INT16)
_CELL_SCALES = frozenset((2.0**exponent, 0) for exponent in range(-15, -8))


def objections(call: Call) -> Iterator[str]:
    """Why an LSTM of an int8 input is refused."""
    op = call.op
    assert isinstance(op, UnidirectionalSequenceLstm)
    if call.has(LSTM.projection):
        yield "an int8 projection"
    if any(call.has(k) for k in range(20, 24)):
        yield "int8 layer normalisation"
    if op.fused_activation_function is not Activation.TANH:
        yield f"fused activation {op.fused_activation_function.name} with int8 (supported: TANH)"
    for k, tensor in enumerate(call.inputs):
        if tensor is not None:
            yield from _operand_objections(k, tensor)
    state, made = call.input(LSTM.output_state), call.outputs[0]
    if made.dtype is not DType.INT8 or scale_and_zero_point(made) != scale_and_zero_point(state):
        yield "an output that is not quantised as the output state"
    if call.intermediates:
        yield from _hidden_objections(call.intermediates, state)


def _hidden_objections(intermediates: Sequence[Tensor | None], state: Tensor) -> Iterator[str]:
    """The last of five intermediates is the hidden state, which is the output state where there is no projection."""
    hidden = intermediates[4] if len(intermediates) == 5 else None
    if hidden is None:
        yield f"{len(intermediates)} intermediates without the hidden state (expected 5, the last one of them)"
    elif scale_and_zero_point(hidden) != scale_and_zero_point(state):
        yield (f"a hidden state quantised by {scale_and_zero_point(hidden)}, the output state by "
               f"{scale_and_zero_point(state)} (supported: equal ones)")


def _operand_objections(position: int, tensor: Tensor) -> Iterator[str]:
    expected = _TYPES.get(position, DType.INT8)
    if tensor.dtype is not expected:
        yield f"element type {tensor.dtype.value} of input {position} (supported: {expected.value})"
    if position in LSTM.matrices() or position in _PEEPHOLES:
        yield from object_to_weights(tensor, axis=None, symmetric=True)
    elif position not in _BIASES and scale_and_zero_point(tensor) is None:
        yield f"input {position} without exactly one scale"
    elif position == LSTM.cell_state and scale_and_zero_point(tensor) not in _CELL_SCALES:
        yield "cells whose scale is not a power of two from 2 ** -15 to 2 ** -9, or with a zero point"


def _saturated(x: Array) -> Int64s:
    return fixed.saturated(x, 15)


def _at(table: Int64s, x: Array) -> Int64s:
    """A function of int16 values."""
    result: Int64s = table[x + 32768]
    return result


@dataclass(frozen=True, eq=False)
class _Weights:
    """Matrices (n, gates * cells) with what brings sums to the scale of the gates."""

    matrix: Array
    bias: Int64s | int
    rescale: Callable[[npt.ArrayLike], Int32s]

    def apply(self, rows: Array) -> Int64s:
        sums = np.matmul(rows.astype(self.matrix.dtype), self.matrix).astype(np.int64)
        return self.rescale(sums + self.bias).astype(np.int64)


def _scale(node: Node[Any], position: int) -> np.float32:
    scale: np.float32 = np.float32(node.quantization(position).scale)
    return scale


def _weights(node: Node[Any], first: int, rows: int, bias: int | None) -> _Weights:
    """The matrices of the gates from position `first` on, for the rows that the input `rows` quantises."""
    positions = [first + k for k in range(4) if node.call.has(first + k)]
    stored = np.concatenate([node.input(k) for k in positions])
    added: Int64s = -node.quantization(rows).zero_point * stored.sum(axis=1, dtype=np.int64)
    if bias is not None:
        added += np.concatenate([node.input(bias + k) for k in range(4) if node.call.has(bias + k)])
    reals = [_scale(node, k) * _scale(node, rows) / GATE_SCALE for k in positions]
    multipliers, shifts = quantize_multipliers(np.repeat(reals, len(stored) // len(positions)))
    return _Weights(integer_matrix(stored, span=128), added, rescaler(multipliers, shifts))


@dataclass(frozen=True, eq=False)
class _Gates:
    """One step's gates (batch, gates, cells) and the cells, moved on by `advance`."""

    node: Node[UnidirectionalSequenceLstm]
    cell_bits: int
    """Integer bits of the cells."""
    tanh: Int64s
    """tanh of all cells."""
    clip: int
    emit: Callable[[npt.ArrayLike], Int32s]

    def gate(self, sums: Int64s, index: int, table: Int64s) -> Int64s:
        """The gate at an index from the end."""
        x, peephole = sums[:, index], LSTM.peephole + (2 if index == -1 else index + 4)
        if index != -2 and self.node.call.has(peephole):
            real = np.float32(2.0 ** (self.cell_bits - 15)) * _scale(self.node, peephole) / GATE_SCALE
            products = self.node.input(peephole).astype(np.int64) * self.node.input(LSTM.cell_state)
            x = _saturated(x + rescaler(*quantize_multiplier(float(real)))(products))
        return _at(table, x)

    def advance(self, sums: Int64s) -> Int64s:
        """Moves the cells on and gives the result, before its zero point is added."""
        cells = self.node.input(LSTM.cell_state)
        forget = self.gate(sums, -3, LOGISTIC)
        admit = 32767 - forget if sums.shape[1] == 3 else self.gate(sums, -4, LOGISTIC)
        kept = shift_right(forget * cells, 15)
        new = _saturated(kept + shift_right(admit * self.gate(sums, -2, TANH), 15 + self.cell_bits))
        np.copyto(cells, new.clip(-self.clip, self.clip) if self.clip > 0 else new, casting="unsafe")
        return self.emit(self.gate(sums, -1, LOGISTIC) * _at(self.tanh, cells.astype(np.int64))).astype(np.int64)


def sequence_lstm(node: Node[UnidirectionalSequenceLstm]) -> Step:
    """The step of an LSTM that `objections` has nothing against."""
    x, out, state, cells = node.input(0), node.out, node.input(LSTM.output_state), node.input(LSTM.cell_state)
    sequence, results = (x, out) if node.op.time_major else (x.swapaxes(0, 1), out.swapaxes(0, 1))
    inputs = prepared(node, _present(node, LSTM.weights, LSTM.bias), lambda: _weights(node, LSTM.weights, 0, LSTM.bias))
    recurrent = prepared(node, _present(node, LSTM.recurrent),
                         lambda: _weights(node, LSTM.recurrent, LSTM.output_state, None))
    zero = node.quantization(LSTM.output_state).zero_point
    cell_scale, unit = _scale(node, LSTM.cell_state), np.float32(2**-15)
    cell_bits = frexp(cell_scale)[1] - 1 + 15
    gates = _Gates(node, cell_bits, fixed.tanh(INT16, cell_bits, width=15),
                   cell_limit(node.op.cell_clip, cell_scale),
                   rescaler(*quantize_multiplier(float(unit / _scale(node, LSTM.output_state) * unit))))

    def step() -> None:
        driven, again = inputs(), recurrent()
        for rows, result in zip(sequence, results, strict=True):
            sums = _saturated(_saturated(driven.apply(rows)) + again.apply(state))
            emitted = gates.advance(sums.reshape(len(cells), sums.shape[1] // max(cells.shape[1], 1), cells.shape[1]))
            np.copyto(state, (emitted + zero).clip(-128, 127), casting="unsafe")
            result[...] = state

    return step


def _present(node: Node[Any], *groups: int) -> list[int]:
    return [first + k for first in groups for k in range(4) if node.call.has(first + k)]


_SVDF_TYPES = (DType.INT8, DType.INT8, DType.INT16, DType.INT32, DType.INT16)


def svdf_objections(call: Call) -> Iterator[str]:
    """Why an SVDF of an int8 input is refused."""
    assert isinstance(call.op, Svdf)
    if call.op.fused_activation_function is not Activation.RELU:
        yield f"fused activation {call.op.fused_activation_function.name} with int8 (supported: RELU)"
    for k, (tensor, expected) in enumerate(zip(call.inputs, _SVDF_TYPES, strict=True)):
        if tensor is None:
            continue
        if tensor.dtype is not expected:
            yield f"element type {tensor.dtype.value} of input {k} (supported: {expected.value})"
        if k in (1, 2):
            yield from object_to_weights(tensor, axis=None, symmetric=True)
        elif k != 3 and scale_and_zero_point(tensor) is None:
            yield f"input {k} without exactly one scale"
    made = call.outputs[0]
    if made.dtype is not DType.INT8 or scale_and_zero_point(made) is None:
        yield f"an output of {made.dtype.value} (supported: int8 with exactly one scale)"


def svdf(node: Node[Svdf]) -> Step:
    """The step of an SVDF that `svdf_objections` has nothing against; its activation is the least of the output."""
    x, features, over_time, bias, out = node.input(0), node.input(1), node.input(2), node.optional(3), node.out
    (filters, memory), zero, made = over_time.shape, node.quantization().zero_point, node.output_quantization()
    state = node.input(4).reshape(len(x), filters, memory)
    reals = (_scale(node, 0) * _scale(node, 1) / _scale(node, 4),
             _scale(node, 4) * _scale(node, 2) / np.float32(made.scale))
    to_state, to_output = (rescaler(*quantize_multiplier(float(each))) for each in reals)

    def step() -> None:
        state[..., :-1] = state[..., 1:]
        state[..., -1] = _saturated(to_state(np.matmul(x.astype(np.int64) - zero, features.T.astype(np.int64))))
        products = (state.astype(np.int64) * over_time).sum(axis=-1)
        sums = products.reshape(len(x), filters // node.op.rank, node.op.rank).sum(axis=-1)
        wrapped = (sums if bias is None else sums + bias).astype(np.int32)
        np.copyto(out, (to_output(wrapped) + np.int64(made.zero_point)).clip(-128, 127), casting="unsafe")

    return step
