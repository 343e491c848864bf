"""Reads OpenVINO IR: an `.xml` file of layers and a `.bin` file of their constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from circlet.runtime.ir.model import Model, Signature
from circlet.runtime.ops.loop_options import Overrun
from circlet.schema.importer.graph import Value
from circlet.schema.openvino import families as families
from circlet.schema.openvino.rules import Unit, find
from circlet.schema.openvino.translate import RefusedError, convert, listed, name_of, output_port, parameter_type
from circlet.schema.openvino.weights import Weights
from circlet.schema.openvino.xml import Network, parse


def read_model(data: memoryview, weights: Callable[[], memoryview], overrun: Overrun = Overrun.ERROR) -> Model:
    """The model that XML and weights hold.

    Args:
        data: the content of the `.xml` file.
        weights: gives the content of the `.bin` file; called when a constant needs it. Constants are views of it.
        overrun: what happens where a loop asks for a slice that leaves its axis.

    Raises:
        ModelError: the XML or the weights are malformed.
        UnsupportedError: there are layers that circlet has no rule for; the message lists them.
    """
    return _read_network(parse(bytes(data)), Unit(Weights(weights), overrun))


def _read_network(network: Network, unit: Unit) -> Model:
    """The model that a file holds.

    Raises:
        ModelError: the file is malformed.
        UnsupportedError: it holds layers that circlet has no rule for; the message lists them.
    """
    unknown = Counter(_kinds_without_rule(network))
    if unknown:
        raise RefusedError(listed([f"{kind} ({count})" for kind, count in sorted(unknown.items())]))
    graph = unit.program.graph(network.name or "main")
    names: dict[str, int] = {}
    values: dict[int, Value] = {}
    for layer in network.layers.values():
        if layer.type == "Parameter":
            value = values[layer.id] = graph.input(*parameter_type(unit, layer), name_of(layer, output_port(layer), 0))
            names[_unique(value.name, names)] = graph.tensor_index(value)
    results = convert(unit, network, graph, values)
    outputs: dict[str, int] = {}
    for number, value in results.items():
        graph.output(value)
        outputs[_unique(_result_name(network, number), outputs)] = graph.tensor_index(value)
    return Model(unit.program.subgraphs(), (Signature("main", 0, names, outputs),), format="openvino")


def _kinds_without_rule(network: Network) -> Iterator[str]:
    """Type and operator set of the layers without a rule, also of those in bodies."""
    for layer in network.layers.values():
        if layer.type not in ("Parameter", "Result", "Const") and find(layer) is None:
            yield f"{layer.type} of {layer.version or 'no operator set'}"
        for body in layer.bodies.values():
            yield from _kinds_without_rule(body)


def _result_name(network: Network, number: int) -> str:
    layer = network.layers[number]
    edge = network.sources[number, layer.inputs[0].id]
    source = network.layers[edge.source]
    position, port = next((k, each) for k, each in enumerate(source.outputs) if each.id == edge.source_port)
    given = layer.element.get("output_names", "").split(",")[0].strip()
    return given if given and (given in port.names or not port.names) else name_of(source, port, position)


def _unique(name: str, taken: Mapping[str, int]) -> str:
    found, count = name, 1
    while found in taken:
        found, count = f"{name}:{count}", count + 1
    return found
