"""Specialises subgraphs for many input shapes at once: what the model leaves open is open, the rest is fixed.

What is derived for the shapes of one run holds for all those that answer the questions asked on the way as these do;
other ones are derived anew, up to a number of times.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.ir.length import Scope, is_late
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.terms import LEAST
from circlet.runtime.ir.types import Shape
from circlet.runtime.passes.analyses.specialize import MEMO_SIZE, General, Specialization, Specializer

MOST_GENERAL = 16
"""Derivations for one subgraph and set of open dimensions, each for other answers; a choice that bounds what is
compiled for shapes that are made to differ."""

_Open: TypeAlias = tuple[tuple[int, int], ...]
"""Input and axis of each dimension that is open."""


class Generalizer:
    """Finds the case of a general derivation that input shapes are."""

    def __init__(self, model: Model, specializer: Specializer) -> None:
        self._model = model
        self._specializer = specializer
        self._found: dict[tuple[int, tuple[Shape, ...]], list[General]] = {}
        self.at = lru_cache(MEMO_SIZE)(self._at)
        """`at(subgraph, input_shapes) -> Specialization`, with `general` where dimensions are open."""

    def _at(self, index: int, shapes: tuple[Shape, ...]) -> Specialization:
        opened = self._opened(index, shapes)
        alone = None if opened else self._specializer.at(index, shapes)
        if alone is not None and alone.is_static:
            return alone
        lengths = tuple(shapes[position][axis] for position, axis in opened)
        fixed = tuple(tuple(-1 if (position, axis) in opened else size for axis, size in enumerate(shape))
                      for position, shape in enumerate(shapes))
        key = (index, fixed)
        known = self._found.setdefault(key, [])
        for each in known:
            if each.fits(lengths):
                return each.case(lengths)
        if len(known) >= MOST_GENERAL:
            return self._specializer.at(index, shapes)
        general, alone = self._derive(index, shapes, opened), self._specializer.at(index, shapes)
        if general is None:
            return alone
        general = replace(general, stop=min(general.stop, alone.stop))
        if not _agrees(general.case(lengths), alone):
            return alone
        general.scope.close()
        known.append(general)
        return general.case(lengths)

    def derive(self, case: Specialization) -> General | None:
        """Derives anew what a specialisation is a case of, so that more can be assumed of it; None where it cannot
        be."""
        shapes = tuple(case.shape(each) for each in case.subgraph.inputs)
        return self._derive(case.index, shapes, self._opened(case.index, shapes))

    def _opened(self, index: int, shapes: tuple[Shape, ...]) -> _Open:
        """The dimensions that the model does not fix, or that differ from what it fixes, but for short ones."""
        subgraph = self._model.subgraphs[index]
        found: list[tuple[int, int]] = []
        for position, (tensor, shape) in enumerate(zip(subgraph.inputs, shapes, strict=True)):
            declared = subgraph.tensors[tensor].signature
            found += [(position, axis) for axis, size in enumerate(shape)
                      if size >= LEAST and (len(declared) != len(shape) or declared[axis] != size)]
        return tuple(found)

    def _derive(self, index: int, shapes: tuple[Shape, ...], opened: _Open) -> General | None:
        """What holds for these shapes and others; None where nothing does."""
        scope = Scope([shapes[position][axis] for position, axis in opened])
        numbers = {place: number for number, place in enumerate(opened)}
        given = tuple(tuple(scope.symbol(numbers[position, axis]) if (position, axis) in numbers else size
                            for axis, size in enumerate(shape)) for position, shape in enumerate(shapes))
        try:
            spec = self._specializer.at(index, given, scope)
            return General(spec, scope, _first_computed(spec), tuple(scope.lengths[scope.opened:]))
        except (ExecutionError, LimitError):
            return None


def _first_computed(spec: Specialization) -> int:
    """The first operator of which a run computes the lengths of results; the end of what is known if there is none."""
    for number, operator in enumerate(spec.subgraph.operators[:spec.stop]):
        for tensor in operator.outputs:
            if any(is_late(size) for size in spec.shape(tensor)):
                return number
    return spec.stop


def _agrees(case: Specialization, alone: Specialization) -> bool:
    """Whether as much is known, and the same; or less, as only the run tells lengths that follow from fixed ones, such
    as those that floats are computed for."""
    if case.stop == alone.stop:
        return case.shapes == alone.shapes
    general = case.general
    return general is not None and general.spec.is_static and case.stop < alone.stop and all(
        one is None or one == other for one, other in zip(case.shapes, alone.shapes, strict=True))
