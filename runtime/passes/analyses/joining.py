"""Shapes of results that one of several subgraphs gives: lengths in which these differ are lengths that the run
computes, and subgraphs that can give none are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import le
from typing import TypeAlias

from circlet.runtime.ir.faults import FAULTS
from circlet.runtime.ir.length import Scope, bound, is_late, larger, lowest
from circlet.runtime.ir.model import ABSENT, Operator
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.types import Shape

Shapes: TypeAlias = "tuple[Shape, ...]"


def is_in_error(operator: Operator, shapes: Sequence[Shape | None], infer: Callable[[], object]) -> bool:
    """Whether the shape rule of an operator finds an error, and asks of no length that only the run tells.

    Args:
        operator: the operator, which invokes no subgraph.
        shapes: by tensor, None where they are not known.
        infer: the rule, of its operands.
    """
    given = [shapes[each] for each in operator.inputs if each != ABSENT]
    if operator.op.callees() or any(shape is None or any(map(is_late, shape)) for shape in given):
        return False
    try:
        infer()
    except Unknown:
        return False
    except FAULTS:
        return True
    return False


def joined(found: Sequence[Shapes], scope: Scope) -> Shapes:
    """The shapes of results, given those that each subgraph makes. Lengths are one that are the same in each of them.

    Raises:
        Unknown: numbers of results or ranks differ, or a length has no bound.
    """
    lengths: dict[tuple[int, ...], int] = {}

    def length(*sizes: int) -> int:
        if all(scope.is_one(each, sizes[0]) for each in sizes):
            return sizes[0]
        if sizes not in lengths:
            lengths[sizes] = scope.computed(reduce(larger, map(bound, sizes)), max(min(map(lowest, sizes)), 0))
        return lengths[sizes]

    try:
        return tuple(tuple(length(*sizes) for sizes in zip(*shapes, strict=True))
                     for shapes in zip(*found, strict=True))
    except ValueError as error:
        raise Unknown from error


def of_more_axes(found: Sequence[Shapes]) -> int | None:
    """Which of several subgraphs gives results of more axes than all others, as where these give one number for a
    vector of none; None where no one does.

    Args:
        found: the shapes of the results of each.
    """
    ranks = [tuple(map(len, each)) for each in found]
    most = max(ranks, key=sum)
    is_one = ranks.count(most) == 1 < len(ranks) and all(
        len(each) == len(most) and all(map(le, each, most)) for each in ranks)
    return ranks.index(most) if is_one else None
