"""Specialises subgraphs for many input shapes at once: what the model leaves open is open, the rest is fixed.

What is derived for the shapes of one run holds for all those that answer the questions asked on the way as these do;
other ones are derived anew, up to a number of times.

Lengths that have one name, or that an answer says are equal, are one in what is derived, and those that an answer says
are sums of others are these, so that products and quotients of them cancel.

Lengths that must be what an operator asks for, as of rows that are multiplied by a matrix, are fixed.

Lengths of 1 are open as others are. They are fixed where what is derived would hold for 1 alone, as an axis of length 1
may be spread over another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import chain, product
from typing import TypeAlias

from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.ir.bounds import bound_of
from circlet.runtime.ir.length import Scope, is_late, terms_of, value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.premises import Premises, ToldApart
from circlet.runtime.ir.terms import LEAST, Symbol
from circlet.runtime.ir.types import Shape
from circlet.runtime.passes.analyses.equalities import Sum, asked_elsewhere, equalities, fixed_lengths
from circlet.runtime.passes.analyses.specialize import MEMO_SIZE, General, Specialization, Specializer
from circlet.runtime.passes.analyses.told import lacks_sizes

MOST_GENERAL = 16
"""Derivations for one subgraph and set of open dimensions, each for other answers; a choice that bounds what is
compiled for shapes that are made to differ."""

WITH_SHAPES = frozenset({"tflite", "circle"})
"""Formats that say beside which lengths are open what they are where nobody gives others. Code for these alone takes
half the time to make, and most models of these formats run at no others."""

_Open: TypeAlias = tuple[tuple[int, int], ...]
"""Input and axis of each dimension that is open."""


class Generalizer:
    """Finds the case of a general derivation that input shapes are."""

    def __init__(self, model: Model, specializer: Specializer) -> None:
        self._model = model
        self._specializer = specializer
        self._found: dict[tuple[int, tuple[Shape, ...]], list[General]] = {}
        self._told_apart: set[tuple[int, int, int]] = set()
        """Subgraph, input and axis where length 1 takes code of its own."""
        self._empty: set[tuple[int, int, int]] = set()
        """The same of length 0."""
        self._fixed: set[tuple[int, int, int, int]] = set()
        """Subgraph, input, axis and a length for which nothing holds that holds for others."""
        self.at = lru_cache(MEMO_SIZE)(self._at)
        """`at(subgraph, input_shapes) -> Specialization`, with `general` where dimensions are open."""

    def _at(self, index: int, shapes: tuple[Shape, ...]) -> Specialization:
        opened = self._opened(index, shapes)
        if self._says_one(index, opened) and all(shapes[position][axis] == 1 for position, axis in opened):
            opened = ()
        alone = None if opened else self._specializer.at(index, shapes)
        if alone is not None and alone.is_static:
            return alone
        lengths = _lengths(shapes, opened)
        fixed = tuple(tuple(-1 if (position, axis) in opened else size for axis, size in enumerate(shape))
                      for position, shape in enumerate(shapes))
        key = (index, fixed)
        known = self._found.setdefault(key, [])
        for each in known:
            if each.fits(lengths):
                return each.case(lengths)
        if len(known) >= MOST_GENERAL:
            return self._specializer.at(index, shapes)
        alone = self._specializer.at(index, shapes)
        try:
            general = self._derive(index, shapes, opened, _numbers(lengths, 0))
        except ToldApart as found:
            return self._apart(index, shapes, opened, found.numbers)
        asked = () if general is None else fixed_lengths(general.scope)
        if asked:
            self._fixed.update((index, *opened[number], lengths[number]) for number in asked)
            self.at.cache_clear()
            return self.at(index, shapes)
        if general is not None:
            general = self._serving_none(index, shapes, opened, general)
            general = replace(general, stop=min(general.stop, alone.stop))
            if _agrees(general.case(lengths), alone):
                general.scope.close()
                known.append(general)
                return general.case(lengths)
        few = _numbers(lengths, 0) or _numbers(lengths, 1)
        return self._apart(index, shapes, opened, few) if few else alone

    def apart(self, case: Specialization, numbers: Iterable[int]) -> Specialization:
        """The same for some lengths of 0 and 1, by number, that are no longer to be open, as they take code of their
        own."""
        shapes = tuple(case.shape(each) for each in case.subgraph.inputs)
        return self._apart(case.index, shapes, _opened(case), numbers)

    def _apart(self, index: int, shapes: tuple[Shape, ...], opened: _Open, numbers: Iterable[int]) -> Specialization:
        places = [opened[number] for number in numbers]
        for length, found in ((0, self._empty), (1, self._told_apart)):
            found.update((index, position, axis) for position, axis in places if shapes[position][axis] == length)
        self.at.cache_clear()
        return self.at(index, shapes)

    def equal(self, index: int, shapes: tuple[Shape, ...]) -> Mapping[tuple[int, int], tuple[int, int]]:
        """Inputs and axes of open lengths that operators ask to be those of others, with these, but for operators that
        lay parts together; of lengths at hand that are equal."""
        general = self.at(index, shapes).general
        found = None if general is None else self._derived(
            index, shapes, general.opened, general.scope.premises, {})
        if general is None or found is None:
            return {}
        return {general.opened[number]: general.opened[least] for number, least in asked_elsewhere(found.scope).items()}

    def derive(self, case: Specialization) -> General | None:
        """Derives anew what a specialisation is a case of, so that more can be assumed of it; None where it cannot
        be.

        Raises:
            ToldApart: lengths of 1 take code of their own, as assuming more of the scope does.
        """
        shapes = tuple(case.shape(each) for each in case.subgraph.inputs)
        general, opened = case.general, _opened(case)
        assert general is not None, "no length is open"
        scope = general.scope
        again = self._derived(case.index, shapes, opened, scope.premises, equalities(scope))
        if again is not None and (again.spec.stop, again.scope.assumptions) == (general.spec.stop, scope.assumptions):
            return again  # what is taken of lengths was found out before
        return self._derive(case.index, shapes, opened, scope.premises.empty)

    def _opened(self, index: int, shapes: tuple[Shape, ...]) -> _Open:
        """The dimensions that the model does not fix, or that differ from what it fixes, but for those of nothing and
        of 1 where these take code of their own, as where there are no results, and of what operators ask for."""
        subgraph = self._model.subgraphs[index]
        found: list[tuple[int, int]] = []
        smallest = LEAST if all(map(all, shapes)) or not self._computes(index, shapes) else 0
        for position, (tensor, shape) in enumerate(zip(subgraph.inputs, shapes, strict=True)):
            declared = subgraph.tensors[tensor].signature
            found += [(position, axis) for axis, size in enumerate(shape)
                      if size >= smallest and (len(declared) != len(shape) or declared[axis] != size)
                      and (size > 1 or (index, position, axis) not in (self._told_apart if size else self._empty))
                      and (index, position, axis, size) not in self._fixed]
        return tuple(found)

    def _computes(self, index: int, shapes: tuple[Shape, ...]) -> bool:
        """Whether all results have elements, as far as is known, for inputs of which some have none."""
        alone = self._specializer.at(index, shapes)
        found = [alone.shapes[each] for each in alone.subgraph.outputs]
        return any(found) and all(all(each) for each in found if each is not None)

    def _says_one(self, index: int, opened: _Open) -> bool:
        """Whether the model says of open dimensions that they are 1 where nobody gives others."""
        subgraph = self._model.subgraphs[index]
        said = [subgraph.tensors[subgraph.inputs[position]] for position, _ in opened]
        return bool(opened) and self._model.format in WITH_SHAPES and all(
            len(each.shape) == len(each.signature) > axis and each.shape[axis] == 1 and each.signature[axis] < 0
            for each, (_, axis) in zip(said, opened, strict=True))

    def _derive(self, index: int, shapes: tuple[Shape, ...], opened: _Open, empty: frozenset[int]) -> General | None:
        """What holds for these shapes and others; None where nothing does. Where it holds for not all operators, more
        is assumed if that tells more: what is longer than 1 is, which can be known of the lengths of loops as well,
        numbers that the run tells are not 0, as of turns of which the last one's result is taken, and those that are
        positions lie on the axes that they are of, as where so many tokens are taken of two tables; of these,
        those at which parts begin may be 0 if as much is told so. Some lengths, by number, may be 0."""
        shortest = dict.fromkeys(empty, 0)
        longer = shortest | {number: LEAST + 1 for number, (position, axis) in enumerate(opened)
                             if shapes[position][axis] > LEAST}
        found: General | None = None
        trials = ((False, 0, False), (False, 1, False), (True, 0, False), (True, 1, True), (True, 1, False))
        for (promises, told, from_start), least in product(trials, (shortest, longer)[:1 + (longer != shortest)]):
            if found is not None and found.spec.is_static:
                break
            if found is not None and (told or promises) and not (
                    found.scope.count > found.scope.opened or found.scope.lacks_sizes or (
                        promises and lacks_sizes(found.spec.subgraph.operators[found.spec.stop], found.spec.known))):
                continue
            other = self._with_equal(index, shapes, opened, Premises(least, told, promises, from_start))
            if found is None or (other is not None and other.spec.stop > found.spec.stop):
                found = other
        return found

    def _serving_none(self, index: int, shapes: tuple[Shape, ...], opened: _Open, general: General) -> General:
        """The same for lengths of 0 as well, where all results have elements for these, and all that was answered is so
        for them, too: what a decoder has kept is nothing at first, whatever it kept in the run that was first."""
        lengths, scope, equal = _lengths(shapes, opened), general.scope, equalities(general.scope)
        none = _served_as_none(general, lengths, equal)
        if not none:
            return general
        premises = replace(scope.premises, least={**scope.premises.least, **dict.fromkeys(chain(*none), 0)})
        with suppress(ToldApart):
            other = self._derived(index, shapes, opened, premises, equal)
            if other is not None and other.spec.stop == general.spec.stop and equalities(other.scope) == equal and all(
                    map(other.fits, (lengths, *none.values()))):
                return other
        return general

    def _with_equal(self, index: int, shapes: tuple[Shape, ...], opened: _Open, premises: Premises
                    ) -> General | None:
        """As `_derived`, with one length for those that have one name, and those that are assumed to be equal, and sums
        for those that are assumed to be such, if as much can be told so."""
        equal = {number: Sum((least,)) for number, least in self._named(index, shapes, opened).items()}
        found = self._derived(index, shapes, opened, premises, equal)
        while found is not None and (more := equalities(found.scope)) != equal:
            other = self._derived(index, shapes, opened, premises, more)
            if other is None or other.spec.stop < found.spec.stop:
                break
            found, equal = other, more
        return found

    def _named(self, index: int, shapes: tuple[Shape, ...], opened: _Open) -> Mapping[int, int]:
        """The numbers of open lengths that have the name and the size of earlier ones, with the first of those."""
        subgraph = self._model.subgraphs[index]
        first: dict[tuple[str, int], int] = {}
        found = {}
        for number, (position, axis) in enumerate(opened):
            axes, size = subgraph.tensors[subgraph.inputs[position]].axes, shapes[position][axis]
            if axis < len(axes) and axes[axis]:
                found[number] = first.setdefault((axes[axis], size), number)
        return {number: least for number, least in found.items() if number != least}

    def _derived(self, index: int, shapes: tuple[Shape, ...], opened: _Open, premises: Premises,
                 equal: Mapping[int, Sum]) -> General | None:
        """What holds for these shapes, and others for which the premises hold and of which lengths, by number, are
        sums of others."""
        scope = Scope([shapes[position][axis] for position, axis in opened], premises)
        for number, length in premises.least.items():
            if length > LEAST:
                scope.decide(((1, (Symbol(number),)), (-length, ())), "<")  # assumed: it tells other runs from these
        for number, other in equal.items():
            _ = scope.symbol(number) == other.of(scope)  # assumed: it tells other runs from these
        symbols = {place: equal[number].of(scope) if number in equal else scope.symbol(number)
                   for number, place in enumerate(opened)}
        if self._says_one(index, opened):
            beyond = (each - 1 for each in symbols.values())
            parts = (each * each if number in premises.empty else each for number, each in enumerate(beyond))
            _ = sum(parts) == 0  # assumed not to be so: code for that is made alone
        given = tuple(tuple(symbols.get((position, axis), size) for axis, size in enumerate(shape))
                      for position, shape in enumerate(shapes))
        try:
            spec = self._specializer.at(index, given, scope)
            return General(spec, scope, _first_computed(spec), tuple(scope.lengths[scope.opened:]), opened)
        except (ExecutionError, LimitError):
            return None


def _lengths(shapes: tuple[Shape, ...], opened: _Open) -> tuple[int, ...]:
    """The lengths at hand."""
    return tuple(shapes[position][axis] for position, axis in opened)


def _served_as_none(general: General, lengths: Sequence[int], equal: Mapping[int, Sum]
                    ) -> Mapping[frozenset[int], tuple[int, ...]]:
    """The lengths, by number, that are added to others and could be 0 by what was answered, those together that are
    one, and all lengths then; those are left out that leave a result without elements."""
    if not general.spec.is_static:
        return {}
    made = [size for shape in general.spec.output_shapes for size in shape]
    sizes = [each for each in made if not is_late(each)]
    parts = {number for each in made for number in _summands(each)}.union(
        *(each.numbers for each in equal.values() if len(each.numbers) > 1))
    found = {}
    for number in (each for each, length in enumerate(lengths) if length and each in parts and each not in equal):
        others = [0 if each == number else length for each, length in enumerate(lengths)]
        instead = {each: sum(map(others.__getitem__, other.numbers), other.more) for each, other in equal.items()}
        given = tuple(instead.get(each, length) for each, length in enumerate(others))
        at = general.all_lengths(given)
        if all(value(each, at) > 0 for each in sizes) and all(each.fits(at) for each in general.scope.assumptions):
            found[frozenset(each for each, length in enumerate(given) if not length and lengths[each])] = given
    return found


def _summands(size: int) -> list[int]:
    """The numbers of open lengths of which a size is the sum, or is at the most; none where it is no sum."""
    terms = bound_of(terms_of(size)) or ()
    found = [atoms[0].number for _, atoms in terms if len(atoms) == 1 and isinstance(atoms[0], Symbol)]
    return found if len(terms) > 1 else []


def _numbers(lengths: Sequence[int], length: int) -> frozenset[int]:
    """The numbers of lengths that are some length."""
    return frozenset(number for number, each in enumerate(lengths) if each == length)


def _opened(case: Specialization) -> _Open:
    """The dimensions that are open in what a specialisation is a case of."""
    assert case.general is not None, "no length is open"
    return case.general.opened


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
