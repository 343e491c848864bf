"""The XML of OpenVINO IR: networks of layers with numbered ports, joined by edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import Shape
from circlet.runtime.records import dataclass, field

BODIES = ("body", "then_body", "else_body")
"""The elements of a layer that hold networks."""
MOST = 1 << 62
"""What integers are below, and their opposites."""
MOST_NESTED = 64
"""How deeply networks may lie in layers of networks."""


@dataclass(frozen=True)
class Port:
    """An output or input of a layer."""

    id: int
    shape: Shape
    """The declared shape, -1 where a dimension is not known; () for a scalar and where not even the rank is."""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Edge:
    """From an output port of a layer to an input port of another."""

    source: int
    source_port: int
    target: int
    target_port: int

    def __str__(self) -> str:
        return f"edge from layer {self.source}, port {self.source_port} to layer {self.target}, port {self.target_port}"


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer as the file has it."""

    place: str
    """The layer and those around it, as messages name it."""
    id: int
    name: str
    type: str
    version: str
    """The operator set, `opset8`; empty where the file does not say."""
    attributes: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    element: Element
    bodies: Mapping[str, Network] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.place


@dataclass(frozen=True, eq=False)
class Network:
    """Layers and what feeds them."""

    name: str
    place: str
    """The layers around the network, for messages; empty for the outermost."""
    layers: Mapping[int, Layer]
    """By id, in the order of the file."""
    sources: Mapping[tuple[int, int], Edge]
    """By layer and input port."""

    def ordered(self) -> list[Layer]:
        """The layers, each behind those that feed it, otherwise in the order of the file.

        Raises:
            ModelError: they feed each other in a cycle.
        """
        order: list[Layer] = []
        finished: set[int] = set()
        for root in self.layers:
            if root not in finished:
                self._visit(root, finished, order)
        return order

    def _visit(self, root: int, finished: set[int], order: list[Layer]) -> None:
        path = {root: self._feeders(root)}
        while path:
            current = next(reversed(path))
            feeder = next(path[current], None)
            if feeder is None:
                del path[current]
                finished.add(current)
                order.append(self.layers[current])
            elif feeder in path:
                raise ModelError(f"{self.layers[feeder]}: expected layers that do not feed each other in a cycle")
            elif feeder not in finished:
                path[feeder] = self._feeders(feeder)

    def _feeders(self, layer: int) -> Iterator[int]:
        for port in self.layers[layer].inputs:
            edge = self.sources.get((layer, port.id))
            if edge is not None:
                yield edge.source


class _Builder(TreeBuilder):
    """Takes no document type, and so no entities that grow when they are replaced."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ModelError(f"expected XML without a document type, found <!DOCTYPE {name}>")


def parse(content: bytes) -> Network:
    """The outermost network of a file.

    Raises:
        ModelError: it is not XML, not a network, or layers, ports and edges do not fit each other.
    """
    parser = XMLParser(target=_Builder())
    try:
        parser.feed(content)
        root = parser.close()
    except (ParseError, LookupError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        # Of encodings that Python does not have, or cannot be read byte by byte, the parser says so in other errors.
        raise ModelError(f"expected XML, found a mistake in it: {error}") from None
    if root.tag != "net":
        raise ModelError(f"expected OpenVINO IR, that is an element <net>, found <{root.tag}>")
    version = root.get("version", "11")
    if version not in ("10", "11"):
        raise ModelError(f"expected version 10 or 11 of OpenVINO IR, found {version!r}")
    return _network(root, root.get("name", ""), "", 0)


def integer(element: Element, name: str, place: str, default: int | None = None) -> int:
    """An integer attribute.

    Raises:
        ModelError: it is missing and has no default, or is something else.
    """
    text = element.get(name)
    if text is None:
        if default is None:
            raise ModelError(f"{place}: expected attribute {name} of <{element.tag}>, found none")
        return default
    try:
        found = int(text)
    except ValueError:
        found = MOST
    if abs(found) >= MOST:
        raise ModelError(f"{place}: expected an integer as {name} of <{element.tag}>, found {text!r}")
    return found


def _network(element: Element, name: str, place: str, depth: int) -> Network:
    if depth > MOST_NESTED:
        raise ModelError(f"expected at most {MOST_NESTED} networks inside each other, found more")
    where = place or "the network"
    layers: dict[int, Layer] = {}
    for each in _children(element, "layers", "layer", where):
        layer = _layer(each, place, depth)
        if layer.id in layers:
            raise ModelError(f"{layer}: expected an id that no other layer of the network has, found it twice")
        layers[layer.id] = layer
    edges = [_edge(each, where) for each in element.findall("edges/edge")]
    return Network(name, place, layers, _sources(layers, edges, where))


def _children(element: Element, group: str, tag: str, where: str) -> Sequence[Element]:
    found = element.find(group)
    if found is None:
        raise ModelError(f"{where}: expected <{group}> in <{element.tag}>, found none")
    return found.findall(tag)


def _layer(element: Element, around: str, depth: int) -> Layer:
    name, kind = element.get("name", ""), element.get("type")
    number = integer(element, "id", f"{around or 'the network'}, layer {name!r}")
    place = f"{around}{', ' if around else ''}layer {number} ({name!r}, {kind})"
    if kind is None:
        raise ModelError(f"{place}: expected a type, found none")
    data = element.find("data")
    bodies = {tag: _network(body, f"{name}/{tag}", f"{place}, {tag}", depth + 1)
              for tag in BODIES if (body := element.find(tag)) is not None}
    return Layer(place, number, name, kind, element.get("version", ""), {} if data is None else data.attrib,
                 _ports(element, "input", place), _ports(element, "output", place), element, bodies)


def _ports(element: Element, group: str, place: str) -> tuple[Port, ...]:
    ports = [_port(each, place) for each in element.findall(f"{group}/port")]
    if len({port.id for port in ports}) != len(ports):
        raise ModelError(f"{place}: expected {group} ports with different ids, found {[port.id for port in ports]}")
    return tuple(ports)


def _port(element: Element, place: str) -> Port:
    number = integer(element, "id", place)
    where = f"{place}, port {number}"
    dims = [each.text or "" for each in element.findall("dim")]
    try:
        shape = tuple(max(int(dim), -1) for dim in dims)
    except ValueError:
        raise ModelError(f"{where}: expected dimensions, found {dims}") from None
    return Port(number, shape, tuple(_names(element.get("names", ""))))


def _names(text: str) -> Iterator[str]:
    """Names separated by commas; a comma inside a name has a backslash before it."""
    for name in text.replace("\\,", "\0").split(","):
        if name.strip():
            yield name.strip().replace("\0", ",")


def _edge(element: Element, where: str) -> Edge:
    return Edge(*(integer(element, name, where) for name in ("from-layer", "from-port", "to-layer", "to-port")))


def _sources(layers: Mapping[int, Layer], edges: Sequence[Edge], where: str) -> dict[tuple[int, int], Edge]:
    outputs = {number: {port.id for port in layer.outputs} for number, layer in layers.items()}
    inputs = {number: {port.id for port in layer.inputs} for number, layer in layers.items()}
    found: dict[tuple[int, int], Edge] = {}
    for edge in edges:
        for what, layer, port, ports in (("from", edge.source, edge.source_port, outputs),
                                         ("to", edge.target, edge.target_port, inputs)):
            if layer not in ports:
                raise ModelError(f"{where}, {edge}: expected an edge {what} a layer of the network, found none with "
                                 f"id {layer}")
            if port not in ports[layer]:
                raise ModelError(f"{layers[layer]}: {edge}: expected one of the ports {sorted(ports[layer])}, "
                                 f"found {port}")
        if (edge.target, edge.target_port) in found:
            raise ModelError(f"{layers[edge.target]}: expected one edge to port {edge.target_port}, found several")
        found[edge.target, edge.target_port] = edge
    return found
