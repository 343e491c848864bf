"""If: networks in a layer, joined to its ports by port maps."""

from __future__ import annotations

from collections.abc import Mapping

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.ops import controlflow
from circlet.runtime.records import dataclass
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.ports import PortMap, read_port_map
from circlet.schema.openvino.rules import Node, layer
from circlet.schema.openvino.translate import convert, parameter_type
from circlet.schema.openvino.xml import Network


@dataclass(frozen=True)
class Branch:
    """A body of an If and what connects it with the layer."""

    node: Node
    name: str
    network: Network
    ports: PortMap

    @property
    def place(self) -> str:
        return f"{self.node.layer}, {self.name}"

    def arguments(self) -> dict[int, int]:
        """By Parameter, the input of the layer that it stands for."""
        ports = [port.id for port in self.node.layer.inputs]
        found: dict[int, int] = {}
        for entry in self.ports.inputs:
            if entry.external not in ports[1:]:
                raise ModelError(f"{self.place}: expected external_port_id among the input ports {ports[1:]}, "
                                 f"found {entry.external}")
            found[entry.internal] = ports.index(entry.external)
        missing = [each for each, it in self.network.layers.items() if it.type == "Parameter" and each not in found]
        if missing:
            raise ModelError(f"{self.place}: expected each Parameter in the port map, found none for {missing}")
        return found

    def results(self) -> list[int]:
        """The Results that the outputs of the layer stand for, in the order of its output ports.

        External ids count outputs from 0 or are ids of ports: either way their order is that of the ports.
        """
        wanted, entries = len(self.node.layer.outputs), sorted(self.ports.outputs, key=lambda each: each.external)
        if len(entries) != wanted or len({each.external for each in entries}) != wanted:
            raise ModelError(f"{self.place}: expected a Result for each of {wanted} outputs of the layer, found "
                             f"external_port_id {[each.external for each in entries]}")
        allowed = {port.id for port in self.node.layer.outputs} | set(range(wanted))
        for entry in entries:
            if entry.external not in allowed:
                raise ModelError(f"{self.place}: expected external_port_id among {sorted(allowed)}, "
                                 f"found {entry.external}")
        return [each.internal for each in entries]

    def convert(self, graph: Graph, arguments: Mapping[int, Value]) -> tuple[Value, ...]:
        """Adds the branch to a graph where the inputs of the layer are the given values."""
        parameters = {}
        for parameter, position in self.arguments().items():
            value = arguments[position]
            dtype, shape = parameter_type(self.node.unit, self.network.layers[parameter])
            if dtype is not value.dtype:
                raise ModelError(f"{self.network.layers[parameter]}: expected {value.dtype.value} as input {position} "
                                 f"of {self.node.layer} is, found {dtype.value}")
            parameters[parameter] = value if value.shape is not None else graph.declare(value, shape=shape or None)
        results = convert(self.node.unit, self.network, graph, parameters)
        return tuple(results[each] for each in self.results())


@layer("If", since=8)
def branch(node: Node) -> tuple[Value, ...]:
    """Runs the body that the condition selects; a body that a constant selects becomes part of the graph."""
    branches = [_branch(node, name) for name in ("then_body", "else_body")]
    if not node.layer.outputs:
        raise node.error("expected at least one output, found none")
    condition = _condition(node)
    if condition.data is not None:
        chosen = branches[0 if condition.data.item() else 1]
        return chosen.convert(node.graph, {k: node[k] for k in chosen.arguments().values()})
    arguments = {position: node[position] for each in branches for position in each.arguments().values()}
    taken = sorted(position for position, value in arguments.items() if value.data is None)
    graphs = [node.unit.program.graph(each.network.name, node.graph) for each in branches]
    for each, graph in zip(branches, graphs, strict=True):
        inputs = {k: graph.input(node[k].dtype, node[k].shape, f"input_{k}") for k in taken}
        graph.output(*each.convert(graph, arguments | inputs))
    then, other = (graph.outputs for graph in graphs)
    for position, (one, two) in enumerate(zip(then, other, strict=True)):
        if one.dtype is not two.dtype:
            raise node.error(f"output {position}: expected one element type of both bodies, found {one.dtype.value} "
                             f"of then_body and {two.dtype.value} of else_body")
    op = controlflow.If(then_subgraph_index=graphs[0].index, else_subgraph_index=graphs[1].index)
    return node.graph.op(op, condition, *(node[k] for k in taken), types=[each.dtype for each in then],
                         shapes=[_either(one.shape, two.shape) for one, two in zip(then, other, strict=True)])


def _branch(node: Node, name: str) -> Branch:
    if name not in node.layer.bodies:
        raise node.error(f"expected <{name}>, found none")
    return Branch(node, name, node.layer.bodies[name],
                  read_port_map(node.layer, f"{name.removesuffix('_body')}_port_map", node.layer.bodies[name]))


def _condition(node: Node) -> Value:
    value = node[0]
    if value.dtype is not DType.BOOL:
        raise node.error(f"input 0 is the condition: expected boolean, found {value.dtype.value}")
    if value.rank is not None and value.rank > 1:
        raise node.error(f"input 0 is the condition: expected a scalar or a vector, found shape {value.shape}")
    if c.elements(value) not in (None, 1):
        raise node.error(f"input 0 is the condition: expected one element, found shape {value.shape}")
    return value


def _either(one: Shape | None, two: Shape | None) -> Shape | None:
    """What is known of a shape that is one or another."""
    if one is None or two is None or len(one) != len(two):
        return None
    return tuple(a if a == b else -1 for a, b in zip(one, two, strict=True))
