"""Rules for recurrent networks: the inputs of all steps are multiplied at once, then a loop goes over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops import comparison, elementwise, layout, loop, matmul, reduce, shape
from circlet.runtime.ops.loop_options import Base, Carried, Feed, Order, Position, ScanInput, ScanOutput, ShapePolicy
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.onnx.activations import Activation, activations
from circlet.schema.onnx.bodies import Body
from circlet.schema.onnx.node import Node
from circlet.schema.onnx.ops.loop import Parts, closed, emit
from circlet.schema.onnx.rules import rule


@dataclass(frozen=True, eq=False)
class Factor:
    """A matrix that rows are multiplied with, which is stored as (columns, depth)."""

    data: Value

    def times(self, graph: Graph, x: Value, first: int, last: int) -> Value:
        """The product of (..., depth) with some of the columns."""
        rows = graph.capture(self.data)
        if (first, last) != (0, (rows.shape or (0,))[0]):
            rows = _rows(graph, rows, first, last)
        return graph.apply(matmul.BatchMatMul(adj_y=True), x, rows)


@dataclass(frozen=True, eq=False)
class Weights:
    """The parameters of one direction."""

    recurrent: Factor
    """Of hidden rows and gates * hidden columns."""
    bias: Value | None
    """What is added to the products with the state: (gates * hidden,); None where it was added to the inputs."""
    peepholes: tuple[Value, ...]
    """(hidden,) each."""
    functions: Sequence[Activation]
    size: int
    clip: float | None

    def product(self, graph: Graph, state: Value, first: int, last: int) -> Value:
        """The product of the state with the weights of some gates."""
        return self.recurrent.times(graph, state, first * self.size, last * self.size)

    def gate(self, graph: Graph, x: Value, index: int) -> Value:
        """The part of a tensor (..., gates * hidden) that is for one gate."""
        whole = (x.shape or (-1,))[-1] // self.size
        sizes = constant(np.full(whole, self.size, np.int64))
        axis = constant(np.array(-1, np.int32))
        return graph.op(layout.SplitV(whole), x, sizes, axis, count=whole)[index] if whole > 1 else x

    def bounded(self, graph: Graph, x: Value) -> Value:
        """What goes into an activation."""
        if self.clip is None:
            return x
        low, high = c.like(-self.clip, x), c.like(self.clip, x)
        return graph.apply(elementwise.Minimum(), graph.apply(elementwise.Maximum(), x, low), high)


def _rows(graph: Graph, x: Value, first: int, last: int) -> Value:
    data = x.data
    if data is not None:
        return constant(np.ascontiguousarray(data[first:last]))
    return c.part_of(graph, x, first, last)


Cell = Callable[[Graph, Weights, Value, Sequence[Value]], Sequence[Value]]
"""The next states from what comes from the input of a step, (batch, gates * hidden), and the states."""


def _rnn(graph: Graph, weights: Weights, x: Value, states: Sequence[Value]) -> Sequence[Value]:
    (activate,) = weights.functions
    return (activate(graph, weights.bounded(graph, c.add(graph, x, weights.product(graph, states[0], 0, 1)))),)


def _gru(graph: Graph, weights: Weights, x: Value, states: Sequence[Value]) -> Sequence[Value]:
    (state,), (activate, form) = states, weights.functions
    both = weights.product(graph, state, 0, 2)
    update, reset = (activate(graph, weights.bounded(graph, c.add(
        graph, weights.gate(graph, x, k), weights.gate(graph, both, k)))) for k in range(2))
    if weights.bias is None:
        inner = weights.product(graph, c.multiply(graph, reset, state), 2, 3)
    else:
        linear = c.add(graph, weights.product(graph, state, 2, 3), weights.bias)
        inner = c.multiply(graph, reset, linear)
    hidden = form(graph, weights.bounded(graph, c.add(graph, weights.gate(graph, x, 2), inner)))
    kept = c.multiply(graph, update, c.subtract(graph, state, hidden))
    return (c.add(graph, hidden, kept),)


def lstm_cell(graph: Graph, weights: Weights, x: Value, states: Sequence[Value]) -> Sequence[Value]:
    (state, memory), (activate, form, out) = states, weights.functions
    gates = c.add(graph, x, weights.product(graph, state, 0, 4))

    def opened(index: int, seen: Value, peephole: int) -> Value:
        found = weights.gate(graph, gates, index)
        if weights.peepholes:
            found = c.add(graph, found, c.multiply(graph, weights.peepholes[peephole], seen))
        return activate(graph, weights.bounded(graph, found))

    taken, kept = opened(0, memory, 0), opened(2, memory, 2)
    new = form(graph, weights.bounded(graph, weights.gate(graph, gates, 3)))
    memory = c.add(graph, c.multiply(graph, kept, memory), c.multiply(graph, taken, new))
    return c.multiply(graph, opened(1, memory, 1), out(graph, memory)), memory


@rule("RNN", since=7)
def rnn(node: Node) -> Sequence[Value | None]:
    return network(node, _rnn, 1, ("Tanh",), 1)


@rule("GRU", since=7)
def gru(node: Node) -> Sequence[Value | None]:
    return network(node, _gru, 3, ("Sigmoid", "Tanh"), 1)


@rule("LSTM", since=7)
def lstm(node: Node) -> Sequence[Value | None]:
    if node.integer("input_forget", 0):
        node.unsupported("coupled input and forget gates")
    return network(node, lstm_cell, 4, ("Sigmoid", "Tanh", "Tanh"), 2)


def network(node: Node, cell: Cell, gates: int, default: tuple[str, ...], count: int,
            kind: type[Direction] | None = None) -> Sequence[Value | None]:
    """All directions of a network, each of a kind; `count` is the number of states."""
    kind = kind or Direction
    graph, batch_first = node.graph, node.integer("layout", 0)
    names = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    directions = names.get(node.string("direction", "forward"))
    if directions is None:
        raise ModelError(f"direction: expected {', '.join(names)}, found {node.string('direction')!r}")
    x = c.transpose(graph, node[0], [1, 0, 2]) if batch_first else node[0]
    outputs = [kind(node, cell, gates, default, count, number, backwards).emit(x)
               for number, backwards in enumerate(directions)]
    every = c.concatenate(graph, [c.unsqueeze(graph, each[0], [1]) for each in outputs], axis=1)
    last = [c.concatenate(graph, [c.unsqueeze(graph, each[1 + k], [0]) for each in outputs]) for k in range(count)]
    if batch_first:
        every = c.transpose(graph, every, [2, 0, 1, 3])
        last = [c.transpose(graph, each, [1, 0, 2]) for each in last]
    return every, *last


class Direction:
    """One direction of a network."""

    def __init__(self, node: Node, cell: Cell, gates: int, default: tuple[str, ...], count: int, number: int,
                 backwards: bool) -> None:
        self._node = node
        self._graph = node.graph
        self._cell = cell
        self._count = count
        self._number = number
        self._backwards = backwards
        self._gates = gates
        size = self._hidden()
        bias = None if node.get(3) is None else self.own(node[3])
        own, other = (None, None) if bias is None else (_rows(self._graph, bias, 0, gates * size),
                                                        _rows(self._graph, bias, gates * size, 2 * gates * size))
        inner = None
        if gates == 3 and node.integer("linear_before_reset", 0):
            inner = _rows(self._graph, other, 2 * size, 3 * size) if other is not None else \
                c.like(0, node[0], (size,))
            rest = c.like(0, node[0], (size,))
            if other is not None:
                other = c.concatenate(self._graph, [_rows(self._graph, other, 0, 2 * size), rest])
        self._biases = [each for each in (own, other) if each is not None]
        peepholes = () if node.get(7) is None else tuple(
            _rows(self._graph, self.own(node[7]), k * size, (k + 1) * size) for k in range(3))
        self._weights = Weights(self.factor(2), inner, peepholes, activations(node, number, default), size,
                                node.number("clip") if node.has("clip") else None)

    def _hidden(self) -> int:
        """The size of the state, which the shapes of the weights are to say too."""
        node = self._node
        size = node.integer("hidden_size", self.depth(2))
        for position, depth in ((1, None), (2, size)):
            found = node.shape(position)
            if -1 in found[1:2]:
                node.unsupported(f"weights of shape {found}")
            wanted = self.matrix(self._gates * size, self.depth(position) if depth is None else depth)
            if size < 1 or len(found) != 3 or found[1:] != wanted:
                raise ModelError(f"input {position}: expected rank 3 and {wanted} behind the directions, found {found}")
        return size

    def depth(self, position: int) -> int:
        """How many rows the weights at a position have."""
        return (self._node.shape(position) or (0,))[-1]

    def matrix(self, columns: int, depth: int) -> Shape:
        """The shape of weights of one direction."""
        return columns, depth

    def factor(self, position: int) -> Factor:
        """The weights at a position."""
        return Factor(self.own(self._node[position]))

    def own(self, value: Value) -> Value:
        """The part of a parameter, whose first axis is the direction, that is for this one."""
        data = value.data
        if data is not None:
            return constant(np.ascontiguousarray(data[self._number]))
        part = c.part_of(self._graph, value, self._number, self._number + 1)
        return self._graph.apply(shape.Squeeze((0,)), part)

    def _start(self, position: int, x: Value) -> Value:
        """The first value of a state: (batch, hidden)."""
        graph, value = self._graph, self._node.get(position)
        if value is not None:
            if self._node.integer("layout", 0):
                value = c.transpose(graph, value, [1, 0, 2])
            return self.own(value)
        sizes = c.concatenate(graph, [c.dimension(graph, x, 1), constant(np.array([self._weights.size], np.int64))])
        return c.fill(graph, sizes, c.like(0, x))

    def emit(self, x: Value) -> list[Value]:
        """The states of all steps (steps, batch, hidden), and the last of each state."""
        graph, lengths = self._graph, self._node.get(4)
        steps = c.dimension(graph, x, 0)
        if lengths is not None:
            x = self._needed(x, lengths, steps)
        product = self.factor(1).times(graph, x, 0, self._gates * self._weights.size)
        for each in self._biases:
            product = c.add(graph, product, each)
        around = layout.ReverseSequence(seq_dim=0, batch_dim=1)
        if lengths is not None and self._backwards:
            product = graph.apply(around, product, lengths)
        found = self._loop(product, [self._start(5 + k, x) for k in range(self._count)], lengths, steps)
        every, last = found[self._count], found[:self._count]
        if lengths is not None and self._backwards:
            every = graph.apply(around, every, lengths)
        return [every, *last]

    def _loop(self, x: Value, states: Sequence[Value], lengths: Value | None,
              steps: Value) -> list[Value]:
        inner = self._graph.program.graph(f"{self._node.operator.lower()}_step", self._graph)
        step = inner.input(DType.INT64, (), "step")
        own = [inner.input(each.dtype, ((each.shape or (-1,))[0], self._weights.size), f"state_{k}")
               for k, each in enumerate(states)]
        taken = inner.input(x.dtype, None if x.shape is None else x.shape[1:], "x")
        after = list(self._cell(inner, self._weights, taken, own))
        seen = after[0]
        if lengths is not None:
            live = c.unsqueeze(inner, inner.apply(comparison.Less(), step, c.cast(inner, lengths, DType.INT64)), [1])
            seen = c.select(inner, live, seen, c.like(0, seen))
            after = [c.select(inner, live, new, old) for new, old in zip(after, own, strict=True)]
        body = Body(inner, (step, *own, taken), (*after, seen))
        backwards = self._backwards and lengths is None
        parts = Parts(carried=tuple(states), scanned=(x,), lengths=() if lengths is None else (steps,))
        scan = ScanInput(1 + len(own), 0, Position(-1, Base.END), -1) if backwards else ScanInput(1 + len(own))
        op = loop.Loop(
            iteration=Feed(0), count_from_scan=True, scan_inputs=(scan,),
            carried=tuple(Carried(1 + k, k, ShapePolicy.FIXED) for k in range(len(own))),
            scan_outputs=(ScanOutput(len(own), order=Order.PREPEND if backwards else Order.APPEND,
                                     has_length=lengths is not None),))
        return emit(self._graph, closed(op, body, len(body.inputs)), body, parts, [each.shape for each in states])

    def _needed(self, x: Value, lengths: Value, steps: Value) -> Value:
        """As many of the steps as the longest of the sequences has."""
        graph = self._graph
        longest = graph.apply(reduce.ReduceMax(keep_dims=True), lengths, constant(np.zeros(1, np.int32)))
        count = graph.apply(elementwise.Minimum(), c.cast(graph, longest, DType.INT64), steps)
        found = graph.apply(layout.StridedSlice(), x, c.integers([0]), count, c.integers([1]))
        return found if x.shape is None else graph.declare(found, shape=(-1, *x.shape[1:]))
