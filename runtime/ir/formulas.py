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
        self._numbers: list[int] = []
        self._steps: list[_Step] = []
        self._places: dict[Atom, int] = {}
        """Of values: from 0 on those of steps, in order, from -1 on downwards lengths."""
        self._results = [self._sum(each) for each in terms]
        del self._places

    def _sum(self, terms: Terms) -> _Sum:
        rest = sum([factor for factor, atoms in terms if not atoms])
        return rest, tuple([(factor, tuple(map(self._place, atoms))) for factor, atoms in terms if atoms])

    def _place(self, atom: Atom) -> int:
        found = self._places.get(atom)
        if found is None:
            if isinstance(atom, (Symbol, Computed)):
                self._numbers.append(atom.number)
                found = -len(self._numbers)
            else:
                is_quotient = isinstance(atom, Quotient)
                parts = (atom.numerator, atom.denominator) if isinstance(atom, Quotient) else (atom.one, atom.other)
                self._steps.append(_Step(is_quotient, *map(self._sum, parts)))
                found = len(self._steps) - 1
            self._places[atom] = found
        return found

    def __call__(self, lengths: Sequence[int]) -> list[int]:
        """The numbers that the terms are for some lengths."""
        count = len(self._steps)
        values = [0] * count + [lengths[each] for each in reversed(self._numbers)]
        for place, step in enumerate(self._steps):
            one, other = _number(step.one, values), _number(step.other, values)
            values[place] = one // (other or 1) if step.is_quotient else max(one, other)
        return [_number(each, values) for each in self._results]


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
        self._formulas = Formulas(each.terms for each in assumptions)
        self._wanted = [(each.relation == "==", each.holds) for each in assumptions]

    def fit(self, lengths: Sequence[int]) -> bool:
        """Whether all of them are so for some lengths."""
        if not self._wanted:
            return True
        for value, (is_equal, holds) in zip(self._formulas(lengths), self._wanted, strict=True):
            if (value == 0 if is_equal else value < 0) is not holds:
                return False
        return True
