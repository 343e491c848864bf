"""Which subgraphs and operators of two models are the same: by name, then by structure, then by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from circlet.runtime.ir.model import Model, Operator, Subgraph

Pairs: TypeAlias = "list[tuple[int, int]]"


@dataclass(frozen=True)
class Matching:
    """What is the same in two subgraphs."""

    operators: Mapping[int, int]
    """Those of the first, and what each of them is in the second."""
    tensors: Mapping[int, int]
    """The same of inputs and results."""
    only_one: Sequence[int]
    """Operators that only the first has."""
    only_other: Sequence[int]


def matched_subgraphs(one: Model, other: Model) -> tuple[Pairs, Sequence[int], Sequence[int]]:
    """Pairs of subgraphs, and those that only one of the models has; the first ones are the same whatever they are
    called."""
    names = [[each.name for each in model.subgraphs] for model in (one, other)]
    pairs = [(0, 0)] if one.subgraphs and other.subgraphs else []
    pairs += _unique(enumerate(names[0]), enumerate(names[1]), pairs)
    left = [[k for k in range(len(each)) if k not in {pair[side] for pair in pairs}]
            for side, each in enumerate(names)]
    pairs += zip(*left, strict=False)
    count = min(map(len, left))
    return sorted(pairs), left[0][count:], left[1][count:]


def _unique(one: Iterable[tuple[int, Hashable]], other: Iterable[tuple[int, Hashable]], taken: Pairs) -> Pairs:
    """Pairs of indices with the same key, where it occurs once on each side among those that are not taken."""
    first, second = {a for a, _ in taken}, {b for _, b in taken}
    mine = [(k, key) for k, key in one if k not in first and key]
    theirs = [(k, key) for k, key in other if k not in second and key]
    counts = Counter(key for _, key in mine), Counter(key for _, key in theirs)
    places = {key: k for k, key in theirs if counts[1][key] == 1}
    return [(k, places[key]) for k, key in mine if counts[0][key] == 1 and key in places]


def matched_operators(one: Subgraph, other: Subgraph) -> Matching:
    """The operators of two subgraphs: those of the same kind whose result has the same name; then of the same kind that
    read the same values; then of the same kind in their order; then those whose result has the same name."""
    tensors = dict(zip(one.inputs, other.inputs, strict=False))
    found: dict[int, int] = {}

    def add(pairs: Pairs) -> None:
        for a, b in pairs:
            found[a] = b
            tensors.update(zip(one.operators[a].outputs, other.operators[b].outputs, strict=False))

    add(_unique(_results(one, with_kind=True), _results(other, with_kind=True), []))
    _match(one, other, found, tensors, lambda operator, own: (
        operator.name, tuple(own.get(each, -1) for each in operator.inputs)))
    _match(one, other, found, tensors, lambda operator, own: operator.name)
    add(_unique(_results(one), _results(other), [*found.items()]))
    taken = {*found.values()}
    return Matching(dict(sorted(found.items())), tensors,
                    [k for k in range(len(one.operators)) if k not in found],
                    [k for k in range(len(other.operators)) if k not in taken])


def _results(subgraph: Subgraph, with_kind: bool = False) -> list[tuple[int, Hashable]]:
    """The name of the first result of each operator that has one."""
    names = [(number, each.name, subgraph.tensors[each.outputs[0]].name)
             for number, each in enumerate(subgraph.operators) if each.outputs]
    return [(number, (kind, name) if with_kind else name) for number, kind, name in names if name]


def _match(one: Subgraph, other: Subgraph, found: dict[int, int], tensors: dict[int, int],
           key: Callable[[Operator, Mapping[int, int]], Hashable]) -> None:
    """Adds pairs of operators with the same key, the first of either side first. The values of the first subgraph are
    known by what they are in the second."""
    taken = {*found.values()}
    own = {number: number for number, each in enumerate(other.tensors) if not each.is_constant and not each.is_variable}
    left: dict[Hashable, list[int]] = {}
    for number in reversed(range(len(other.operators))):
        if number not in taken:
            left.setdefault(key(other.operators[number], own), []).append(number)
    for number, operator in enumerate(one.operators):
        if number not in found:
            waiting = left.get(key(operator, tensors))
            if waiting:
                found[number] = waiting.pop()
                tensors.update(zip(operator.outputs, other.operators[found[number]].outputs, strict=False))
