"""Numbers that several integers are for some lengths, computed together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from circlet.runtime.ir.terms import Assumption, Atom, Computed, Quotient, Symbol, Terms
from circlet.runtime.records import dataclass

_Sum: TypeAlias = "tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]"
"""A number, and products to add to it: of a factor and of values, by their places."""


@dataclass(frozen=True)
class _Step:
    """What makes a value of others."""

    is_quotient: bool
    """Of the first number by the second one; else it is the larger one of both."""
    one: _Sum
    other: _Sum


class Formulas:
    """What computes several terms: an atom that they have in common is computed once."""

    def __init__(self, terms: Iterable[Terms]) -> None:
        self._steps: list[_Step] = []
        self._places: dict[Atom, int] = {}
        """Of values: lengths have their numbers, results of steps lie from -1 on downwards."""
        self._fixed: list[int] = []
        self._linear: list[tuple[int, int, int, int]] = []
        """The results that are a number and a multiple of one value, as most are that lengths decide."""
        self._others: list[tuple[int, _Sum]] = []
        for number, each in enumerate(terms):
            rest, products = self._sum(each)
            self._fixed.append(rest)
            if len(products) == 1 and len(products[0][1]) == 1:
                factor, (place,) = products[0]
                self._linear.append((number, rest, factor, place))
            elif products:
                self._others.append((number, (rest, products)))
        del self._places

    def _sum(self, terms: Terms) -> _Sum:
        rest, products = 0, []
        for factor, atoms in terms:
            if atoms:
                products.append((factor, tuple(map(self._place, atoms))))
            else:
                rest += factor
        return rest, tuple(products)

    def _place(self, atom: Atom) -> int:
        if isinstance(atom, (Symbol, Computed)):
            return atom.number
        found = self._places.get(atom)
        if found is None:
            is_quotient = isinstance(atom, Quotient)
            parts = (atom.numerator, atom.denominator) if isinstance(atom, Quotient) else (atom.one, atom.other)
            self._steps.append(_Step(is_quotient, *map(self._sum, parts)))
            found = self._places[atom] = -len(self._steps)
        return found

    def __call__(self, lengths: Sequence[int]) -> list[int]:
        """The numbers that the terms are for some lengths."""
        values = lengths
        if self._steps:
            values = [*lengths, *[0] * len(self._steps)]
            for place, step in enumerate(self._steps, 1):
                one, other = _number(step.one, values), _number(step.other, values)
                values[-place] = one // (other or 1) if step.is_quotient else max(one, other)
        found = self._fixed.copy()
        for number, rest, factor, place in self._linear:
            found[number] = rest + factor * values[place]
        for number, each in self._others:
            found[number] = _number(each, values)
        return found


def _number(found: _Sum, values: Sequence[int]) -> int:
    total, products = found
    for factor, places in products:
        for each in places:
            factor *= values[each]  # the product so far
        total += factor
    return total


class Conditions:
    """Assumptions, asked together."""

    def __init__(self, assumptions: Sequence[Assumption]) -> None:
        self.terms = [each.terms for each in assumptions]
        self._wanted = [(each.relation == "==", each.holds) for each in assumptions]

    def hold(self, values: Sequence[int]) -> bool:
        """Whether all of them are so, where their terms have some values."""
        for value, (is_equal, holds) in zip(values, self._wanted, strict=True):
            if (value == 0 if is_equal else value < 0) is not holds:
                return False
        return True
