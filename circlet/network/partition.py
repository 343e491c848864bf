"""Which layers belong to which branch or loop body, told by the data flow as TensorRT tells it.

A layer belongs to a conditional's branch if it depends on an input of the conditional and the branch's value depends
on it; to a loop if it depends on a recurrence or an iterator of the loop, and a next value, the condition or an output
depends on it. A construct one of whose outputs belongs to a region belongs there as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from circlet.network.check import check_places
from circlet.network.graph import Graph
from circlet.network.layer import Constant, Construct, Exit, Layer, Region, Result
from circlet.network.places import Places
from circlet.runtime.errors import ModelError


@dataclass(frozen=True)
class Partition:
    """The layers that outputs depend on, and where each belongs."""

    layers: Mapping[Region | None, Sequence[Layer]]
    """Those of which a region is the innermost one, and those outside of all; each after what it depends on."""
    members: Mapping[Region, frozenset[int]]
    """The numbers of the layers in each region, those in regions within it included."""
    live: frozenset[int]
    """The numbers of all layers."""


def partition(graph: Graph, outputs: Sequence[Result]) -> Partition:
    """Sorts and places the layers of a network.

    Raises:
        ModelError: a construct lacks a part, constructs overlap without nesting, or a value crosses the border of one
            by another way than its inputs and outputs.
    """
    for construct in graph.constructs:
        construct.check()
    order = _sorted(outputs)
    constructs = list(dict.fromkeys(layer.construct for layer in order if isinstance(layer, Exit)))
    own = _own_members(order, constructs)
    exits = {layer.number: construct for construct in constructs for layer in construct.exits}
    members = {region: frozenset(_with_nested(region, own, exits)) for region in own}
    places = Places(members)
    check_places(order, places, outputs)
    layers: dict[Region | None, list[Layer]] = {}
    for layer in order:
        layers.setdefault(places.innermost(layer), []).append(layer)
    return Partition(layers, members, frozenset(layer.number for layer in order))


def _sorted(outputs: Sequence[Result]) -> list[Layer]:
    """What outputs depend on, dependencies first; without recursion, since networks may be deep."""
    order: dict[int, Layer] = {}
    for output in outputs:
        path: dict[int, tuple[Layer, Iterator[Result]]] = {}
        _enter(output.layer, path, order)
        while path:
            layer, rest = next(reversed(path.values()))
            following = next(rest, None)
            if following is not None:
                _enter(following.layer, path, order)
            else:
                del path[layer.number]
                order[layer.number] = layer
    return list(order.values())


def _enter(layer: Layer, path: dict[int, tuple[Layer, Iterator[Result]]], order: Mapping[int, Layer]) -> None:
    if layer.number in path:
        raise ModelError(_cycle_text([each for each, _ in path.values()], layer))
    if layer.number not in order:
        path[layer.number] = (layer, iter(layer.dependencies))


def _cycle_text(path: Sequence[Layer], again: Layer) -> str:
    cycle = path[path.index(again):]
    place = next((k for k, layer in enumerate(cycle) if isinstance(layer, Exit)), 0)
    cycle = [*cycle[place:], *cycle[:place]]
    hint = f"; what {cycle[0].construct.name} gives cannot be used within it" if isinstance(cycle[0], Exit) else ""
    names = [layer.name for layer in (*cycle, cycle[0])]
    return f"{names[0]}: expected a layer that does not depend on itself, found {' <- '.join(names)}{hint}"


def _own_members(order: Sequence[Layer], constructs: Sequence[Construct]) -> dict[Region, set[int]]:
    """For each region the layers that belong to it by themselves."""
    members: dict[Region, set[int]] = {region: set() for construct in constructs for region in construct.regions}
    for layer in order:
        if layer.region is not None and not isinstance(layer, Constant):
            for region in layer.region.chain():
                members.setdefault(region, set()).add(layer.number)
    flow = _Flow(order)
    for construct in constructs:
        if not construct.traced:
            entries = [layer.number for layer in construct.entries]
            for region in construct.regions:
                members[region] |= flow.between(entries, [each.layer.number for each in construct.tails(region)])
    return members


class _Flow:
    """Which layers use which."""

    def __init__(self, order: Sequence[Layer]) -> None:
        self._place = {layer.number: place for place, layer in enumerate(order)}
        self._used = {layer.number: [each.layer.number for each in layer.dependencies] for layer in order}
        self._users: dict[int, list[int]] = {number: [] for number in self._used}
        for number, sources in self._used.items():
            for source in sources:
                self._users[source].append(number)

    def between(self, starts: Sequence[int], ends: Sequence[int]) -> set[int]:
        """The layers that depend on one of `starts` and on which one of `ends` depends, these included."""
        first = min((self._place[number] for number in starts if number in self._place), default=len(self._place))
        last = max((self._place[number] for number in ends), default=-1)
        window = range(first, last + 1)
        return self._reach(starts, self._users, window) & self._reach(ends, self._used, window)

    def _reach(self, starts: Iterable[int], edges: Mapping[int, Sequence[int]], window: range) -> set[int]:
        """What can be reached without leaving a window of the order."""
        found: set[int] = set()
        pending = list(starts)
        while pending:
            number = pending.pop()
            if number not in found and self._place.get(number, -1) in window:
                found.add(number)
                pending.extend(edges[number])
        return found


def _with_nested(region: Region, own: Mapping[Region, set[int]], exits: Mapping[int, Construct]) -> set[int]:
    """The members of a region and of all constructs one of whose outputs is a member."""
    members: set[int] = set()
    pending = [own[region]]
    while pending:
        found = pending.pop() - members
        members |= found
        for construct in {exits[number] for number in found if number in exits}:
            pending.append({layer.number for layer in construct.exits})
            pending.extend(own[inner] for inner in construct.regions)
    return members
