"""Recurrent cells, and sequences of them as loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops import shape, unary
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_options import Base, Carried, Order, Position, ScanInput, ScanOutput
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant
from circlet.schema.openvino.matmul import matrix_product
from circlet.schema.openvino.rules import Node, layer

_ACTIVATIONS: dict[str, Callable[[Graph, Value], Value]] = {
    "sigmoid": c.sigmoid, "tanh": c.tanh, "relu": c.function(unary.Relu),
}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass(frozen=True)
class Cell:
    """A recurrent cell: RNN, GRU or LSTM."""

    kind: str
    hidden: int
    functions: tuple[Callable[[Graph, Value], Value], ...]
    clip: float
    before_reset: bool
    """Whether a GRU multiplies by the reset gate after the product with the state rather than before."""

    @property
    def states(self) -> int:
        return 2 if self.kind == "LSTM" else 1

    def apply(self, function: int, g: Graph, x: Value) -> Value:
        """An activation of clipped sums."""
        return self.functions[function](g, c.clip(g, x, -self.clip, self.clip) if self.clip > 0 else x)

    def gate(self, g: Graph, x: Value, first: int, count: int = 1) -> Value:
        """The columns of some gates."""
        return c.part(g, x, 2, 1, first * self.hidden, (first + count) * self.hidden)

    def rows(self, g: Graph, weights: Value, first: int, count: int) -> Value:
        """The rows of weights, or the elements of a bias, that belong to some gates."""
        return c.part(g, weights, weights.rank or 0, 0, first * self.hidden, (first + count) * self.hidden)

    def project(self, g: Graph, x: Value, weights: Value, bias: Value) -> Value:
        """What the gates get of the input."""
        own = self.rows(g, bias, 0, 3) if self.before_reset else bias
        return c.add(g, matrix_product(g, x, weights, transpose_b=True), own)

    def step(self, g: Graph, given: Value, states: Sequence[Value], weights: Value, bias: Value) -> tuple[Value, ...]:
        """The next states.

        Args:
            given: what the gates get of the input, (batch, gates * hidden).
            states: the last ones, (batch, hidden).
            weights: those of the state, (gates * hidden, hidden).
            bias: as the layer has it.
        """
        if self.kind == "GRU":
            return (self._gru(g, given, states[0], weights, bias),)
        sums = c.add(g, given, matrix_product(g, states[0], weights, transpose_b=True))
        if self.kind == "RNN":
            return (self.apply(0, g, sums),)
        forget, enter, leave = (self.apply(0, g, self.gate(g, sums, k)) for k in (0, 1, 3))
        fresh = self.apply(1, g, self.gate(g, sums, 2))
        cell = c.add(g, c.multiply(g, forget, states[1]), c.multiply(g, enter, fresh))
        return c.multiply(g, leave, self.functions[2](g, cell)), cell

    def _gru(self, g: Graph, given: Value, state: Value, weights: Value, bias: Value) -> Value:
        inner, outer = self.rows(g, weights, 0, 2), self.rows(g, weights, 2, 1)
        sums = c.add(g, self.gate(g, given, 0, 2), matrix_product(g, state, inner, transpose_b=True))
        keep, reset = (self.apply(0, g, self.gate(g, sums, k)) for k in (0, 1))
        if self.before_reset:
            product = c.add(g, matrix_product(g, state, outer, transpose_b=True), self.rows(g, bias, 3, 1))
            product = c.multiply(g, reset, product)
        else:
            product = matrix_product(g, c.multiply(g, reset, state), outer, transpose_b=True)
        fresh = self.apply(1, g, c.add(g, self.gate(g, given, 2), product))
        return c.add(g, c.multiply(g, c.subtract(g, c.like(1, keep), keep), fresh), c.multiply(g, keep, state))


def _cell(node: Node) -> Cell:
    kind = node.layer.type.removesuffix("Cell").removesuffix("Sequence")
    defaults = {"RNN": "tanh", "GRU": "sigmoid,tanh", "LSTM": "sigmoid,tanh,tanh"}[kind]
    names = [each.strip().lower() for each in node.text("activations", defaults).split(",")]
    for name in names:
        if name not in _ACTIVATIONS:
            raise node.refusal(f"activation {name!r} (supported: {', '.join(_ACTIVATIONS)})")
    count = len(defaults.split(","))
    if len(names) == 2 * count and node.text("direction", "forward") == "bidirectional":
        if names[:count] != names[count:]:
            raise node.refusal("activations of their own in each direction")
        names = names[:count]
    if len(names) != count:
        raise node.error(f"activations: expected {count}, found {names}")
    if node.flag("input_forget", False) or node.text("weights_format", "fico").lower() != "fico":
        raise node.refusal("coupled gates, or weights in another order than f, i, c, o")
    return Cell(kind, node.integer("hidden_size"), tuple(_ACTIVATIONS[name] for name in names),
                node.number("clip", 0), kind == "GRU" and node.flag("linear_before_reset", False))


def _checked(node: Node, cell: Cell, weights: Value, recurrent: Value, bias: Value, lead: int) -> None:
    """Checks the shapes of parameters, which have `lead` further axes."""
    gates, hidden = _GATES[cell.kind], cell.hidden
    expected = (((gates * hidden, -1), weights), ((gates * hidden, hidden), recurrent),
                (((gates + cell.before_reset) * hidden,), bias))
    for wanted, value in expected:
        found = value.shape
        if found is None or any(dim < 0 for dim in found):
            raise node.refusal("parameters whose shapes are not known before the model runs")
        if len(found) != len(wanted) + lead or any(a not in (-1, b) for a, b in zip(wanted, found[lead:], strict=True)):
            raise node.error(f"expected parameters of {gates} gates and {hidden} hidden values, found shape {found}")


@layer("RNNCell", "GRUCell", "LSTMCell")
def cell(node: Node) -> tuple[Value, ...]:
    """One step: inputs x, the states, W, R and B."""
    kind, single = _cell(node), node.in_float32()
    x, *states = (single[k] for k in range(1 + kind.states))
    weights, recurrent = single[1 + kind.states], single[2 + kind.states]
    bias = _bias(single, kind, 3 + kind.states)
    if single.get(4 + kind.states) is not None:
        raise node.refusal("peepholes")
    _checked(node, kind, weights, recurrent, bias, 0)
    given = kind.project(node.graph, x, weights, bias)
    results = kind.step(node.graph, given, states, recurrent, bias)
    return tuple(c.cast(node.graph, each, node[0].dtype) for each in results)


def _bias(node: Node, kind: Cell, index: int) -> Value:
    found = node.get(index)
    size = (_GATES[kind.kind] + kind.before_reset) * kind.hidden
    if found is None:
        node.bounded(size)
        found = constant(np.zeros(size, np.float32))
    return found


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction of a sequence: its parameters and what it runs over."""

    node: Node
    cell: Cell
    is_backward: bool
    given: Value
    """What the gates get of the input, (batch, time, gates * hidden)."""
    mask: Value | None
    """Which steps belong to each sequence, (batch, time, 1); None where all do."""
    recurrent: Value
    bias: Value

    def run(self, states: Sequence[Value]) -> tuple[Value, ...]:
        """All outputs (batch, time, hidden) and the last states (batch, hidden)."""
        count, parameters = len(states), [each for each in (self.recurrent, self.bias) if each.data is None]
        body = self._body(states, parameters)
        at = Position(-1, Base.END) if self.is_backward else Position()
        slices = range(count + len(parameters), len(body.inputs))
        step = -1 if self.is_backward else 1
        op = Loop(body_subgraph_index=body.index, carried=tuple(Carried(k, k) for k in range(count)),
                  invariants=tuple(range(count, count + len(parameters))), count_from_scan=True,
                  scan_inputs=tuple(ScanInput(k, 1, at, step) for k in slices),
                  scan_outputs=(ScanOutput(count, 1, order=Order.PREPEND if self.is_backward else Order.APPEND),))
        sliced = [self.given, *([] if self.mask is None else [self.mask])]
        shapes = [each.shape for each in states]
        *last, outputs = self.node.graph.op(
            op, None, None, *states, *parameters, *sliced, types=[DType.FLOAT32] * (count + 1),
            shapes=[*shapes, _with_time(states[0], self.given)])
        return outputs, *last

    def _body(self, states: Sequence[Value], parameters: Sequence[Value]) -> Graph:
        """The graph of one step: states, parameters that are no constants, the slices; states and the output."""
        body = self.node.unit.program.graph(f"{self.node.layer.name}/step", self.node.graph)
        before = [body.input(DType.FLOAT32, each.shape, f"state_{k}") for k, each in enumerate(states)]
        inner = {each: body.input(DType.FLOAT32, each.shape, each.name) for each in parameters}
        batch = (before[0].shape or (-1,))[0]
        given = body.input(DType.FLOAT32, (batch, (self.given.shape or (-1,))[-1]), "given")
        recurrent, bias = (inner.get(each, each) for each in (self.recurrent, self.bias))
        after: Sequence[Value] = self.cell.step(body, given, before, recurrent, bias)
        output = after[0]
        if self.mask is not None:
            mask = body.input(DType.BOOL, (batch, 1), "mask")
            output = c.select(body, mask, after[0], c.number(0, DType.FLOAT32))
            after = [c.select(body, mask, new, old) for new, old in zip(after, before, strict=True)]
        body.output(*after, output)
        return body


def _with_time(state: Value, given: Value) -> tuple[int, ...] | None:
    if state.shape is None or given.shape is None:
        return None
    return state.shape[0], given.shape[1], state.shape[1]


@layer("RNNSequence", "GRUSequence", "LSTMSequence", since=5)
def sequence(node: Node) -> tuple[Value, ...]:
    """All steps of sequences, forwards, backwards or both: inputs x, the states, the lengths, W, R and B."""
    g, kind, single = node.graph, _cell(node), node.in_float32()
    node.rank(0)
    states = [single[1 + k] for k in range(kind.states)]
    lengths, weights, recurrent, bias = (single[1 + kind.states + k] for k in range(4))
    _checked(node, kind, weights, recurrent, bias, 1)
    ways = node.choice("direction", {"forward": [False], "reverse": [True], "bidirectional": [False, True]}, "forward")
    if any(each.shape is not None and each.shape[0] != len(ways) for each in (weights, recurrent, bias)):
        raise node.error(f"expected parameters of {len(ways)} directions, found shape {weights.shape}")
    mask = _mask(single, lengths)
    results = []
    for k, is_backward in enumerate(ways):
        own = [c.squeeze(g, c.part(g, each, each.rank or 0, 0, k, k + 1), [0]) for each in (weights, recurrent, bias)]
        given = kind.project(g, single[0], own[0], own[2])
        way = Direction(single, kind, is_backward, given, mask, own[1], own[2])
        results.append(way.run([c.squeeze(g, c.part(g, each, 3, 1, k, k + 1), [1]) for each in states]))
    joined = (c.concatenate(g, [c.unsqueeze(g, each, [1]) for each in values], 1)
              for values in zip(*results, strict=True))
    return tuple(c.cast(g, each, node[0].dtype) for each in joined)


def _mask(node: Node, lengths: Value) -> Value | None:
    """Which steps belong to each sequence; None where all do."""
    g, x = node.graph, node[0]
    time = node.shape(0)[1]
    if lengths.data is not None and time >= 0 and (lengths.data == time).all():
        return None
    length = c.squeeze(g, c.dims(g, x, 1, 2), [0])
    zero, one = c.number(0, DType.INT64), c.number(1, DType.INT64)
    steps = g.apply(shape.Range(), zero, length, one)
    return c.unsqueeze(g, c.less(g, steps, c.unsqueeze(g, c.cast(g, lengths, DType.INT64), [-1])), [-1])
