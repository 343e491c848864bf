"""Loop and TensorIterator, as the canonical loop."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.loop_builder import loop_outputs
from circlet.runtime.ops.loop_options import (
    NONE,
    Base,
    Carried,
    Feed,
    Mode,
    Order,
    Position,
    ScanInput,
    ScanOutput,
    TripPolicy,
)
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value, constant, tensor_of
from circlet.schema.openvino.constants import read_constant
from circlet.schema.openvino.lists import Finder, RowList, completed, is_zero, without
from circlet.schema.openvino.ports import UNCONNECTED, PortEntry, PortMap, Span, read_port_map
from circlet.schema.openvino.rules import Node, layer
from circlet.schema.openvino.translate import convert, parameter_type
from circlet.schema.openvino.xml import Network

ITERATION, CONDITION = "current_iteration", "execution_condition"


@dataclass(frozen=True, eq=False)
class Body:
    """The body of a loop in a graph of its own: which inputs and outputs its Parameters and Results are."""

    node: Node
    network: Network
    ports: PortMap
    iteration: int | None
    """The Parameter that gets the number of the iteration."""

    @cached_property
    def sources(self) -> dict[int, PortEntry]:
        """By Parameter, the entry that gives it a value from outside."""
        ports = [port.id for port in self.node.layer.inputs]
        found: dict[int, PortEntry] = {}
        for entry in self.ports.inputs:
            if entry.internal == self.iteration:
                continue
            if entry.external not in ports:
                raise self.node.error(f"expected external_port_id among the input ports {ports}, "
                                      f"found {entry.external}")
            found[entry.internal] = entry
        for each, it in self.network.layers.items():
            if it.type == "Parameter" and each not in found and each != self.iteration:
                raise self.node.error(f"expected Parameter {each} of the body in the port map, found it nowhere")
        for target in self.ports.back_edges:
            if target in found and found[target].span is not None:
                raise self.node.error(f"Parameter {target}: expected no axis, since a back edge feeds it, found one")
        return found

    def outer(self, parameter: int) -> Value:
        """The value that a Parameter has in the first iteration, or is a slice of."""
        ports = [port.id for port in self.node.layer.inputs]
        return self.node[ports.index(self.sources[parameter].external)]

    @cached_property
    def inlined(self) -> dict[int, Value]:
        """The Parameters that stand for constants, which the body holds itself."""
        return {each: self.outer(each) for each, entry in self.sources.items()
                if entry.span is None and each not in self.ports.back_edges and self.outer(each).data is not None}

    @cached_property
    def carried(self) -> list[int]:
        """The Parameters that a back edge feeds, in the order of the file."""
        return [each for each in self.sources if each in self.ports.back_edges]

    @cached_property
    def sliced(self) -> list[int]:
        """The Parameters that get a slice in each iteration."""
        return [each for each, entry in self.sources.items() if entry.span is not None]

    @cached_property
    def invariant(self) -> list[int]:
        """The Parameters that get the same value in each iteration, other than constants."""
        others = {*self.carried, *self.sliced, *self.inlined}
        return [each for each in self.sources if each not in others]

    @cached_property
    def inputs(self) -> dict[int, int]:
        """By Parameter, the position among the inputs of the body's graph."""
        first = [] if self.iteration is None else [self.iteration]
        return {each: k for k, each in enumerate([*first, *self.carried, *self.invariant, *self.sliced])}

    @cached_property
    def outputs(self) -> dict[int, int]:
        """By Result, the position among the outputs of the body's graph."""
        results = (each for each, it in self.network.layers.items() if it.type == "Result")
        return {each: k for k, each in enumerate(results)}

    @cached_property
    def graph(self) -> Graph:
        """The body's graph."""
        graph = self.node.unit.program.graph(self.network.name, self.node.graph)
        parameters = dict(self.inlined)
        for each in self.inputs:
            parameter = self.network.layers[each]
            dtype, shape = parameter_type(self.node.unit, parameter)
            parameters[each] = graph.input(dtype, self._shape(each, shape), parameter.name)
        graph.output(*convert(self.node.unit, self.network, graph, parameters).values())
        return graph

    def _shape(self, parameter: int, declared: Shape | None) -> Shape | None:
        """What is known of a Parameter's shape in all iterations."""
        if parameter == self.iteration or parameter in self.sliced:
            return declared
        outer = self.outer(parameter).shape
        if parameter in self.invariant:
            return declared if outer is None else outer
        if declared is None or outer is None or len(declared) != len(outer):
            return None
        return tuple(one if one == other else -1 for one, other in zip(declared, outer, strict=True))

    def entries(self) -> Sequence[PortEntry]:
        """What the outputs of the layer stand for, in the order of its ports."""
        found = sorted((each for each in self.ports.outputs if each.external != UNCONNECTED),
                       key=lambda each: each.external)
        ports = [port.id for port in self.node.layer.outputs]
        if [each.external for each in found] not in (ports, list(range(len(ports)))):
            raise self.node.error(f"expected an output entry of the port map for each of the output ports {ports}, "
                                  f"found external_port_id {[each.external for each in found]}")
        return found

    def scan_input(self, parameter: int) -> ScanInput:
        """How a sliced input is cut."""
        span = self.sources[parameter].span
        assert span is not None
        axis = self._axis(span, self.outer(parameter).rank, f"Parameter {parameter}")
        begin, end = _position(span.start), _position(span.end)
        if span.stride < 0:
            begin = Position(begin.offset - span.part, begin.base)
        return ScanInput(self.inputs[parameter], axis, begin, span.stride, span.part, keep_axis=True, end=end)

    def scan_output(self, entry: PortEntry) -> ScanOutput:
        """How the values of a Result are joined; scalars become the elements of a vector."""
        assert entry.span is not None
        result = self.graph.outputs[self.outputs[entry.internal]]
        order = Order.PREPEND if entry.span.stride < 0 else Order.APPEND
        axis = self._axis(entry.span, 1 if result.rank == 0 else result.rank, f"Result {entry.internal}")
        mode = Mode.STACK if result.rank == 0 else Mode.CONCAT
        return ScanOutput(self.outputs[entry.internal], axis, mode, order, entry.span.part)

    def _axis(self, span: Span, rank: int | None, what: str) -> int:
        if span.stride == 0 or span.part < 1:
            raise self.node.error(f"{what}: expected a stride that is not 0 and a positive part_size, found "
                                  f"{span.stride} and {span.part}")
        return span.axis if rank is None else self.node.axis(span.axis, rank, f"{what}, axis")

    def add(self, loop: Loop, trip_count: Value | None, condition: Value | None) -> tuple[Value, ...]:
        """Adds a loop to the graph of the layer; returns the outputs of the layer.

        Args:
            loop: the options other than how the ports of layer and body map.
        """
        node, body = self.node, self.graph
        entries = self.entries()
        scans = [each for each in entries if each.span is not None]
        carried = [self.ports.back_edges[each] for each in self.carried]
        last = [each.internal for each in entries if each.span is None and each.internal not in carried]
        iteration = None if self.iteration is None else Feed(self.inputs[self.iteration], _rank(body.inputs[0]))
        op = replace(loop, body_subgraph_index=body.index, iteration=iteration,
                     carried=tuple(Carried(self.inputs[each], self.outputs[result])
                                   for each, result in zip(self.carried, carried, strict=True)),
                     invariants=tuple(self.inputs[each] for each in self.invariant),
                     scan_inputs=tuple(map(self.scan_input, self.sliced)),
                     scan_outputs=tuple(map(self.scan_output, scans)),
                     last_outputs=tuple(self.outputs[each] for each in last), overrun=node.unit.overrun)
        firsts = [self.outer(each) for each in self.carried]
        tensors = loop_outputs(op, [tensor_of(each) for each in firsts], body.build())
        results = node.graph.op(
            op, trip_count, condition, *firsts, *(self.outer(each) for each in (*self.invariant, *self.sliced)),
            types=[each.dtype for each in tensors],
            shapes=[each.signature if each.has_rank else None for each in tensors])
        return tuple(results[self._position(each, carried, scans, last)] for each in entries)

    def _position(self, entry: PortEntry, carried: list[int], scans: list[PortEntry], last: list[int]) -> int:
        """Which output of the loop an output of the layer is."""
        if entry.span is not None:
            return len(carried) + scans.index(entry)
        if entry.internal in carried:
            return carried.index(entry.internal)
        return len(carried) + len(scans) + last.index(entry.internal)


@layer("Loop", since=5)
def loop(node: Node) -> tuple[Value, ...]:
    """Runs the body while the condition holds, as often as the trip count says at most."""
    network, ports = _body(node)
    body = Body(node, network, ports, _iteration(network, ports))
    lists = _lists(body)
    if not lists:
        return _loop(body)
    rows = Body(node, *without(network, ports, lists), body.iteration)
    firsts = {each.result: body.outer(each.parameter) for each in lists if each.index is not None}
    return tuple(completed(node.graph, value, firsts[entry.internal]) if entry.internal in firsts else value
                 for entry, value in zip(rows.entries(), _loop(rows), strict=True))


def _lists(body: Body) -> list[RowList]:
    """The lists of rows that a loop carries, and fills from the first row on."""
    def known(number: int) -> Array | None:
        layer = body.network.layers[number]
        if layer.type not in ("Const", "Constant"):
            return None
        return read_constant(Node(body.node.unit, body.node.graph, layer, ())).data

    found = Finder(body.network, body.ports, known).lists()
    return [each for each in found if body.outer(each.parameter).rank and is_zero(
        body.outer(each.parameter if each.index is None else each.index))]


def _loop(body: Body) -> tuple[Value, ...]:
    node, ports = body.node, body.ports
    conditions = [each.internal for each in ports.outputs if each.purpose == CONDITION]
    if len(conditions) != 1:
        raise node.error(f"expected one Result of the body with purpose {CONDITION!r}, found {len(conditions)}")
    for entry in ports.outputs:
        if entry.span is not None and (entry.span.start, entry.span.end, entry.span.stride) != (0, -1, 1):
            raise node.error(f"Result {entry.internal}: expected start 0, end -1 and stride 1, found {entry.span}")
    trip_count = _trip_count(node)
    _expect_condition(node, node[1], "input 1, the execution condition")
    again = body.outputs[conditions[0]]
    _expect_condition(node, body.graph.outputs[again], f"Result {conditions[0]} of the body")
    options = Loop(trip_policy=TripPolicy.NEGATIVE_IS_INFINITE,
                   cond_output=NONE if _is_true(body.graph.outputs[again]) else again)
    return body.add(options, trip_count, None if _is_true(node[1]) else node[1])


@layer("TensorIterator")
def tensor_iterator(node: Node) -> tuple[Value, ...]:
    """Runs the body on slice after slice of its inputs."""
    network, ports = _body(node)
    body = Body(node, network, ports, None)
    if body.sliced:
        return body.add(Loop(count_from_scan=True), None, None)
    spans = [each.span for each in ports.outputs if each.span is not None and min(each.span.start, each.span.end) >= 0]
    counts = {abs(span.end - span.start) // max(span.part, 1) for span in spans} or {1}
    if len(counts) > 1:
        raise node.error(f"expected one number of iterations, found {sorted(counts)}")
    return body.add(Loop(), constant(np.array(counts.pop(), np.int64)), None)


def _body(node: Node) -> tuple[Network, PortMap]:
    if "body" not in node.layer.bodies:
        raise node.error("expected <body>, found none")
    network = node.layer.bodies["body"]
    return network, read_port_map(node.layer, "port_map", network)


def _iteration(network: Network, ports: PortMap) -> int | None:
    """The Parameter that gets the number of the iteration: marked so, or the one that nothing else feeds."""
    fed = {each.internal for each in ports.inputs if each.external != UNCONNECTED} | set(ports.back_edges)
    free = [each for each, it in network.layers.items() if it.type == "Parameter" and each not in fed]
    marked = [each.internal for each in ports.inputs if each.purpose == ITERATION and each.internal in free]
    return marked[0] if marked else free[0] if len(free) == 1 else None


def _trip_count(node: Node) -> Value | None:
    """The trip count; None where it is a negative constant, which means endless."""
    value = node[0]
    if value.dtype not in (DType.INT32, DType.INT64):
        raise node.error(f"input 0 is the trip count: expected int32 or int64, found {value.dtype.value}")
    if c.elements(value) not in (None, 1):
        raise node.error(f"input 0 is the trip count: expected one element, found shape {value.shape}")
    if value.data is None or value.data.item() >= 0:
        return value
    if value.data.item() < -1:
        warnings.warn(f"{node.layer}: trip count {value.data.item()} is taken as -1, endless", stacklevel=2)
    return None


def _expect_condition(node: Node, value: Value, what: str) -> None:
    if value.dtype is not DType.BOOL:
        raise node.error(f"{what}: expected boolean, found {value.dtype.value}")
    if c.elements(value) not in (None, 1):
        raise node.error(f"{what}: expected one element, found shape {value.shape}")


def _is_true(value: Value) -> bool:
    return value.data is not None and bool(value.data.item())


def _position(position: int) -> Position:
    """A bound of a half-open span: negative ones count from behind the last element."""
    return Position(position) if position >= 0 else Position(position + 1, Base.END)


def _rank(value: Value) -> int:
    return 1 if value.rank == 1 else 0
