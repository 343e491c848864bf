"""The order of a graph's nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any


def in_order(nodes: Iterable[Any]) -> Iterable[tuple[int, Any]]:
    """Nodes with their numbers, those that define what others read before these, else as they are.

    Tools write models whose nodes are in another order, though the specification asks for this one, and other runtimes
    run them. Nodes that need each other stay in their order at the end, so that what reads one of them is refused.
    """
    found = list(nodes)
    makers = {name: number for number, proto in enumerate(found) for name in proto.output if name}
    needed = [{makers.get(name, number) for name in _read(proto)} - {number} for number, proto in enumerate(found)]
    if all(max(each, default=-1) < number for number, each in enumerate(needed)):
        return enumerate(found)
    return [(number, found[number]) for number in _sorted(needed)]


def _sorted(needed: Sequence[set[int]]) -> Sequence[int]:
    """Numbers, each behind those that it needs, the least one first that may be next."""
    readers: list[list[int]] = [[] for _ in needed]
    for number, each in enumerate(needed):
        for maker in each:
            readers[maker].append(number)
    left = list(map(len, needed))
    ready = [number for number, count in enumerate(left) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for reader in readers[number]:
            left[reader] -= 1
            if not left[reader]:
                heappush(ready, reader)
    return [*order, *(number for number, count in enumerate(left) if count)]


def _read(proto: Any) -> Iterator[str]:
    """The names that a node reads, and those that graphs in it do."""
    yield from proto.input
    for attribute in proto.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for node in graph.node:
                yield from _read(node)
            yield from (each.name for each in graph.output)
