"""Lists of rows that a loop fills, as converters of TensorFlow spell them.

What a loop carries begins with rows of one element each. A turn broadcasts it to rows as large as what it has, of which
it sets one, so that its shape changes in the first turn. Where turn after turn sets the next row, the rows are what the
loop joins; of a list of one row it is the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from circlet.runtime.ir.types import Array
from circlet.runtime.ops.elements import ScatterSlices
from circlet.runtime.records import dataclass, replace
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.openvino.ports import PortMap, Span
from circlet.schema.openvino.xml import Edge, Network


@dataclass(frozen=True)
class RowList:
    """A carried value that is such a list."""

    parameter: int
    result: int
    row: Edge
    """From what is set as a row, (1, ...)."""
    index: int | None
    """The Parameter that says which row; None where there is one alone."""
    steps: frozenset[int]
    """The layers that only the list needs."""


class Finder:
    """Looks for lists in the body of a loop."""

    def __init__(self, network: Network, ports: PortMap, known: Callable[[int], Array | None]) -> None:
        """
        Args:
            network: the body.
            ports: what connects it with the loop.
            known: the value of a layer that is a constant.
        """
        self._network, self._ports, self._known = network, ports, known
        self._users = defaultdict[int, set[int]](set)
        for (layer, _), edge in network.sources.items():
            self._users[edge.source].add(layer)

    def lists(self) -> list[RowList]:
        """All of them."""
        found = (self._list(*each) for each in self._ports.back_edges.items())
        return [each for each in found if each is not None]

    def _edges(self, layer: int, kind: str, count: int) -> Sequence[Edge] | None:
        """What feeds a layer of a type, which has so many inputs at least."""
        found = self._network.layers[layer]
        edges = [self._network.sources.get((layer, port.id)) for port in found.inputs]
        given = [each for each in edges if each is not None]
        return given if found.type == kind and len(given) == len(edges) >= count else None

    def _list(self, parameter: int, result: int) -> RowList | None:
        outputs = [each for each in self._ports.outputs if each.internal == result]
        (source,) = self._edges(result, "Result", 1) or (None,)
        scatter = None if source is None else self._edges(source.source, "ScatterUpdate", 4)
        if source is None or scatter is None or len(outputs) > 1 or any(each.span for each in outputs):
            return None
        data, place, row, axis = scatter
        steps = self._spread(data.source, parameter, {source.source: {result}})
        rows, port = self._shape(row), self._known(axis.source)
        if steps is None or rows[:1] != (1,) or port is None or port.reshape(-1).tolist() != [0]:
            return None
        if self._network.layers[parameter].outputs[0].shape[:1] == (1,) and self._known(place.source) is not None:
            return RowList(parameter, result, row, None, steps)
        index = self._counter(place.source)
        return None if index is None else RowList(parameter, result, row, index, steps)

    def _shape(self, edge: Edge) -> tuple[int, ...]:
        ports = self._network.layers[edge.source].outputs
        return next((port.shape for port in ports if port.id == edge.source_port), ())

    def _spread(self, spread: int, parameter: int, users: dict[int, set[int]]) -> frozenset[int] | None:
        """The layers from a list to where it is broadcast to the rows that it has, if nothing else needs them; what
        needs some is given already."""
        (scatter,) = users
        given = self._edges(spread, "Broadcast", 2)
        joined = None if given is None else self._edges(given[1].source, "Concat", 2)
        count = None if joined is None else self._count(joined[0].source)
        shape = None if count is None else self._edges(count[0].source, "ShapeOf", 1)
        if not given or not joined or not count or not shape or {given[0].source, shape[0].source} != {parameter}:
            return None
        if self._network.layers[spread].attributes.get("mode") != "numpy":
            return None
        chain = [count[0].source, joined[0].source, given[1].source, spread, scatter]
        users |= {parameter: {chain[0], spread}} | {one: {other} for one, other in pairwise(chain)}
        return frozenset(users) if all(self._users[each] == wanted for each, wanted in users.items()) else None

    def _count(self, layer: int) -> Sequence[Edge] | None:
        """What feeds a layer that takes the first dimension of a shape, as a vector."""
        for kind, wanted in (("Gather", ([0], 0)), ("Slice", ([0], [1], [1], [0]))):
            edges = self._edges(layer, kind, len(wanted) + 1)
            given = None if edges is None else [self._known(each.source) for each in edges[1:]]
            if given is not None and [each if each is None else each.tolist() for each in given] == [*wanted]:
                return edges
        return None

    def _counter(self, place: int) -> int | None:
        """The Parameter that is an index of one element, and one more in each turn."""
        shaped = self._edges(place, "Reshape", 2)
        number = None if shaped is None else shaped[0].source
        result = None if number is None else self._ports.back_edges.get(number)
        next_ = None if result is None else self._edges(result, "Result", 1)
        added = None if next_ is None else self._edges(next_[0].source, "Add", 2)
        if added is None or added[0].source != number:
            return None
        step = self._known(added[1].source)
        return number if step is not None and step.reshape(-1).tolist() == [1] else None


def without(network: Network, ports: PortMap, lists: Sequence[RowList]) -> tuple[Network, PortMap]:
    """A body that gives rows instead of lists, and what connects it with the loop."""
    gone = frozenset[int]().union(*(each.steps for each in lists))
    rows: Mapping[int, Edge] = {each.result: each.row for each in lists}
    counted = {each.result for each in lists if each.index is not None}
    sources = {place: replace(edge, source=rows[place[0]].source, source_port=rows[place[0]].source_port)
               if place[0] in rows else edge for place, edge in network.sources.items() if place[0] not in gone}
    layers = {number: layer for number, layer in network.layers.items() if number not in gone}
    return replace(network, layers=layers, sources=sources), replace(
        ports, inputs=tuple(each for each in ports.inputs if each.internal not in gone),
        outputs=tuple(replace(each, span=Span(0)) if each.internal in counted else each for each in ports.outputs),
        back_edges={one: other for one, other in ports.back_edges.items() if one not in gone})


def completed(g: Graph, rows: Value, first: Value) -> Value:
    """The rows that a loop joined, over those of the list it began with, of which there may be more."""
    rank = c.rank_of(first)
    shape = c.concatenate(g, [c.dimension(g, first, 0), c.dims(g, rows, 1, rank)])
    places = c.unsqueeze(g, c.counted(g, c.reshape(g, c.dimension(g, rows, 0), [])), [-1])
    return g.apply(ScatterSlices(), c.broadcast_to(g, first, shape), places, rows)


def is_zero(value: Value) -> bool:
    """Whether a counter begins with the first row, or a list with zeros, as a loop gives that makes no turn."""
    return value.data is not None and not np.any(value.data)
