"""Turns a network into the subgraphs of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from circlet.runtime.errors import CircletError, ModelError, UnsupportedError
from circlet.runtime.ir.faults import FAULTS
from circlet.runtime.ir.model import Model, Signature
from circlet.runtime.ir.op import ShapeError
from circlet.runtime.ir.types import MOST_DIMENSIONS, DType, Shape
from circlet.runtime.ops.loop_options import Overrun
from circlet.schema.openvino.graph import Graph, Value
from circlet.schema.openvino.rules import Node, find
from circlet.schema.openvino.variable import assign
from circlet.schema.openvino.weights import Weights, read_constant
from circlet.schema.openvino.xml import Layer, Network, Port

SHOWN = 20
"""How many refused layers a message names."""


class _RefusedError(UnsupportedError):
    """Names everything in a file that circlet has no rule for."""


@dataclass(frozen=True)
class Importer:
    """One file on its way to a model."""

    weights: Weights
    overrun: Overrun = Overrun.ERROR
    """What happens where a loop asks for a slice that leaves its axis."""
    graphs: list[Graph] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Why circlet has no operators for layers, each once."""

    def model(self, network: Network) -> Model:
        """The model that a file holds.

        Raises:
            ModelError: the file is malformed.
            UnsupportedError: it holds layers that circlet has no rule for; the message lists them.
        """
        unknown = Counter(_kinds_without_rule(network))
        if unknown:
            raise _RefusedError(_listed([f"{kind} ({count})" for kind, count in sorted(unknown.items())]))
        graph = self.graph(network.name or "main")
        names: dict[str, int] = {}
        values: dict[int, Value] = {}
        for layer in network.layers.values():
            if layer.type == "Parameter":
                value = values[layer.id] = self.parameter(graph, layer)
                names[_unique(value.name, names)] = graph.tensor_index(value)
        results = self.convert(network, graph, values)
        outputs: dict[str, int] = {}
        for number, value in results.items():
            graph.outputs.append(value)
            outputs[_unique(_result_name(network, number), outputs)] = graph.tensor_index(value)
        return Model(tuple(each.build() for each in self.graphs), (Signature("main", 0, names, outputs),),
                     format="openvino")

    def graph(self, name: str) -> Graph:
        """Adds an empty subgraph."""
        self.graphs.append(Graph(len(self.graphs), name))
        return self.graphs[-1]

    def parameter(self, graph: Graph, layer: Layer) -> Value:
        """The input that a Parameter stands for."""
        return graph.input(*self.parameter_type(layer), _name(layer, output_port(layer), 0))

    def parameter_type(self, layer: Layer) -> tuple[DType, Shape | None]:
        """The element type and the shape that a Parameter declares."""
        node = Node(self, self.graphs[0], layer, ())
        return node.dtype("element_type"), declared_shape(node)

    def convert(self, network: Network, graph: Graph, parameters: Mapping[int, Value]) -> dict[int, Value]:
        """Adds the layers of a network to a graph.

        Args:
            network: the layers.
            graph: where their operators go.
            parameters: what the Parameters stand for, by their ids.

        Returns:
            What the Results stand for, by their ids, in the order of the file.

        Raises:
            ModelError: layers are malformed.
        """
        values: dict[tuple[int, int], Value] = {}
        assignments: list[Node] = []
        for layer in network.ordered():
            edges = [network.sources.get((layer.id, port.id)) for port in layer.inputs]
            missing = [each for each in edges if each is not None and (each.source, each.source_port) not in values]
            if missing and not self.refused:
                raise ModelError(f"{layer}: {missing[0]}: expected an edge from an output that has a value")
            if missing:
                continue
            inputs = [None if each is None else values[each.source, each.source_port] for each in edges]
            if layer.type == "Parameter":
                values[layer.id, output_port(layer).id] = parameters[layer.id]
            elif layer.type == "Result":
                values[layer.id, -1] = _fed(layer, inputs)
            else:
                node = Node(self, graph, layer, inputs)
                if layer.type == "Assign":
                    assignments.append(node)
                self._apply(network, node, values)
        for node in assignments:
            assign(node)
        if self.refused:
            raise _RefusedError(_listed(self.refused))
        return {number: values[number, -1] for number, layer in network.layers.items() if layer.type == "Result"}

    def _apply(self, network: Network, node: Node, values: dict[tuple[int, int], Value]) -> None:
        layer = node.layer
        try:
            results = self._results(node)
        except ShapeError as error:
            raise node.error(str(error)) from None
        except _RefusedError:
            return
        except UnsupportedError as error:
            self.refused.append(str(error))
            return
        except CircletError:
            raise
        except FAULTS as error:
            shapes = [None if each is None else each.shape for each in node.inputs]
            raise node.error(f"attributes and inputs of shapes {shapes} do not fit the layer or each other") from error
        for position, port in enumerate(layer.outputs):
            if position < len(results):
                values[layer.id, port.id] = _declared(node, results[position], port, position)
            elif any((edge.source, edge.source_port) == (layer.id, port.id) for edge in network.sources.values()):
                self.refused.append(f"{layer}: output {position} has no rule")

    def _results(self, node: Node) -> Sequence[Value]:
        if node.layer.type == "Const":
            return (read_constant(node, self.weights),)
        rule = find(node.layer)
        assert rule is not None, f"{node.layer} has no rule"
        found = rule(node)
        return (found,) if isinstance(found, Value) else found

def _listed(reasons: Sequence[str]) -> str:
    more = len(reasons) - SHOWN
    listed = [*reasons[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return f"expected layers that circlet has rules for, found {'; '.join(listed)}"


def _kinds_without_rule(network: Network) -> Iterator[str]:
    """Type and operator set of the layers without a rule, also of those in bodies."""
    for layer in network.layers.values():
        if layer.type not in ("Parameter", "Result", "Const") and find(layer) is None:
            yield f"{layer.type} of {layer.version or 'no operator set'}"
        for body in layer.bodies.values():
            yield from _kinds_without_rule(body)


def declared_shape(node: Node) -> Shape | None:
    """The shape attribute of a Parameter, -1 for dimensions that are not known; None for an unknown rank.

    Raises:
        ModelError: it is none, or has too many dimensions.
    """
    text = node.text("shape", "").strip("[] ")
    if "..." in text:
        return None
    dims = [each.strip() for each in text.split(",") if each.strip()]
    if len(dims) > MOST_DIMENSIONS:
        raise node.error(f"shape: expected at most {MOST_DIMENSIONS} dimensions, found {len(dims)}")
    try:
        return tuple(-1 if "?" in dim or ".." in dim else max(int(dim), -1) for dim in dims)
    except ValueError:
        raise node.error(f"shape: expected dimensions, found {text!r}") from None


def output_port(layer: Layer) -> Port:
    """The port of a layer that has one output.

    Raises:
        ModelError: it has another number of outputs.
    """
    if len(layer.outputs) != 1:
        raise ModelError(f"{layer}: expected one output port, found {len(layer.outputs)}")
    return layer.outputs[0]


def _fed(layer: Layer, inputs: Sequence[Value | None]) -> Value:
    if len(inputs) != 1 or inputs[0] is None:
        raise ModelError(f"{layer}: expected an edge to one input port, found {len(inputs)} ports")
    return inputs[0]


def _declared(node: Node, value: Value, port: Port, position: int) -> Value:
    if value.data is not None or any(value is each for each in node.inputs) or not node.graph.owns(value):
        return value
    return node.graph.declare(value, _name(node.layer, port, position), port.shape)


def _name(layer: Layer, port: Port, position: int) -> str:
    return port.names[0] if port.names else layer.name if len(layer.outputs) == 1 else f"{layer.name}:{position}"


def _result_name(network: Network, number: int) -> str:
    layer = network.layers[number]
    edge = network.sources[number, layer.inputs[0].id]
    source = network.layers[edge.source]
    position, port = next((k, each) for k, each in enumerate(source.outputs) if each.id == edge.source_port)
    given = layer.element.get("output_names", "").split(",")[0].strip()
    return given if given and not port.names else _name(source, port, position)


def _unique(name: str, taken: Mapping[str, int]) -> str:
    found, count = name, 1
    while found in taken:
        found, count = f"{name}:{count}", count + 1
    return found
