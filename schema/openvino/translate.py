"""Turns the layers of a network into operators, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.runtime.errors import CircletError, ModelError, UnsupportedError
from circlet.runtime.ir.faults import FAULTS
from circlet.runtime.ir.op import ShapeError
from circlet.runtime.ir.types import DType, Shape
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.constants import read_constant
from circlet.schema.openvino.decompression import decompressing
from circlet.schema.openvino.rules import Node, Unit, find
from circlet.schema.openvino.variable import assign
from circlet.schema.openvino.xml import Layer, Network, Port

SHOWN = 20
"""How many refused layers a message names."""


class RefusedError(UnsupportedError):
    """Names everything in a file that circlet has no rule for."""


def parameter_type(unit: Unit, layer: Layer) -> tuple[DType, Shape | None]:
    """The element type and the shape that a Parameter declares."""
    node = Node(unit, unit.program.graphs[0], layer, ())
    return node.dtype("element_type"), node.dimensions("shape", "")


def convert(unit: Unit, network: Network, graph: Graph, parameters: Mapping[int, Value]) -> dict[int, Value]:
    """Adds the layers of a network to a graph.

    Args:
        unit: the file.
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
    decompresses = decompressing(network)
    read: dict[int, list[int]] = {}
    for edge in network.sources.values():
        read.setdefault(edge.source, []).append(edge.source_port)
    for layer in network.ordered():
        edges = [network.sources.get((layer.id, port.id)) for port in layer.inputs]
        missing = [each for each in edges if each is not None and (each.source, each.source_port) not in values]
        if missing and not unit.refused:
            raise ModelError(f"{layer}: {missing[0]}: expected an edge from an output that has a value")
        if missing:
            continue
        inputs = [None if each is None else values[each.source, each.source_port] for each in edges]
        if layer.type == "Parameter":
            values[layer.id, output_port(layer).id] = parameters[layer.id]
        elif layer.type == "Result":
            values[layer.id, -1] = _fed(layer, inputs)
        else:
            node = Node(unit, graph, layer, inputs, frozenset(read.get(layer.id, ())), layer.id in decompresses)
            node = node.in_float32() if node.decompresses else node
            if layer.type == "Assign":
                assignments.append(node)
            _apply(node, values)
    for node in assignments:
        assign(node)
    if unit.refused:
        raise RefusedError(listed(unit.refused))
    return {number: values[number, -1] for number, layer in network.layers.items() if layer.type == "Result"}


def _apply(node: Node, values: dict[tuple[int, int], Value]) -> None:
    layer = node.layer
    try:
        results = _results(node)
    except ShapeError as error:
        raise node.error(str(error)) from None
    except RefusedError:
        return
    except UnsupportedError as error:
        reason = str(error)
        node.unit.refused.append(reason if reason.startswith(f"{layer}: ") else f"{layer}: {reason}")
        return
    except CircletError:
        raise
    except FAULTS as error:
        shapes = [None if each is None else each.shape for each in node.inputs]
        raise node.error(f"attributes and inputs of shapes {shapes} do not fit the layer or each other") from error
    for position, port in enumerate(layer.outputs):
        if position < len(results):
            values[layer.id, port.id] = _declared(node, results[position], port, position)
        elif node.wants(position):
            node.unit.refused.append(f"{layer}: output {position} has no rule")


def _results(node: Node) -> Sequence[Value]:
    if node.layer.type == "Const":
        return (read_constant(node),)
    rule = find(node.layer)
    assert rule is not None, f"{node.layer} has no rule"
    if node.layer.type != "Convert":
        _refuse_narrow(node.layer, node.inputs)
    found = rule(node)
    return (found,) if isinstance(found, Value) else found


def listed(reasons: Sequence[str]) -> str:
    """What the error about refused layers says."""
    more = len(reasons) - SHOWN
    shown = [*reasons[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
    return f"expected layers that circlet has rules for, found {'; '.join(shown)}"


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
    _refuse_narrow(layer, inputs)
    return inputs[0]


def _refuse_narrow(layer: Layer, inputs: Sequence[Value | None]) -> None:
    """Raises UnsupportedError where an input is a constant that is held in a wider type than it has."""
    for position, each in enumerate(inputs):
        if each is not None and each.narrow is not None:
            raise UnsupportedError(f"{layer}: input {position} is {each.narrow.name}, which circlet does not compute "
                                   "with")


def _declared(node: Node, value: Value, port: Port, position: int) -> Value:
    if value.data is not None or any(value is each for each in node.inputs) or not node.graph.owns(value):
        return value
    return node.graph.declare(value, name_of(node.layer, port, position), port.shape or None)


def name_of(layer: Layer, port: Port, position: int) -> str:
    """What the value of an output is called: as its tensor, of whose names that of the layer is taken before others, or
    else as the layer."""
    if not port.names:
        return layer.name if len(layer.outputs) == 1 else f"{layer.name}:{position}"
    return layer.name if layer.name in port.names else port.names[0]
