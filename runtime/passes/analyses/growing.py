"""Shapes of loops that change from turn to turn: the lengths that do become lengths that the loop computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from circlet.runtime.ir.length import Scope, bound, computed_number, is_length, may_be_less, terms_of
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.terms import hangs_on
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.controlflow import Invoke, PreTestedLoop

_Axis: TypeAlias = tuple[int, int]
"""A carried value and one of its axes."""
Shapes: TypeAlias = "tuple[Shape, ...]"
Turn: TypeAlias = Callable[[Shapes], Shapes]
"""The shapes after a turn that begins with others; raises Unknown where only the run tells."""


def settled(initial: Shapes, scope: Scope, turn: Turn) -> Shapes:
    """The shapes of the carried values of a loop in any turn.

    Lengths that change become lengths that the loop computes. Those that begin alike and change alike are one, so that
    what is computed with both fits together: they are one until a turn makes different ones of them. If no turn makes
    them shorter, they are at least as long as they begin. If more follows of lengths that are not 0, they are taken not
    to be, and code leaves a run in which one is.

    Raises:
        Unknown: ranks change, or only the run tells what a turn makes of the shapes.
    """
    limits: list[int] = []
    with suppress(Unknown):
        shapes, made = _found(initial, scope, turn, limits, lasts=True)
        if not any(_may_shrink(before, after, scope) for one, other in zip(shapes, made, strict=True)
                   for before, after in zip(one, other, strict=True) if scope.is_carried(before)):
            return shapes
    try:
        return _found(initial, scope, turn, limits, lasts=False)[0]
    except Unknown:
        return _found(initial, scope, turn, limits, lasts=False, least=1)[0]


def _may_shrink(before: int, after: int, scope: Scope) -> bool:
    """Whether a turn may make a length shorter; it does not where it makes of it all that there is room for, or what an
    inner loop began with it."""
    return may_be_less(after, before) and may_be_less(after, bound(before)) and not scope.lasts(after, before)


def _found(initial: Shapes, scope: Scope, turn: Turn, limits: list[int], lasts: bool, least: int = 0
           ) -> tuple[Shapes, Shapes]:
    """The shapes in any turn, and what it makes of them.

    Args:
        initial: the shapes that the loop begins with.
        scope: of the lengths.
        turn: what a turn makes of shapes.
        limits: for how long lengths there is room, as far as that has a number; there may be added to them.
        lasts: whether lengths are taken to be at least as long as they begin.
        least: what they are taken to be at the least otherwise, where they do not begin with less.
    """
    groups: dict[_Axis, int] = {}
    while True:
        shapes = _with_lengths(initial, groups, scope, limits, lasts, least)
        made = turn(shapes)
        if [len(each) for each in made] != [len(each) for each in initial]:
            raise Unknown
        one = _Representatives(scope)
        keys = {(k, axis): (groups.get((k, axis)), one.of(initial[k][axis]), one.of(made[k][axis]))
                for k, shape in enumerate(shapes) for axis, size in enumerate(shape)
                if (k, axis) in groups or not scope.is_one(size, made[k][axis])}
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys.values()))}
        refined = {axis: numbers[key] for axis, key in keys.items()}
        if refined == groups:
            return shapes, made
        groups = refined


class _Representatives:
    """Gives equal integers one number."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._found: list[int] = []

    def of(self, size: int) -> int:
        """The number of an integer."""
        number = next((k for k, each in enumerate(self._found) if self._scope.is_one(each, size)), len(self._found))
        if number == len(self._found):
            self._found.append(size)
        return number


def _with_lengths(initial: Shapes, groups: Mapping[_Axis, int], scope: Scope, limits: list[int], lasts: bool,
                  least: int) -> Shapes:
    """The shapes with a length for each group of axes, at most as long as one of the limits, to which may be added."""
    begins = {number: initial[k][axis] for (k, axis), number in groups.items()}
    limits += [scope.capacity() for _ in range(len(begins) - len(limits))]
    at_least = {number: least if is_length(begin) or begin >= least else 0 for number, begin in begins.items()}
    lengths = [scope.carried(limits[number], begins[number] if lasts else None, at_least[number])
               for number in range(len(begins))]
    return tuple(tuple(lengths[groups[k, axis]] if (k, axis) in groups else size for axis, size in enumerate(shape))
                 for k, shape in enumerate(initial))


def passing_lengths(model: Model, index: int, number: int, shapes: tuple[Shape, ...]) -> frozenset[int]:
    """The lengths that a loop computes, of values that neither its condition nor anything after it reads.

    Args:
        model: has the loop.
        index: the subgraph that has it.
        number: its operator.
        shapes: of the carried values in any turn.
    """
    operator = model.subgraphs[index].operators[number]
    assert isinstance(operator.op, PreTestedLoop)
    condition = model.subgraphs[operator.op.cond_subgraph_index]
    asked = {*condition.outputs, *(each for inner in condition.operators for each in inner.inputs)}
    seen = [size for k, shape in enumerate(shapes) for size in shape
            if condition.inputs[k] in asked or _is_used(model, index, operator.outputs[k])]
    found = {size: computed_number(size) for shape in shapes for size in shape}
    return frozenset(size for size, length in found.items() if length is not None and not any(
        hangs_on(terms_of(each), length) for each in seen))


def _is_used(model: Model, index: int, tensor: int) -> bool:
    """Whether something reads a tensor, be it where a call gives it on."""
    subgraph = model.subgraphs[index]
    if any(tensor in each.inputs for each in subgraph.operators):
        return True
    if tensor not in subgraph.outputs:
        return False
    places = [position for position, each in enumerate(subgraph.outputs) if each == tensor]
    callers = [(caller, each) for caller, other in enumerate(model.subgraphs) for each in other.operators
               if index in each.op.callees()]
    return not callers or any(not isinstance(each.op, Invoke) or _is_used(model, caller, each.outputs[position])
                              for caller, each in callers for position in places)
