"""The native rule of the LSTM of int8 activations and weights with int16 cells, equal to the bit to numpy's.

Products leave sums of 32 bits; a gate rescales those of the input and of the state, and looks up its function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import frexp
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic import fixed_point_functions as fixed
from circlet.backends.arithmetic.fixed_point import quantize_multiplier
from circlet.backends.arithmetic.gates import GATE_SCALE, INT16, LOGISTIC, TANH, cell_limit
from circlet.backends.native.emit.emitter import I32, Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.emit.value import in_memory
from circlet.backends.native.gemm.operands import Direct
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules.figures.figure import quantization
from circlet.backends.native.rules.figures.multiplier import rescale
from circlet.backends.native.rules.function import Made
from circlet.backends.native.rules.preferences import INT8
from circlet.backends.native.rules.quantized.fully_connected import (
    constant,
    form_of,
    multiply_integers,
    placed,
    rows_of,
    start,
)
from circlet.backends.native.rules.quantized.requantize import SHORT_SUMS_BELOW, clamped
from circlet.backends.native.rules.recurrent import gate_functions
from circlet.backends.native.rules.recurrent.product import Rows, joined
from circlet.backends.native.rules.recurrent.rnn import (
    Results,
    Walk,
    depth,
    hand_out,
    parameters,
    run,
    state_of,
    variables,
)
from circlet.backends.native.rules.refusals import constant_inputs, largest, sums_below
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.targets.target import Goal
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.recurrent import LSTM, UnidirectionalSequenceLstm
from circlet.runtime.records import dataclass

_ADMIT, _FORGET, _UPDATE, _EMIT = range(4)
"""The gates, in the order of the operator's inputs."""
_PEEPHOLE = {_ADMIT: 0, _FORGET: 1, _EMIT: 2}
"""The places of the gates' peephole weights among the operator's inputs, counted from the first."""
_BEYOND = 1 << 16
"""What is added to a number of 16 bits may be limited to this before the sum is."""

Of16Bits: TypeAlias = Callable[[Emitter, ir.Value], ir.Value]
"""Emits a function of 16 bits, of an i32 to an i32."""
Factor: TypeAlias = "tuple[int, int]"
"""A quantised multiplier: mantissa and shift."""
LstmNode: TypeAlias = "Node[UnidirectionalSequenceLstm]"
"""The only operator that this rule is for."""


def _scale(node: LstmNode, position: int) -> np.float32:
    """The scale of an input, float32."""
    scale: np.float32 = np.float32(quantization(node.call.input(position)).scale)
    return scale


def _zero_point(node: LstmNode, position: int) -> int:
    """The zero point of an input."""
    return quantization(node.call.input(position)).zero_point


def _saturated(e: Emitter, value: ir.Value) -> ir.Value:
    """Limited to 16 bits."""
    return clamped(e, value, -32768, 32767)


def _sum(e: Emitter, value: ir.Value, other: ir.Value) -> ir.Value:
    """A number of 16 bits and any i32 added up, saturated to 16 bits."""
    return _saturated(e, e.builder.add(value, clamped(e, other, -_BEYOND, _BEYOND)))


def _shifted(e: Emitter, value: ir.Value, count: int) -> ir.Value:
    """An i32 of at most 30 bits divided by a power of two, halves rounded away from zero: gemmlowp's
    `RoundingDivideByPOT`."""
    b = e.builder
    moved = b.add(b.add(value, ir.Constant(I32, 1 << count >> 1)), b.ashr(value, ir.Constant(I32, 31)))
    return b.ashr(moved, ir.Constant(I32, count))


def _rescaled(e: Emitter, value: ir.Value, factor: Factor) -> ir.Value:
    """A sum below `SHORT_SUMS_BELOW` times a quantised multiplier."""
    return rescale(e, value, *factor, is_small=True)


def _load(e: Emitter, memory: ir.Value, dtype: DType, k: ir.Value) -> ir.Value:
    """A stored integer as an i32."""
    value = e.load(memory, dtype, k)
    return value if dtype is DType.INT32 else e.builder.sext(value, I32)


@dataclass(frozen=True, eq=False)
class _Gate:
    """One gate.

    Attributes:
        driven: what the sums of the input are rescaled by.
        again: those of the state.
        function: makes an i32 of one, both of 16 bits.
        peephole: the weights of the cells, and what their products are rescaled by.
    """

    driven: Factor
    again: Factor
    function: Of16Bits
    peephole: tuple[ir.Value, Factor] | None

    @classmethod
    def of(cls, node: LstmNode, gate: int, function: Of16Bits) -> _Gate:
        """A gate of an operator, given its function."""
        def factor(weights: int, unit: np.float32) -> Factor:
            return quantize_multiplier(float(_scale(node, weights) * unit / GATE_SCALE))

        peephole = None
        if gate in _PEEPHOLE and node.call.has(LSTM.peephole + _PEEPHOLE[gate]):
            place = LSTM.peephole + _PEEPHOLE[gate]
            memory = node.function.external(constant(node.input(place)))
            peephole = memory, factor(place, np.float32(2.0 ** (_cell_bits(node) - 15)))
        return cls(factor(LSTM.weights + gate, _scale(node, 0)),
                   factor(LSTM.recurrent + gate, _scale(node, LSTM.output_state)), function, peephole)

    def value(self, e: Emitter, driven: ir.Value, again: ir.Value, cell: ir.Value, k: ir.Value) -> ir.Value:
        """Given the sums of the input and of the state, and the cell."""
        x = _sum(e, _saturated(e, _rescaled(e, driven, self.driven)), _rescaled(e, again, self.again))
        if self.peephole is not None:
            weights, factor = self.peephole
            x = _sum(e, x, _rescaled(e, e.builder.mul(_load(e, weights, DType.INT16, k), cell), factor))
        return self.function(e, x)


def _cell_bits(node: LstmNode) -> int:
    """Integer bits of the cells."""
    return frexp(_scale(node, LSTM.cell_state))[1] - 1 + 15


def _looked_up(e: Emitter, table: ir.Value, value: ir.Value) -> ir.Value:
    """The entry of a table (65536,) for an int16, held as i32."""
    place = e.builder.sext(e.builder.add(value, ir.Constant(I32, 1 << 15)), e.index)
    return _load(e, table, DType.INT16, place)


class _Network:
    def __init__(self, node: LstmNode, e: Emitter) -> None:
        self._node, self._e = node, e
        self._count = node.input(LSTM.cell_state).shape[1]
        bits = _cell_bits(node)
        logistic, tanh = self._computed(LOGISTIC, gate_functions.logistic), self._computed(TANH, gate_functions.tanh)
        self._gates = {gate: _Gate.of(node, gate, tanh if gate == _UPDATE else logistic)
                       for gate in range(4) if node.call.has(LSTM.weights + gate)}
        self._tanh = self._computed(fixed.tanh(INT16, bits, width=15), gate_functions.tanh, bits)
        self._clip = cell_limit(node.op.cell_clip, _scale(node, LSTM.cell_state))
        unit = np.float32(2**-15)
        self._emitted = quantize_multiplier(float(unit / _scale(node, LSTM.output_state) * unit))

    def _computed(self, values: Array, code: Callable[[Emitter, ir.Value, int], ir.Value], bits: int = 3) -> Of16Bits:
        """A function by a table of its values or, where constants are to be small, by code, for numbers with so many
        integer bits."""
        if self._e.target.goal is not Goal.HERE:
            return lambda e, x: code(e, x, bits)
        table = self._node.function.external(np.ascontiguousarray(values, np.int16))
        return lambda e, x: _looked_up(e, table, x)

    def _group(self, first: int) -> list[int]:
        """The positions of the gates' matrices or vectors from a position on."""
        return [first + gate for gate in self._gates]

    def _multiply(self, first: int, rows: Rows, zero_point: int, bias: Array | None) -> ir.Value:
        """Where the sums of the products of rows (rows, n), int8, with the matrices of the gates are, side by side:
        (rows, gates cells), i32."""
        function, weights = self._node.function, joined(self._node, self._group(first))
        (columns, width), form = weights.shape, form_of(self._e.target, rows.count, weights)
        memory = function.reserve(rows.count * columns * WORD)
        given = in_memory(rows.memory, (rows.count, width), DType.INT8)
        source = placed(function, form, given, zero_point, (1, 1, rows.count, width), width)
        begin = Made.fixed(start(weights, zero_point, bias, form.offset))
        multiply_integers(function, form, rows.count, rows_of(function, form, source, width),
                          Made.fixed(weights[:, None]), begin, lambda plan, scratch: Direct(memory, columns * WORD))
        return memory

    def emit(self, walk: Walk, results: Results) -> None:
        """Multiplies all inputs (time, batch, n) by the gates' weights at once; then a loop over time multiplies the
        state (batch, units), moves the cells of each element of the batch on, and copies the state to the results."""
        node, e, width = self._node, self._e, len(self._gates) * self._count
        x, zero_point = node.input(0), _zero_point(node, LSTM.output_state)
        state, cells = state_of(node, LSTM.output_state), state_of(node, LSTM.cell_state)
        bias = np.concatenate([constant(node.input(k)) for k in self._group(LSTM.bias)])
        given = Rows(node.function.pointer(x), walk.times * walk.batch, x.shape[-1], DType.INT8)
        driven = self._multiply(LSTM.weights, given, _zero_point(node, 0), bias)
        with walk.steps(e) as time:
            memory = self._multiply(LSTM.recurrent, state, zero_point, None)
            sums, again = walk.rows(e, driven, width, time, DType.INT32), Rows(memory, walk.batch, width, DType.INT32)
            with rolled(e, walk.batch) as row:
                self._advance(sums.at(e, row), again.at(e, row), cells.at(e, row), state.at(e, row))
            hand_out(e, state, results.at(e, walk, time))

    def _advance(self, driven: ir.Value, again: ir.Value, cells: ir.Value, state: ir.Value) -> None:
        """Moves the cells (cells,), int16, of an element of the batch on, and writes what they emit, int8: two loops
        over the cells, the steps of TFLite's `LstmStepInteger8x8_16`."""
        e, b, zero_point = self._e, self._e.builder, _zero_point(self._node, LSTM.output_state)

        def gate(number: int, cell: ir.Value, k: ir.Value) -> ir.Value:
            begin = list(self._gates).index(number) * self._count
            one, other = (_load(e, e.address(each, I32, begin), DType.INT32, k) for each in (driven, again))
            return self._gates[number].value(e, one, other, cell, k)

        with independent(e, self._count) as k:
            cell = _load(e, cells, DType.INT16, k)
            forget = gate(_FORGET, cell, k)
            is_coupled = _ADMIT not in self._gates
            admit = b.sub(ir.Constant(I32, 32767), forget) if is_coupled else gate(_ADMIT, cell, k)
            kept = _shifted(e, b.mul(forget, cell), 15)
            new = _shifted(e, b.mul(admit, gate(_UPDATE, cell, k)), 15 + _cell_bits(self._node))
            moved = _saturated(e, b.add(kept, new))
            limited = clamped(e, moved, -self._clip, self._clip) if self._clip > 0 else moved
            e.store(b.trunc(limited, ir.IntType(16)), cells, DType.INT16, k)
        with independent(e, self._count) as k:
            cell = _load(e, cells, DType.INT16, k)
            emitted = _rescaled(e, b.mul(gate(_EMIT, cell, k), self._tanh(e, cell)), self._emitted)
            stored = clamped(e, _sum(e, ir.Constant(I32, zero_point), emitted), -128, 127)
            e.store(b.trunc(stored, ir.IntType(8)), state, DType.INT8, k)


_WEIGHTS = (*LSTM.matrices(), *LSTM.vectors())
"""The inputs that must be constant."""


def _sparse(call: Call) -> str | None:
    """Refuses sparse weights."""
    return next((f"input {k} is sparse" for k in _WEIGHTS if call.has(k) and call.input(k).sparsity is not None), None)


def _large(call: Call) -> str | None:
    """Refuses sums that may reach `SHORT_SUMS_BELOW`."""
    most = max(depth(call.input(first + 3)) for first in (LSTM.weights, LSTM.recurrent))
    biases = [call.input(LSTM.bias + k) for k in range(4) if call.has(LSTM.bias + k)]
    return sums_below(SHORT_SUMS_BELOW, most * 255 * 128 + max(map(largest, biases)))


_refuses = all_of(only((DType.INT8,)), variables([LSTM.output_state, LSTM.cell_state]), constant_inputs(*_WEIGHTS),
                  _sparse, _large)
"""Refuses all but int8, variables of the operator's own as states, dense constant weights, and sums that fit."""


@nest(UnidirectionalSequenceLstm, _refuses, parameters=parameters(LSTM), is_last=True, name=INT8)
def unidirectional_sequence_lstm(node: LstmNode, e: Emitter, sinks: Sequence[Sink]) -> None:
    """Of a sequence (batch, time, n) or (time, batch, n), int8: the states at all times, (..., units), int8."""
    run(node, _Network(node, e).emit, sinks)
