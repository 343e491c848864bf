"""Native rules of the LSTMs of float32 activations: the gates of all cells follow each step's products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit import math
from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules.real.elementwise import activate, clamp
from circlet.backends.native.rules.real.reduce import REORDERED, Register
from circlet.backends.native.rules.recurrent.product import FLOAT, Rows, add_product, reals
from circlet.backends.native.rules.recurrent.rnn import (
    Emit,
    Results,
    Walk,
    both,
    drive,
    hand_out,
    memory_of,
    parameters,
    refuses,
    run,
    single,
    state_of,
)
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import all_of
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ops.recurrent import (
    BACKWARD_LSTM,
    FORWARD_LSTM,
    LSTM,
    BidirectionalSequenceLstm,
    Lstm,
    LstmBase,
    LstmInputs,
    UnidirectionalSequenceLstm,
)
from circlet.runtime.records import dataclass

_ADMIT, _FORGET, _UPDATE, _EMIT = range(-4, 0)
"""The gates, counted from the last one, since the first may be absent."""
_PEEPHOLE = {_ADMIT: 0, _FORGET: 1, _EMIT: 2}
"""The places of the gates' peephole weights among the operator's inputs, counted from the first."""


@dataclass(frozen=True, eq=False)
class _Cells:
    """The gates and the cells of one element of the batch, in memory.

    Attributes:
        e: writes the code.
        op: the operator.
        count: of cells.
        sums: of the gates, side by side.
        memory: of the cells.
        peepholes: the weights of those gates that have any.
        norms: the scales and the biases of the gates if they are normalised.
    """

    e: Emitter
    op: LstmBase
    count: int
    sums: dict[int, ir.Value]
    memory: ir.Value
    peepholes: dict[int, ir.Value]
    norms: dict[int, tuple[ir.Value, ir.Value]]

    def advance(self, result: ir.Value) -> None:
        """Moves the cells (cells,) on and writes what they emit: two loops over the cells, of which LLVM makes vectors,
        as in TFLite's `LstmStepFloat`."""
        e, b = self.e, self.e.builder
        self._normalise(_ADMIT, _FORGET, _UPDATE)
        with independent(e, self.count, lanes(e.target)) as k:
            forget = math.logistic(e, self._gate(_FORGET, k))
            is_coupled = _ADMIT not in self.sums
            admit = b.fsub(e.constant(1, FLOAT), forget) if is_coupled else math.logistic(e, self._gate(_ADMIT, k))
            update = self._activated(self._gate(_UPDATE, k))
            cell = b.fadd(b.fmul(forget, e.load(self.memory, FLOAT, k)), b.fmul(admit, update))
            e.store(limited(e, cell, self.op.cell_clip), self.memory, FLOAT, k)
        self._normalise(_EMIT)
        with independent(e, self.count, lanes(e.target)) as k:
            emitted = self._activated(e.load(self.memory, FLOAT, k))
            e.store(b.fmul(math.logistic(e, self._gate(_EMIT, k)), emitted), result, FLOAT, k)

    def _activated(self, value: ir.Value) -> ir.Value:
        """The operator's function of what a cell takes and gives."""
        return activate(self.e, value, FLOAT, self.op.fused_activation_function)

    def _gate(self, gate: int, k: ir.Value) -> ir.Value:
        """What the function of a gate is applied to."""
        return self.e.load(self.sums[gate], FLOAT, k) if self.norms else self._peeped(gate, k)

    def _peeped(self, gate: int, k: ir.Value) -> ir.Value:
        """The sum of a gate, with the cell times the gate's peephole weight."""
        e, total = self.e, self.e.load(self.sums[gate], FLOAT, k)
        if gate not in self.peepholes:
            return total
        added = e.builder.fmul(e.load(self.memory, FLOAT, k), e.load(self.peepholes[gate], FLOAT, k))
        return e.builder.fadd(total, added)

    def _normalise(self, *gates: int) -> None:
        """Standardises those of some gates that are normalised."""
        for gate in self.norms.keys() & set(gates):
            self._standardise(gate)

    def _standardise(self, gate: int) -> None:
        """Brings the sums of a gate (cells,) to mean 0 and variance 1, then to the scale and the bias: TFLite's
        `MeanStddevNormalization`, whose 1e-8 under the root is that here. Mean and variance take a loop each (two
        passes)."""
        e, b, memory, (scale, bias) = self.e, self.e.builder, self.sums[gate], self.norms[gate]

        def keep(k: ir.Value) -> ir.Value:
            value = self._peeped(gate, k)
            e.store(value, memory, FLOAT, k)
            return value

        def square(k: ir.Value) -> ir.Value:
            centred = b.fsub(e.load(memory, FLOAT, k), mean)
            return b.fmul(centred, centred)

        mean = self._mean(keep)
        variance = self._mean(square)
        deviation = e.intrinsic("sqrt", b.fadd(variance, e.constant(np.float32(1e-8), FLOAT)))
        with independent(e, self.count, lanes(e.target)) as k:
            standard = b.fdiv(b.fsub(e.load(memory, FLOAT, k), mean), deviation)
            e.store(b.fadd(b.fmul(standard, e.load(scale, FLOAT, k)), e.load(bias, FLOAT, k)), memory, FLOAT, k)

    def _mean(self, make: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """The mean of what `make` gives for each cell: a loop, with the sum in a register."""
        e, total = self.e, Register(self.e, ir.FloatType())
        total.set(e.constant(0, FLOAT))
        with e.loop(self.count) as k:
            total.set(e.builder.fadd(total.get(), make(k), flags=REORDERED))
        return e.builder.fdiv(total.get(), e.constant(self.count, FLOAT))


def limited(e: Emitter, value: ir.Value, magnitude: float) -> ir.Value:
    """A number of a magnitude that is limited if the limit is positive."""
    bound = float(np.float32(magnitude))
    return clamp(e, value, FLOAT, -bound, bound) if bound > 0 else value


class _Network:
    """An LSTM among the inputs of an operator."""

    def __init__(self, node: Node[Any], e: Emitter, places: LstmInputs) -> None:
        self._node, self._e, self._places = node, e, places
        self._cells, self._units = node.input(places.recurrent + 3).shape
        has, external = node.call.has, node.function.external
        self._gates = [gate for gate in range(-4, 0) if has(places.weights + 4 + gate)]
        self._is_projected = has(places.projection)
        self._norms = {} if places.norm is None or not has(places.norm + 3) else {
            gate: (external(reals(node, places.norm + 4 + gate)), external(reals(node, places.bias + 4 + gate)))
            for gate in self._gates}
        self._peepholes = {gate: external(reals(node, places.peephole + k)) for gate, k in _PEEPHOLE.items()
                           if has(places.peephole + k)}

    def _group(self, first: int) -> list[int]:
        """The positions of the gates' matrices or vectors from a position on."""
        return [first + 4 + gate for gate in self._gates]

    def emit(self, walk: Walk, results: Results) -> None:
        """Multiplies all inputs (time, batch, n) by the gates' weights at once; then a loop over time adds the products
        of the state (batch, units), moves the cells of each element of the batch on, projects, and copies the state to
        the results."""
        node, e, places = self._node, self._e, self._places
        bias = None if self._norms else np.concatenate([reals(node, k) for k in self._group(places.bias)])
        driven = drive(node, places, self._group(places.weights), walk, bias)
        state, cells = state_of(node, places.output_state), state_of(node, places.cell_state)
        made = self._hidden(walk.batch) if self._is_projected else state
        with walk.steps(e) as time:
            sums = walk.rows(e, driven, len(self._gates) * self._cells, time)
            add_product(node, self._group(places.recurrent), state.memory, sums)
            with rolled(e, walk.batch) as row:
                self._at(sums.at(e, row), cells.at(e, row)).advance(made.at(e, row))
            if self._is_projected:
                self._project(made, state)
            hand_out(e, state, results.at(e, walk, time))

    def _hidden(self, batch: int) -> Rows:
        """Where results are before they are projected."""
        return Rows(self._node.function.reserve(batch * self._cells * WORD), batch, self._cells)

    def _at(self, sums: ir.Value, cells: ir.Value) -> _Cells:
        """The gates and cells of an element of the batch, given where its sums and its cells begin."""
        e, kind = self._e, ir.FloatType()
        places = {gate: e.address(sums, kind, k * self._cells) for k, gate in enumerate(self._gates)}
        return _Cells(e, self._node.op, self._cells, places, cells, self._peepholes, self._norms)

    def _project(self, made: Rows, state: Rows) -> None:
        """The state: what cells emit (batch, cells) times a matrix (units, cells), clipped."""
        node, e, places = self._node, self._e, self._places
        bias = reals(node, places.projection + 1) if node.call.has(places.projection + 1) else None
        add_product(node, [places.projection], made.memory, state, bias, adds=False)
        if node.op.proj_clip > 0:
            with independent(e, state.count * state.step) as k:
                value = e.load(state.memory, FLOAT, k)
                e.store(limited(e, value, node.op.proj_clip), state.memory, FLOAT, k)


def _network(node: Node[Any], e: Emitter, places: LstmInputs) -> Emit:
    """What emits the LSTM whose inputs are at some places."""
    return _Network(node, e, places).emit


_KEPT = [LSTM.output_state, LSTM.cell_state]
"""The states of one LSTM."""
_refuses_states = refuses([LSTM], _KEPT)
"""Refuses what `refuses` does of one LSTM."""


@nest(UnidirectionalSequenceLstm, _refuses_states, parameters=parameters(LSTM), is_last=True)
def unidirectional_sequence_lstm(node: Node[UnidirectionalSequenceLstm], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a sequence (batch, time, n) or (time, batch, n): the states at all times, (..., units)."""
    run(node, _network(node, e, LSTM), sinks)


@nest(BidirectionalSequenceLstm,
      refuses([FORWARD_LSTM, BACKWARD_LSTM], [k for each in (FORWARD_LSTM, BACKWARD_LSTM)
                                              for k in (each.output_state, each.cell_state)]),
      parameters=parameters(FORWARD_LSTM, BACKWARD_LSTM), is_last=True)
def bidirectional_sequence_lstm(node: Node[BidirectionalSequenceLstm], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """As one LSTM forwards and one backwards, whose results are two or lie side by side."""
    backward = BACKWARD_LSTM.crossed(node.call.has)
    units = node.input(FORWARD_LSTM.recurrent + 3).shape[1]
    both(node, _network(node, e, FORWARD_LSTM), _network(node, e, backward), units, sinks)


def _full(call: Call) -> str | None:
    """Refuses the basic kernel."""
    assert isinstance(call.op, Lstm)
    return "the basic kernel" if call.op.kernel_type == 1 else None


def _basic(call: Call) -> str | None:
    """Refuses the full kernel."""
    return "the full kernel" if _full(call) is None else None


@nest(Lstm, all_of(_full, _refuses_states), parameters=parameters(LSTM), is_last=True)
def lstm(node: Node[Lstm], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """One step: of x (batch, n) the state (batch, units)."""
    single(node, _network(node, e, LSTM), sinks)


@nest(Lstm, _basic, parameters=frozenset({2, 3}), is_last=True, name="basic")
def basic_lstm(node: Node[Lstm], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """One step whose state is passed in and out: of x (batch, n), weights (4 units, n + units) and bias, the states
    before, the states after, (batch, units) each, and what was joined and summed up."""
    out, cells, joined, sums = (Rows(memory_of(sink), count, width)
                                for sink, (count, width) in zip(sinks, node.shapes, strict=True))
    given = [node.function.pointer(node.input(k)) for k in range(2)]
    b, kind, units = e.builder, ir.FloatType(), out.step
    with rolled(e, out.count) as row:
        begin = joined.at(e, row)
        for memory, width, first in ((given[0], joined.step - units, 0), (given[1], units, joined.step - units)):
            e.copy(e.address(begin, kind, first), Rows(memory, out.count, width).at(e, row), width * WORD)
    add_product(node, [2], joined.memory, sums, reals(node, 3), adds=False)
    before = Rows(node.function.pointer(node.input(4)), out.count, units)
    with rolled(e, out.count) as row:
        places = [e.address(sums.at(e, row), kind, k * units) for k in range(4)]
        old, new, made = (each.at(e, row) for each in (before, cells, out))
        with independent(e, units) as k:
            admit, update, forget, emit = (e.load(each, FLOAT, k) for each in places)
            cell = b.fadd(b.fmul(math.logistic(e, admit), math.tanh(e, update)),
                          b.fmul(math.logistic(e, forget), e.load(old, FLOAT, k)))
            e.store(cell, new, FLOAT, k)
            e.store(b.fmul(math.logistic(e, emit), math.tanh(e, cell)), made, FLOAT, k)
