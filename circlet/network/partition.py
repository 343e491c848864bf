"""Which layers belong to which branch or loop body, told by the data flow as TensorRT tells it.

A layer belongs to a conditional's branch if it depends on an input of the conditional and the branch's value depends
on it; to a loop if it depends on a recurrence or an iterator of the loop, and a next value, the condition or an output
depends on it. A construct one of whose outputs belongs to a region belongs there as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from circlet.network.check import check_members
from circlet.network.graph import Graph
from circlet.network.layer import Constant, Exit, Layer, Region
from circlet.network.tensor import Tensor
from circlet.runtime.errors import ModelError


@dataclass(frozen=True)
class Partition:
    """The layers that outputs depend on, and where each belongs."""

    order: tuple[Layer, ...]
    """Each after all that it depends on."""
    members: Mapping[Region, frozenset[int]]
    """The numbers of the layers in each region, those in regions within it included."""
    homes: Mapping[int, Region | None]
    """The innermost region of each layer; None outside of all."""


def partition(graph: Graph, outputs: Sequence[Tensor]) -> Partition:
    """Sorts and places the layers of a network.

    Raises:
        ModelError: a construct lacks a part, constructs overlap without nesting, or a value crosses the border of one
            by another way than its inputs and outputs.
    """
    for construct in graph.constructs:
        construct.check()
    order = _sorted(outputs)
    own = dict(_own_members(order))
    members = {region: frozenset(_with_nested(region, own)) for region in own}
    check_members(order, members, outputs)
    regions = _regions_of(members)
    homes = {layer.number: _innermost(layer, regions.get(layer.number, ()), members) for layer in order}
    return Partition(tuple(order), members, homes)


def _sorted(outputs: Sequence[Tensor]) -> list[Layer]:
    """What outputs depend on, dependencies first; without recursion, since networks may be deep."""
    order: dict[int, Layer] = {}
    for output in outputs:
        path: dict[int, tuple[Layer, Iterator[Tensor]]] = {}
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


def _enter(layer: Layer, path: dict[int, tuple[Layer, Iterator[Tensor]]], order: Mapping[int, Layer]) -> None:
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


def _own_members(order: Sequence[Layer]) -> Iterator[tuple[Region, frozenset[int]]]:
    """For each region the layers that belong to it by themselves."""
    users: dict[int, list[int]] = {layer.number: [] for layer in order}
    used = {layer.number: [each.layer.number for each in layer.dependencies] for layer in order}
    for number, sources in used.items():
        for source in sources:
            users[source].append(number)
    constants = {layer.number for layer in order if isinstance(layer, Constant)}
    for construct in dict.fromkeys(layer.construct for layer in order if isinstance(layer, Exit)):
        for region in construct.regions:
            if construct.traced:
                found = {layer.number for layer in order
                         if layer.region is not None and region in layer.region.chain()}
            else:
                live = [layer.number for layer in construct.entries if layer.number in used]
                found = _reachable(live, users) & _reachable(
                    (each.layer.number for each in construct.tails(region)), used)
            yield region, frozenset(found - constants)


def _reachable(starts: Iterable[int], edges: Mapping[int, Sequence[int]]) -> set[int]:
    found: set[int] = set()
    pending = list(starts)
    while pending:
        number = pending.pop()
        if number not in found:
            found.add(number)
            pending.extend(edges[number])
    return found


def _with_nested(region: Region, own: Mapping[Region, frozenset[int]]) -> set[int]:
    """The members of a region and of all constructs one of whose outputs is a member."""
    members = set(own[region])
    pending = list(dict.fromkeys(each.construct for each in own if each.construct is not region.construct))
    grown = True
    while grown:
        grown = False
        for construct in pending[:]:
            exits = {layer.number for layer in construct.exits}
            if exits & members:
                pending.remove(construct)
                members.update(exits, *(own[inner] for inner in construct.regions))
                grown = True
    return members


def _regions_of(members: Mapping[Region, frozenset[int]]) -> dict[int, list[Region]]:
    regions: dict[int, list[Region]] = {}
    for region, numbers in members.items():
        for number in numbers:
            regions.setdefault(number, []).append(region)
    return regions


def _innermost(layer: Layer, regions: Sequence[Region], members: Mapping[Region, frozenset[int]]) -> Region | None:
    """The region that holds no other of the regions of a layer."""
    if isinstance(layer, Exit):
        exits = [each.number for each in layer.construct.exits]
        regions = [region for region, numbers in members.items() if not numbers.isdisjoint(exits)]
    return min(regions, key=lambda region: len(members[region]), default=None)


