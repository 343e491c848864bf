"""Shapes of loops that change from turn to turn: the lengths that do become lengths that the loop computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
from typing import TypeAlias, cast

from circlet.runtime.ir.length import (
    Length,
    Scope,
    bound,
    computed_number,
    is_length,
    lowest,
    may_be_less,
    scope_of,
    terms_of,
)
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op, Unknown
from circlet.runtime.ir.terms import Computed, hangs_on
from circlet.runtime.ir.types import Shape
from circlet.runtime.ops.controlflow import Invoke, PreTestedLoop
from circlet.runtime.passes.analyses.entry import entry, values_of
from circlet.runtime.records import dataclass, replace

_Axis: TypeAlias = tuple[int, int]
"""A carried value and one of its axes."""
Shapes: TypeAlias = "tuple[Shape, ...]"
Turn: TypeAlias = Callable[[Shapes], Shapes]
"""The shapes after a turn that begins with others; raises Unknown where only the run tells."""


@dataclass(frozen=True)
class _Lengths:
    """What is taken of lengths that change."""

    lasts: bool = False
    """Whether they are at least as long as they begin."""
    least: int = 0
    """What they are at the least otherwise, where they do not begin with less."""
    body: int | None = None
    """The subgraph for which they are, if it is no other one."""

    def length(self, scope: Scope, most: int, begin: int) -> int:
        """One that begins with some length, and is at most another one."""
        least = self.least if is_length(begin) or begin >= self.least else 0
        found = scope.carried(most, begin if self.lasts else None, least if self.body is None else 0)
        number = computed_number(found)
        if least and self.body is not None and number is not None:
            scope.turns.take(self.body, number, least)
        return found


def settled(op: PreTestedLoop, initial: Shapes, scope: Scope, turn: Turn) -> Shapes:
    """The shapes of the carried values of a loop in any turn.

    Lengths that change become lengths that the loop computes. Those that begin alike and change alike are one, so that
    what is computed with both fits together: they are one until a turn makes different ones of them. If no turn makes
    them shorter, they are at least as long as they begin. If more follows of lengths that are not 0, turns take them
    not to be, and code leaves a run in which a turn begins with one that is; or, where numbers that the run tells are
    taken not to be 0, the condition and what comes after the loop take it, too, and code leaves a run in which one is.

    Args:
        op: the loop.
        initial: the shapes that it begins with, and what is known of values.
        scope: of the lengths.
        turn: what a turn makes of shapes.

    Raises:
        Unknown: ranks change, or only the run tells what a turn makes of the shapes.
    """
    limits: list[int] = []
    body = op.body_subgraph_index
    with suppress(Unknown):
        shapes, after_turn = _found(initial, scope, turn, limits, _Lengths(lasts=True))
        if not any(_may_shrink(before, after, scope) for one, other in zip(shapes, after_turn, strict=True)
                   for before, after in zip(one, other, strict=True) if scope.is_carried(before)):
            return shapes
    with suppress(Unknown):
        return _found(initial, scope, turn, limits, _Lengths())[0]
    if not scope.premises.told and not _hangs_on_turns(initial, scope, body):
        with suppress(Unknown):
            return _found(initial, scope, turn, limits, _Lengths(least=1, body=body))[0]
    return _found(initial, scope, turn, limits, _Lengths(least=1))[0]


def _hangs_on_turns(shapes: Shapes, scope: Scope, body: int) -> bool:
    """Whether shapes hang on lengths that a loop with the same body came to."""
    return any(hangs_on(terms_of(size), number) for number in scope.turns.taken(body) for shape in shapes
               for size in shape)


def in_turns(op: PreTestedLoop, shapes: Shapes, scope: Scope | None) -> Shapes:
    """The shapes of carried values as the turns of a loop take them, of which lengths may be larger at the least."""
    taken = {} if scope is None else scope.turns.taken(op.body_subgraph_index)
    if not taken:
        return shapes
    return entry((tuple(_taken(size, taken) for size in shape) for shape in shapes), values_of(shapes))


def entering(op: Op, index: int, shapes: Shapes, scope: Scope | None) -> Shapes:
    """The shapes with which an operator that has operands of some shapes invokes a subgraph."""
    if isinstance(op, PreTestedLoop) and index == op.body_subgraph_index:
        return in_turns(op, shapes, scope)
    return shapes


def _taken(size: int, least: Mapping[int, int]) -> int:
    """A size, or one that is larger at the least."""
    terms, scope = terms_of(size), scope_of([size])
    atoms = [each for _, product in terms for each in product]
    if scope is None or computed_number(size) not in least or not isinstance(length := atoms[0], Computed):
        return size
    return cast(int, Length(scope, ((1, (replace(length, least=least[length.number]),)),)))


def _may_shrink(before: int, after: int, scope: Scope) -> bool:
    """Whether a turn may make a length shorter; it does not where it makes of it all that there is room for, or what an
    inner loop began with it."""
    return may_be_less(after, before) and may_be_less(after, bound(before)) and not scope.lasts(after, before)


def _found(initial: Shapes, scope: Scope, turn: Turn, limits: list[int], kind: _Lengths) -> tuple[Shapes, Shapes]:
    """The shapes in any turn, and what it makes of them.

    Args:
        initial: the shapes that the loop begins with.
        scope: of the lengths.
        turn: what a turn makes of shapes.
        limits: for how long lengths there is room, as far as that has a number; there may be added to them.
        kind: what is taken of lengths.
    """
    groups: dict[_Axis, int] = {}
    while True:
        shapes = _with_lengths(initial, groups, scope, limits, kind)
        made = turn(entry(shapes, values_of(initial)))
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


def _with_lengths(initial: Shapes, groups: Mapping[_Axis, int], scope: Scope, limits: list[int], kind: _Lengths
                  ) -> Shapes:
    """The shapes with a length for each group of axes, at most as long as one of the limits, to which may be added."""
    begins = {number: initial[k][axis] for (k, axis), number in groups.items()}
    limits += [scope.capacity() for _ in range(len(begins) - len(limits))]
    lengths = [kind.length(scope, limits[number], begins[number]) for number in range(len(begins))]
    return tuple(tuple(lengths[groups[k, axis]] if (k, axis) in groups else size for axis, size in enumerate(shape))
                 for k, shape in enumerate(initial))


def turn_lengths(model: Model, index: int, number: int, shapes: Shapes, scope: Scope | None) -> Mapping[int, int]:
    """The lengths of a loop that are only taken to be so large where a turn begins, with what they are taken to be at
    the least then: turns alone take it, or neither the condition nor anything after the loop reads values of them.

    Args:
        model: has the loop.
        index: the subgraph that has it.
        number: its operator.
        shapes: of the carried values in any turn.
        scope: of the lengths.
    """
    op = model.subgraphs[index].operators[number].op
    assert isinstance(op, PreTestedLoop)
    taken = zip(chain(*shapes), chain(*in_turns(op, shapes, scope)), strict=True)
    return {size: lowest(size) for size in _passing_lengths(model, index, number, shapes)} | {
        size: lowest(other) for size, other in taken if lowest(other) > lowest(size)}


def _passing_lengths(model: Model, index: int, number: int, shapes: Shapes) -> frozenset[int]:
    """The lengths that a loop computes, of values that neither its condition nor anything after it reads."""
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
