"""Numpy rules of the recurrent operators: float32 activations, and weights of float32 or quantised as int8.

The products of all inputs of a sequence with the weights are made at once, those of the state step by step; the gates
of an LSTM are columns of one matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from circlet.backends.arithmetic.fixed_point import float_range
from circlet.backends.cpu import recurrent_int8
from circlet.backends.cpu.hybrid import Floats, Product, hybrid_product
from circlet.backends.cpu.quantized import object_to_weights
from circlet.backends.cpu.quantized_unary import single
from circlet.backends.cpu.reduce import mean
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, prepared
from circlet.backends.refusal import names, refusal
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Activation, Array, DType, Quantization
from circlet.runtime.ops.recurrent import (
    BACKWARD_LSTM,
    BACKWARD_RNN,
    FORWARD_LSTM,
    FORWARD_RNN,
    LSTM,
    RNN,
    SVDF,
    BidirectionalSequenceLstm,
    BidirectionalSequenceRnn,
    Lstm,
    LstmBase,
    LstmInputs,
    NetworkInputs,
    Recurrent,
    Rnn,
    RnnInputs,
    Svdf,
    UnidirectionalSequenceLstm,
    UnidirectionalSequenceRnn,
)
from circlet.runtime.records import dataclass

Function: TypeAlias = Callable[[Floats], Floats]
Advance: TypeAlias = Callable[[Floats], Floats]
"""Moves a network on by one step, given what the inputs (batch, n) add to its sums; gives its results."""
Start: TypeAlias = Callable[[], tuple[Floats, Advance]]
"""Gives what the inputs add to the sums, in the order of the input's axes, and what moves the network on."""


def _logistic(x: Floats) -> Floats:
    """As the operator `LOGISTIC`; the exponential is rounded once."""
    result: Floats = np.float32(1) / (np.float32(1) + single(np.exp, -x))
    return result


_tanh: Function = partial(single, np.tanh)


def _function(activation: Activation) -> Function:
    if activation is Activation.TANH:
        return _tanh
    low, high = float_range(activation)
    return lambda x: x.clip(np.float32(low), np.float32(high))


def _limit(x: Floats, magnitude: float) -> None:
    if magnitude > 0:
        x.clip(-np.float32(magnitude), np.float32(magnitude), x)


def _product(node: Node[Any], positions: Sequence[int]) -> Product:
    """The product with several matrices (n, k) of the same k at once, results side by side."""
    weights = np.concatenate([node.input(k) for k in positions])
    if weights.dtype == np.float32:
        matrix = np.ascontiguousarray(weights.T)
        return lambda rows: np.matmul(rows, matrix)
    scales = np.concatenate([_scales(node, k) for k in positions])
    return hybrid_product(weights, Quantization(tuple(scales.tolist())), node.op.asymmetric_quantize_inputs)


def _scales(node: Node[Any], position: int) -> Floats:
    return np.broadcast_to(np.array(node.quantization(position).scales, np.float32), node.input(position).shape[:1])


def _vector(node: Node[Any], position: int) -> Floats:
    """The real values of a vector of weights."""
    stored = node.input(position)
    return stored if stored.dtype == np.float32 else stored * _scales(node, position)


def _parameters(node: Node[Any], places: NetworkInputs) -> list[int]:
    """The positions of the weights and biases of a network that are there."""
    return [k for k in (*places.matrices(), *places.vectors()) if node.call.has(k)]


@dataclass(frozen=True, eq=False)
class _Network:
    """The parts that all networks have."""

    inputs: Product
    second: Product | None
    recurrent: Product
    bias: Floats

    def drive(self, source: Array, second: Array | None) -> Floats:
        """What the inputs add to the sums at all times."""
        sums = self.inputs(_rows(source)) + self.bias
        if self.second is not None and second is not None:
            sums += self.second(_rows(second))
        return sums.reshape(*source.shape[:-1], sums.shape[-1])


def _rows(sequence: Array) -> Array:
    return sequence.reshape(prod(sequence.shape[:-1]), sequence.shape[-1])


def _network(node: Node[Any], places: NetworkInputs, weights: Sequence[int], recurrent: Sequence[int],
             bias: Floats) -> _Network:
    second = None if places.second(node.call.has) is None else places.auxiliary_weights[-len(weights):]
    return _Network(_product(node, weights), None if second is None else _product(node, second),
                    _product(node, recurrent), bias)


def _second(node: Node[Any], places: NetworkInputs) -> Array | None:
    position = places.second(node.call.has)
    return None if position is None else node.input(position)


def _rnn(node: Node[Any], places: RnnInputs) -> Start:
    state, activation = node.input(places.state), _function(node.op.fused_activation_function)
    network = prepared(node, _parameters(node, places), lambda: _network(
        node, places, [places.weights], [places.recurrent], node.input(places.bias)))

    def start() -> tuple[Floats, Advance]:
        found = network()

        def advance(sums: Floats) -> Floats:
            state[...] = activation(sums + found.recurrent(state))
            return state

        return found.drive(node.input(places.source), _second(node, places)), advance

    return start


@dataclass(frozen=True, eq=False)
class _LstmNetwork(_Network):
    peephole: tuple[Floats, ...]
    """From the cells to the gates but the cell gate; empty where there is none."""
    norm: tuple[Floats, ...]
    """The scales and the biases of layer normalisation, (gates, cells) each; empty where there is none."""
    projection: Product | None
    projection_bias: Floats | np.float32


def _lstm_network(node: Node[Any], places: LstmInputs) -> _LstmNetwork:
    coupled = not node.call.has(places.weights)

    def group(start: int, count: int = 4) -> list[int]:
        return list(range(start + coupled, start + count))

    def stack(positions: Iterable[int]) -> Floats:
        return np.stack([_vector(node, k) for k in positions])

    biases = stack(group(places.bias))
    normed = places.norm is not None and node.call.has(places.norm + 3)
    network = _network(node, places, group(places.weights), group(places.recurrent),
                       np.zeros(biases.size, np.float32) if normed else biases.reshape(-1))
    projected, biased = node.call.has(places.projection), node.call.has(places.projection + 1)
    return _LstmNetwork(
        network.inputs, network.second, network.recurrent, network.bias,
        tuple(stack(group(places.peephole, 3))) if node.call.has(places.peephole + 2) else (),
        (stack(group(places.norm)), biases) if places.norm is not None and normed else (),
        _product(node, [places.projection]) if projected else None,
        node.input(places.projection + 1) if biased else np.float32(0))


def _lstm(node: Node[Any], places: LstmInputs) -> Start:
    op: LstmBase = node.op
    output_state, cells = node.input(places.output_state), node.input(places.cell_state)
    gates = 3 if not node.call.has(places.weights) else 4
    activation = _function(op.fused_activation_function)
    network = prepared(node, _parameters(node, places), lambda: _lstm_network(node, places))

    def start() -> tuple[Floats, Advance]:
        found = network()

        def gate(sums: Floats, index: int, peephole: int | None, function: Function) -> Floats:
            """The gate at an index from the end."""
            x = sums[:, index]
            if peephole is not None and found.peephole:
                x += cells * found.peephole[peephole]
            if found.norm:
                scale, bias = found.norm
                x = _standardized(x) * scale[index] + bias[index]
            return function(x)

        def advance(sums: Floats) -> Floats:
            sums = (sums + found.recurrent(output_state)).reshape(len(cells), gates, cells.shape[1])
            forget = gate(sums, -3, -2, _logistic)
            admit = 1 - forget if gates == 3 else gate(sums, -4, -3, _logistic)
            np.multiply(forget, cells, cells)
            np.add(cells, admit * gate(sums, -2, None, activation), cells)
            _limit(cells, op.cell_clip)
            result = gate(sums, -1, -1, _logistic) * activation(cells)
            if found.projection is not None:
                result = found.projection(result) + found.projection_bias
                _limit(result, op.proj_clip)
            output_state[...] = result
            return output_state

        return found.drive(node.input(places.source), _second(node, places)), advance

    return start


def _standardized(x: Floats) -> Floats:
    centred = x - mean(x, -1)
    result: Floats = centred / np.sqrt(mean(np.square(centred), -1) + np.float32(1e-8))
    return result


def _single(start: Start, out: Array) -> Step:
    """One step of a network."""
    def step() -> None:
        sums, advance = start()
        out[...] = advance(sums)

    return step


def _run(start: Start, out: Array, time_major: bool, backward: bool = False) -> Step:
    """All steps of a network over a sequence."""
    results = out if time_major else out.swapaxes(0, 1)
    times = range(len(results))[::-1 if backward else 1]

    def step() -> None:
        sums, advance = start()
        sequence = sums if time_major else sums.swapaxes(0, 1)
        for time in times:
            results[time] = advance(sequence[time])

    return step


def _both(node: Node[Any], forward: Start, backward: Start, units: int) -> Step:
    """A network that runs forwards, with `units` results, and one that runs backwards."""
    merged = len(node.outputs) == 1
    first, second = (node.out[..., :units], node.out[..., units:]) if merged else node.outputs
    return chain(_run(forward, first, node.op.time_major), _run(backward, second, node.op.time_major, backward=True))


def _objections(call: Call, networks: Sequence[NetworkInputs]) -> Iterator[str]:
    op = call.op
    assert isinstance(op, Recurrent)
    matrices = {k for each in networks for k in each.matrices() if call.has(k)}
    kinds = {call.input(k).dtype for k in matrices}
    if len(kinds) != 1 or not kinds < {DType.FLOAT32, DType.INT8}:
        yield f"weights of {names(kinds)} (supported: all float32 or all int8)"
    for k, tensor in enumerate(call.inputs):
        if tensor is None:
            continue
        if tensor.dtype is DType.INT8 and kinds == {DType.INT8} and k in matrices | _peepholes(networks):
            yield from object_to_weights(tensor, axis=0, symmetric=True)
        elif tensor.dtype is not DType.FLOAT32:
            yield f"element type {tensor.dtype.value} of input {k} (supported: float32)"
    if op.fused_activation_function is Activation.SIGN_BIT:
        yield "fused activation SIGN_BIT"


def _peepholes(networks: Sequence[NetworkInputs]) -> set[int]:
    return {each.peephole + k for each in networks if isinstance(each, LstmInputs) for k in range(3)}


def _lstm_objections(call: Call, networks: Sequence[LstmInputs]) -> Iterator[str]:
    for each in networks:
        for k in (each.recurrent, each.bias):
            if call.has(k) != call.has(each.weights):
                yield f"only one of the inputs {each.weights} and {k}"
    yield from _objections(call, networks)


@rule(Rnn, accepts=refusal(lambda call: _objections(call, [RNN])))
def rnn(node: Node[Rnn]) -> Step:
    return _single(_rnn(node, RNN), node.out)


@rule(UnidirectionalSequenceRnn, accepts=refusal(lambda call: _objections(call, [RNN])))
def unidirectional_sequence_rnn(node: Node[UnidirectionalSequenceRnn]) -> Step:
    return _run(_rnn(node, RNN), node.out, node.op.time_major)


@rule(BidirectionalSequenceRnn, accepts=refusal(lambda call: _objections(call, [FORWARD_RNN, BACKWARD_RNN])))
def bidirectional_sequence_rnn(node: Node[BidirectionalSequenceRnn]) -> Step:
    backward = BACKWARD_RNN.crossed(node.call.has)
    return _both(node, _rnn(node, FORWARD_RNN), _rnn(node, backward), len(node.input(FORWARD_RNN.weights)))


@refusal
def _refuse_lstm(call: Call) -> Iterator[str]:
    assert isinstance(call.op, Lstm)
    if call.op.kernel_type == 1:
        found = {tensor.dtype for tensor in (*call.inputs, *call.outputs) if tensor is not None}
        yield from () if found == {DType.FLOAT32} else ("element types other than float32 with kernel type 1",)
    else:
        yield from _lstm_objections(call, [LSTM])


@rule(Lstm, accepts=_refuse_lstm)
def lstm(node: Node[Lstm]) -> Step:
    return _basic_lstm(node) if node.op.kernel_type == 1 else _single(_lstm(node, LSTM), node.out)


def _basic_lstm(node: Node[Lstm]) -> Step:
    x, previous, weights, bias, cells = (node.input(k) for k in range(5))
    out, cells_out, joined, sums = node.outputs
    admit, update, forget, emit = np.split(sums, 4, axis=-1)

    def step() -> None:
        np.concatenate([x, previous], axis=-1, out=joined)
        np.add(np.matmul(joined, weights.T), bias, sums)
        np.add(_logistic(admit) * _tanh(update), _logistic(forget) * cells, cells_out)
        np.multiply(_logistic(emit), _tanh(cells_out), out)

    return step


@refusal
def _refuse_sequence_lstm(call: Call) -> Iterator[str]:
    assert isinstance(call.op, UnidirectionalSequenceLstm)
    if call.op.diagonal_recurrent_tensors:
        yield "diagonal recurrent weights"
    integer = call.input(0).dtype is DType.INT8
    yield from recurrent_int8.objections(call) if integer else _lstm_objections(call, [LSTM])


@rule(UnidirectionalSequenceLstm, accepts=_refuse_sequence_lstm)
def unidirectional_sequence_lstm(node: Node[UnidirectionalSequenceLstm]) -> Step:
    if node.dtype() is DType.INT8:
        return recurrent_int8.sequence_lstm(node)
    return _run(_lstm(node, LSTM), node.out, node.op.time_major)


@rule(BidirectionalSequenceLstm, accepts=refusal(lambda call: _lstm_objections(call, [FORWARD_LSTM, BACKWARD_LSTM])))
def bidirectional_sequence_lstm(node: Node[BidirectionalSequenceLstm]) -> Step:
    units = node.input(FORWARD_LSTM.recurrent + 3).shape[1]
    return _both(node, _lstm(node, FORWARD_LSTM), _lstm(node, BACKWARD_LSTM.crossed(node.call.has)), units)


@refusal
def _refuse_svdf(call: Call) -> Iterator[str]:
    is_integer = call.input(0).dtype is DType.INT8
    yield from recurrent_int8.svdf_objections(call) if is_integer else _objections(call, [SVDF])


@rule(Svdf, accepts=_refuse_svdf)
def svdf(node: Node[Svdf]) -> Step:
    if node.dtype() is DType.INT8:
        return recurrent_int8.svdf(node)
    x, bias, out = node.input(0), node.optional(3), node.out
    filters, memory = node.input(2).shape
    state = node.input(4).reshape(len(x), filters, memory)
    weights = prepared(node, {1}, lambda: _product(node, [1]))
    over_time = prepared(node, {2}, lambda: node.input(2) * (
        1 if node.dtype(2) is DType.FLOAT32 else _scales(node, 2)[:, None]))
    activation = _function(node.op.fused_activation_function)

    def step() -> None:
        state[..., :-1] = state[..., 1:]
        state[..., -1] = weights()(x)
        sums = (state * over_time()).sum(axis=-1).reshape(len(x), filters // node.op.rank, node.op.rank).sum(axis=-1)
        out[...] = activation(sums if bias is None else sums + bias)

    return step
