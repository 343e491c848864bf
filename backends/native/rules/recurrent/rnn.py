"""Native rules of the recurrent operators of float32 activations, with constant weights of float32 or int8.

The products of all inputs of a sequence with the weights are made at once, those of the state step by step, in place of
the inputs' products. The state is moved on where the variable lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.backends.native.emit.loops import independent, rolled
from circlet.backends.native.gemm.few_rows import dots
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.rules.quantized.hybrid import LONGEST
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.recurrent.product import FLOAT, Floats, Rows, add_product, reals
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops.recurrent import (
    BACKWARD_RNN,
    FORWARD_RNN,
    RNN,
    SVDF,
    BidirectionalSequenceRnn,
    NetworkInputs,
    Rnn,
    RnnInputs,
    Svdf,
    UnidirectionalSequenceRnn,
)
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Walk:
    """The way through sequences (batch, time, n) or (time, batch, n)."""

    times: int
    batch: int
    time_major: bool
    backward: bool = False

    @classmethod
    def of(cls, shape: Shape, time_major: bool, backward: bool = False) -> Walk:
        """That through a sequence of a shape."""
        times, batch = shape[:2] if time_major else shape[1::-1]
        return cls(times, batch, time_major, backward)

    @contextmanager
    def steps(self, e: Emitter) -> Iterator[ir.Value]:
        """A loop over all times."""
        with rolled(e, self.times) as number:
            yield e.builder.sub(e.number(self.times - 1), number) if self.backward else number

    def rows(self, e: Emitter, memory: ir.Value, width: int, time: ir.Value, dtype: DType = FLOAT) -> Rows:
        """A row for each element of the batch, at a time, of a sequence of so many numbers at each."""
        distance, step = (self.batch * width, width) if self.time_major else (width, self.times * width)
        return Rows(memory, self.batch, step, dtype).moved(e, e.builder.mul(time, e.number(distance)))


@dataclass(frozen=True, eq=False)
class Results:
    """Where a network's results go: some columns of a sequence of rows of a width."""

    memory: ir.Value
    width: int
    first: int = 0
    dtype: DType = FLOAT

    def at(self, e: Emitter, walk: Walk, time: ir.Value) -> Rows:
        """The rows of results at a time, (batch, units)."""
        return walk.rows(e, self.memory, self.width, time, self.dtype).moved(e, e.number(self.first))


Emit: TypeAlias = Callable[[Walk, Results], None]
"""Emits a network that walks through a sequence."""


def memory_of(sink: Sink) -> ir.Value:
    """Where a result lies."""
    assert sink.memory is not None, "nothing follows a rule that is the last one"
    return sink.memory


def single(node: Node[Any], emit: Emit, sinks: Sequence[Sink]) -> None:
    """One step of a network."""
    batch, units = node.shape
    emit(Walk(1, batch, time_major=True), Results(memory_of(sinks[0]), units))


def run(node: Node[Any], emit: Emit, sinks: Sequence[Sink]) -> None:
    """All steps of a network over a sequence."""
    results = Results(memory_of(sinks[0]), node.shape[-1], dtype=node.call.outputs[0].dtype)
    emit(Walk.of(node.shape, node.op.time_major), results)


def both(node: Node[Any], forward: Emit, backward: Emit, units: int, sinks: Sequence[Sink]) -> None:
    """A network that runs forwards, with `units` results, and one that runs backwards."""
    forth, back = (Walk.of(node.shape, node.op.time_major, each) for each in (False, True))
    is_merged = len(sinks) == 1
    forward(forth, Results(memory_of(sinks[0]), node.shape[-1]))
    backward(back, Results(memory_of(sinks[-1]), node.shapes[-1][-1], units if is_merged else 0))


def drive(node: Node[Any], places: NetworkInputs, weights: Sequence[int], walk: Walk, bias: Floats | None) -> ir.Value:
    """Where what the inputs add to the sums at all times lies, in the order of the input's axes."""
    function, rows = node.function, walk.times * walk.batch
    columns = sum(node.input(k).shape[0] for k in weights)
    sums = Rows(function.reserve(rows * columns * WORD), rows, columns)
    add_product(node, weights, function.pointer(node.input(places.source)), sums, bias, adds=False)
    second = places.second(node.call.has)
    if second is not None:
        add_product(node, places.auxiliary_weights[-len(weights):], function.pointer(node.input(second)), sums)
    return sums.memory


def state_of(node: Node[Any], position: int) -> Rows:
    """The rows of a state, where they are kept."""
    value = node.input(position)
    batch, width = value.shape
    if value.memory is None or node.function.behind(value.memory, value.shape, value.dtype) is None:
        raise Unlowerable(f"{node.place}: input {position} is a value that the subgraph is given, no state")
    return Rows(value.memory, batch, width, value.dtype)


def hand_out(e: Emitter, state: Rows, out: Rows) -> None:
    """Copies the rows of a state to the results."""
    with rolled(e, state.count) as row:
        e.copy(out.at(e, row), state.at(e, row), state.step * state.dtype.numpy.itemsize)


def refuses(networks: Sequence[NetworkInputs], states: Sequence[int]) -> Refusal:
    """Refuses activations that are integers, states that are not variables of their own, and long rows of integers."""
    def weights(call: Call) -> str | None:
        for k in (k for each in networks for k in each.matrices() if call.has(k)):
            found = call.input(k)
            if found.dtype is not FLOAT and depth(found) > LONGEST:
                return f"rows of {depth(found)} weights in input {k} (supported: up to {LONGEST})"
            if found.sparsity is not None:
                return f"input {k} is sparse"
        return None

    return all_of(only((FLOAT,)), variables(states), weights)


def variables(states: Sequence[int]) -> Refusal:
    """Refuses calls in which some inputs are not variables, each another one."""
    def refuse(call: Call) -> str | None:
        found = [call.input(k) for k in states if call.has(k)]
        is_state = len({id(each) for each in found}) == len(states) and all(
            each.is_variable and not each.is_constant for each in found)
        return None if is_state else "states that are not variables of their own"

    return refuse


def depth(tensor: Tensor) -> int:
    """How many products a sum has with a matrix, whose shape need not have been checked."""
    return prod(tensor.shape[1:])


def parameters(*networks: NetworkInputs) -> frozenset[int]:
    """The weights and biases, which must be known when code is made."""
    return frozenset(k for each in networks for k in (*each.matrices(), *each.vectors()))


def _rnn(node: Node[Any], e: Emitter, places: RnnInputs) -> Emit:
    """What emits an RNN: multiplies all inputs (time, batch, n) at once; then a loop over time adds the products of the
    state (batch, units), applies the activation, and copies the state to the results."""
    units = node.input(places.weights).shape[0]

    def emit(walk: Walk, results: Results) -> None:
        state = state_of(node, places.state)
        driven = drive(node, places, [places.weights], walk, reals(node, places.bias))
        with walk.steps(e) as time:
            sums = walk.rows(e, driven, units, time)
            add_product(node, [places.recurrent], state.memory, sums)
            with rolled(e, walk.batch) as row:
                source, target = sums.at(e, row), state.at(e, row)
                with independent(e, units) as k:
                    value = activate(e, e.load(source, FLOAT, k), FLOAT, node.op.fused_activation_function)
                    e.store(value, target, FLOAT, k)
            hand_out(e, state, results.at(e, walk, time))

    return emit


_STATE = [RNN.state]
"""The state of one RNN."""


@nest(Rnn, refuses([RNN], _STATE), parameters=parameters(RNN), is_last=True)
def rnn(node: Node[Rnn], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """One step: of x (batch, n) the state (batch, units)."""
    single(node, _rnn(node, e, RNN), sinks)


@nest(UnidirectionalSequenceRnn, refuses([RNN], _STATE), parameters=parameters(RNN), is_last=True)
def unidirectional_sequence_rnn(node: Node[UnidirectionalSequenceRnn], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of a sequence (batch, time, n) or (time, batch, n): the states at all times, (..., units)."""
    run(node, _rnn(node, e, RNN), sinks)


@nest(BidirectionalSequenceRnn, refuses([FORWARD_RNN, BACKWARD_RNN], [FORWARD_RNN.state, BACKWARD_RNN.state]),
      parameters=parameters(FORWARD_RNN, BACKWARD_RNN), is_last=True)
def bidirectional_sequence_rnn(node: Node[BidirectionalSequenceRnn], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """As one RNN forwards and one backwards, whose results are two or lie side by side."""
    backward = BACKWARD_RNN.crossed(node.call.has)
    both(node, _rnn(node, e, FORWARD_RNN), _rnn(node, e, backward), node.input(FORWARD_RNN.weights).shape[0], sinks)


@nest(Svdf, refuses([SVDF], [SVDF.state]), parameters=parameters(SVDF), is_last=True)
def svdf(node: Node[Svdf], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """One step: of x (batch, n), weights (filters, n) and weights over time (filters, memory): (batch, units), TFLite's
    `EvalFloatSVDF`. All rows of the state (batch, filters, memory) move by one number; what then ends each of them is
    new. A result is the sum of `rank` filters over time."""
    state, function, (batch, units) = state_of(node, SVDF.state), node.function, node.shape
    filters, memory = node.input(SVDF.recurrent).shape
    over_time, run = function.external(_over_time(node)), node.op.rank * memory
    bias = None if node.optional(SVDF.bias) is None else function.pointer(node.input(SVDF.bias))
    made = Rows(function.reserve(batch * filters * WORD), batch, filters)
    add_product(node, [SVDF.weights], function.pointer(node.input(0)), made, adds=False)
    e.copy(state.memory, e.address(state.memory, ir.FloatType(), 1), max(state.count * state.step - 1, 0) * WORD)
    with rolled(e, batch * filters) as number:
        last = e.builder.add(e.builder.mul(number, e.number(memory)), e.number(memory - 1))
        e.store(e.load(made.memory, FLOAT, number), state.memory, FLOAT, last)
    b, width = e.builder, lanes(e.target)
    with rolled(e, batch) as row, rolled(e, units) as unit:
        begin = b.mul(unit, e.number(run))
        values, factors = (e.address(each, ir.FloatType(), begin) for each in (state.at(e, row), over_time))
        (value,) = dots(e, values, [factors], run, width)
        value = value if bias is None else b.fadd(value, e.load(bias, FLOAT, unit))
        sinks[0](e, [row, unit], activate(e, value, FLOAT, node.op.fused_activation_function))


def _over_time(node: Node[Svdf]) -> Floats:
    """The weights over time, (filters, memory)."""
    return np.ascontiguousarray(reals(node, SVDF.recurrent))
