"""Places the operators of a subgraph on a plane, in layers from top to bottom.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures" (1981): layers by
the longest path, their order by barycentres, positions by least squares. Lines that pass a layer have a place in it, so
that boxes make way for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Protocol

from circlet.runtime.ir.op import Skip
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.records import dataclass

LINE_WIDTH = 10.0
GAP = 24.0
PITCH = 92.0
"""From layer to layer; with the others in pixels at the size at which text is read well."""
BOX_HEIGHT = 44.0
SWEEPS = 4
"""Passes down and up again over the layers; more seldom change a picture."""
VISITS = 40_000
"""Vertices that passes down or up may visit, all in all, which takes 0.3 s where there are 10 000 operators."""
BENDS, MOST_BENDS = 4, 20_000
"""Lines have at most so many bends for each box, and so many, all in all; the longest of them go straight beyond
that."""


class Node(Protocol):
    """An operator, as far as it is drawn."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[int]: ...
    @property
    def outputs(self) -> Sequence[int]: ...


class Graph(Protocol):
    """A subgraph, as far as it is drawn."""

    @property
    def tensors(self) -> Sequence[Tensor]: ...
    @property
    def inputs(self) -> Sequence[int]: ...
    @property
    def outputs(self) -> Sequence[int]: ...
    @property
    def operators(self) -> Sequence[Node]: ...


@dataclass(frozen=True)
class Box:
    """An operator, or an input or output of the subgraph."""

    kind: str
    """`operator`, `input` or `output`."""
    index: int
    """Of the operator, or of the tensor."""
    title: str
    subtitle: str
    x: float
    """Of its centre, as y."""
    y: float
    width: float


@dataclass(frozen=True)
class Line:
    """A value that goes from one box to another."""

    source: int
    """Index of the box that gives it."""
    target: int
    tensor: int
    bends: tuple[tuple[float, float], ...]
    """Where it passes the layers between the two."""


@dataclass(frozen=True)
class Drawing:
    """Boxes and the lines between them, within (0, 0) and (width, height)."""

    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    width: float
    height: float


@dataclass(frozen=True)
class _Edge:
    source: int
    target: int
    tensor: int


def draw(subgraph: Graph, labels: Mapping[int, str] | None = None, names: Mapping[int, str] | None = None) -> Drawing:
    """A drawing of a subgraph, which may be malformed: what an operator reads before it is written has no line. What
    passes left at the places of operators that they took away is not drawn.

    Args:
        subgraph: what is drawn.
        labels: by operator; what needs room beside its title.
        names: of operators that are called otherwise than the graph says.
    """
    boxes = list(_boxes(subgraph, labels or {}, names or {}))
    edges = _edges(subgraph)
    layers = _layers(len(boxes), edges)
    wires = _Wires(layers, edges)
    sweeps = max(1, min(SWEEPS, VISITS // max(len(wires.layers), 1)))
    order = _ordered(wires, sweeps)
    widths = [each.width for each in boxes] + [LINE_WIDTH] * (len(wires.layers) - len(boxes))
    places = _places(order, wires, widths, sweeps)
    left = min((x - width / 2 for x, width in zip(places, widths, strict=True)), default=0.0)
    points = [(round(x - left, 1), layer * PITCH + BOX_HEIGHT / 2)
              for x, layer in zip(places, wires.layers, strict=True)]
    placed = tuple(Box(each.kind, each.index, each.title, each.subtitle, *point, each.width)
                   for each, point in zip(boxes, points, strict=False))
    lines = tuple(Line(each.source, each.target, each.tensor, tuple(points[k] for k in wires.passed(each)))
                  for each in edges)
    right = max((x + width / 2 for (x, _), width in zip(points, widths, strict=True)), default=0.0)
    return Drawing(placed, lines, right, max((y for _, y in points), default=0.0) + BOX_HEIGHT / 2)


def _boxes(subgraph: Graph, labels: Mapping[int, str], names: Mapping[int, str]) -> Iterator[Box]:
    for tensor in subgraph.inputs:
        yield _box("input", tensor, *_texts(subgraph, tensor))
    for number, operator in _operators(subgraph):
        yield _box("operator", number, names.get(number, operator.name), _type_text(subgraph, operator.outputs),
                   labels.get(number, ""))
    for tensor in subgraph.outputs:
        yield _box("output", tensor, *_texts(subgraph, tensor))


def _operators(subgraph: Graph) -> Iterator[tuple[int, Node]]:
    """Those that are drawn, with their places."""
    return ((number, each) for number, each in enumerate(subgraph.operators) if each.name != Skip.name)


def _box(kind: str, index: int, title: str, subtitle: str, label: str = "") -> Box:
    width = min(max(8.8 * (len(title) + len(label)), 6.6 * len(subtitle)) + 32.0, 240.0)
    return Box(kind, index, title, subtitle, 0.0, 0.0, max(width, 84.0))


def _texts(subgraph: Graph, tensor: int) -> tuple[str, str]:
    if not 0 <= tensor < len(subgraph.tensors):
        return f"%{tensor}", "undeclared"
    return subgraph.tensors[tensor].name or f"%{tensor}", subgraph.tensors[tensor].type_text


def _type_text(subgraph: Graph, outputs: Sequence[int]) -> str:
    texts = [subgraph.tensors[each].type_text for each in outputs[:1] if 0 <= each < len(subgraph.tensors)]
    return "".join(texts) + (f" +{len(outputs) - 1}" if len(outputs) > 1 else "")


def _edges(subgraph: Graph) -> list[_Edge]:
    """One for each value that a box has from another, from lower to higher boxes."""
    givers = {tensor: number for number, tensor in enumerate(subgraph.inputs)}
    found: dict[tuple[int, int], _Edge] = {}
    first = len(subgraph.inputs)
    drawn = list(_operators(subgraph))
    for number, (_, operator) in enumerate(drawn, first):
        for tensor in operator.inputs:
            if tensor in givers:
                found.setdefault((tensor, number), _Edge(givers[tensor], number, tensor))
        givers.update(dict.fromkeys(operator.outputs, number))
    for number, tensor in enumerate(subgraph.outputs, first + len(drawn)):
        if tensor in givers:
            found[tensor, number] = _Edge(givers[tensor], number, tensor)
    return list(found.values())


def _layers(count: int, edges: Sequence[_Edge]) -> list[int]:
    """By box: below all that it has values of; what has none lies just above its first reader."""
    found = [0] * count
    readers: dict[int, list[int]] = {}
    has_source = [False] * count
    for edge in edges:
        found[edge.target] = max(found[edge.target], found[edge.source] + 1)
        has_source[edge.target] = True
        readers.setdefault(edge.source, []).append(edge.target)
    for box, targets in readers.items():
        if not has_source[box]:
            found[box] = min(found[each] for each in targets) - 1
    return found


class _Wires:
    """Boxes, and a vertex in each layer that a value passes; neighbours are in layers beside each other."""

    def __init__(self, layers: Sequence[int], edges: Sequence[_Edge]) -> None:
        self.layers = list(layers)
        """By vertex; boxes come first."""
        self.above: dict[int, list[int]] = {}
        self.below: dict[int, list[int]] = {}
        self._chains: dict[tuple[int, int], tuple[int, ...]] = {}
        ends: dict[tuple[int, int], int] = {}
        for edge in edges:
            key = edge.source, edge.tensor
            ends[key] = max(ends.get(key, 0), layers[edge.target])
        left = min(BENDS * len(layers), MOST_BENDS)
        for key, end in sorted(ends.items(), key=lambda each: each[1] - layers[each[0][0]]):
            length = max(end - layers[key[0]] - 1, 0)
            left -= length
            if left >= 0:
                self._chains[key] = self._chain(key[0], layers[key[0]] + 1, length)
        for edge in edges:
            found = self._chains.get((edge.source, edge.tensor))
            if found is not None:
                passed = self.passed(edge)
                self._join(passed[-1] if passed else edge.source, edge.target)

    def _chain(self, source: int, layer: int, length: int) -> tuple[int, ...]:
        first = len(self.layers)
        self.layers.extend(range(layer, layer + length))
        chain = range(first, first + length)
        for one, other in pairwise((source, *chain)):
            self._join(one, other)
        return tuple(chain)

    def _join(self, one: int, other: int) -> None:
        self.below.setdefault(one, []).append(other)
        self.above.setdefault(other, []).append(one)

    def passed(self, edge: _Edge) -> tuple[int, ...]:
        """The vertices between the two ends of an edge."""
        chain = self._chains.get((edge.source, edge.tensor), ())
        return chain[:max(self.layers[edge.target] - self.layers[edge.source] - 1, 0)]


def _ordered(wires: _Wires, sweeps: int) -> list[list[int]]:
    """The vertices of each layer from left to right."""
    order: list[list[int]] = [[] for _ in range(max(wires.layers, default=-1) + 1)]
    for vertex, layer in enumerate(wires.layers):
        order[layer].append(vertex)
    ranks: dict[int, float] = {}
    for row in order:
        _rank(row, ranks)
    for _ in range(sweeps):
        for sweep, neighbours in ((order, wires.above), (order[::-1], wires.below)):
            for row in sweep:
                if len(row) > 1:
                    means = _means(row, neighbours, ranks)
                    row.sort(key=means.__getitem__)
                    _rank(row, ranks)
    return order


def _rank(layer: Sequence[int], ranks: dict[int, float]) -> None:
    """Where vertices are in their layer, from -1/2 to 1/2."""
    for place, vertex in enumerate(layer):
        ranks[vertex] = (place + 0.5) / len(layer) - 0.5


def _means(layer: Iterable[int], neighbours: Mapping[int, Sequence[int]], at: Mapping[int, float]) -> dict[int, float]:
    """The mean place of the neighbours of each vertex; its own where it has none."""
    found = {}
    for vertex in layer:
        others = neighbours.get(vertex)
        if others is None:
            found[vertex] = at[vertex]
        else:
            found[vertex] = sum([at[each] for each in others]) / len(others) if len(others) > 1 else at[others[0]]
    return found


def _places(order: Sequence[Sequence[int]], wires: _Wires, widths: Sequence[float], sweeps: int) -> list[float]:
    """The x of each vertex: near its neighbours, and beside those of its layer."""
    offsets = [_offsets(layer, widths) for layer in order]
    at = dict[int, float]()
    for layer, steps in zip(order, offsets, strict=True):
        at.update((vertex, step - steps[-1] / 2) for vertex, step in zip(layer, steps, strict=True))
    rows = list(zip(order, offsets, strict=True))
    for _ in range(sweeps):
        for sweep, neighbours in ((rows, wires.above), (rows[::-1], wires.below)):
            for layer, steps in sweep:
                means = _means(layer, neighbours, at)
                wanted = [means[vertex] - step for vertex, step in zip(layer, steps, strict=True)]
                at.update((vertex, x + step)
                          for vertex, step, x in zip(layer, steps, _rising(wanted), strict=True))
    return [at[vertex] for vertex in range(len(wires.layers))]


def _offsets(layer: Sequence[int], widths: Sequence[float]) -> list[float]:
    """How far each centre is from the first one where boxes stand as close as they may."""
    return list(accumulate(((widths[one] + widths[other]) / 2 + GAP for one, other in pairwise(layer)), initial=0.0))


def _rising(wanted: Sequence[float]) -> list[float]:
    """The numbers that never fall and are nearest to others in the sum of squares (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for number in wanted:
        total, count = number, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            last = pools.pop()
            total, count = total + last[0], count + last[1]
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]
