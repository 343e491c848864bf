"""Port maps and back edges: what connects the network in a layer with the layer."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from circlet.runtime.errors import ModelError
from circlet.runtime.records import dataclass, field
from circlet.schema.openvino.xml import Layer, Network, integer

UNCONNECTED = -1
"""The external id of what is no port of the layer."""


@dataclass(frozen=True)
class Span:
    """How an axis is cut into slices, or joined from them; as the file says it."""

    axis: int
    start: int = 0
    end: int = -1
    stride: int = 1
    part: int = 1


@dataclass(frozen=True)
class PortEntry:
    """A Parameter or Result of the network and the port of the layer that it stands for."""

    external: int
    internal: int
    purpose: str = ""
    span: Span | None = None
    """None where the value passes whole."""


@dataclass(frozen=True)
class PortMap:
    """The entries of a port map, and the Parameters that Results feed in the next iteration."""

    inputs: tuple[PortEntry, ...]
    outputs: tuple[PortEntry, ...]
    back_edges: Mapping[int, int] = field(default_factory=dict)
    """By Parameter, the Result that feeds it."""


def read_port_map(layer: Layer, tag: str, network: Network) -> PortMap:
    """The port map and the back edges of a layer.

    Raises:
        ModelError: an entry names what is not in the network, or names something twice.
    """
    found = layer.element.find(tag)
    if found is None:
        raise ModelError(f"{layer}: expected <{tag}>, found none")
    inputs = tuple(_entry(each, layer, network, "Parameter") for each in found.findall("input"))
    outputs = tuple(_entry(each, layer, network, "Result") for each in found.findall("output"))
    named = [each.internal for each in inputs]
    if len(set(named)) != len(named):
        raise ModelError(f"{layer}, {tag}: expected each Parameter once, found {named}")
    return PortMap(inputs, outputs, _back_edges(layer, network))


def _entry(element: Element, layer: Layer, network: Network, kind: str) -> PortEntry:
    external, internal = (integer(element, name, layer.place) for name in ("external_port_id", "internal_layer_id"))
    _expect(network, internal, kind, layer, f"internal_layer_id of <{element.tag}>")
    span = None
    if element.get("axis") is not None:
        names = (("start", 0), ("end", -1), ("stride", 1), ("part_size", 1))
        span = Span(integer(element, "axis", layer.place),
                    *(integer(element, name, layer.place, default) for name, default in names))
    return PortEntry(external, internal, element.get("purpose", ""), span)


def _back_edges(layer: Layer, network: Network) -> dict[int, int]:
    found: dict[int, int] = {}
    for edge in layer.element.findall("back_edges/edge"):
        source, target = (integer(edge, name, layer.place) for name in ("from-layer", "to-layer"))
        _expect(network, source, "Result", layer, "from-layer of a back edge")
        _expect(network, target, "Parameter", layer, "to-layer of a back edge")
        if target in found:
            raise ModelError(f"{layer}: expected one back edge to Parameter {target}, found several")
        found[target] = source
    return found


def _expect(network: Network, number: int, kind: str, layer: Layer, what: str) -> None:
    found = network.layers.get(number)
    if found is None or found.type != kind:
        raise ModelError(f"{layer}, {what}: expected the id of a {kind} of the body, found {number}"
                         f"{f', a {found.type}' if found else ''}")
