"""What integers that hang on open lengths are at least and at most, for lengths within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from circlet.runtime.ir.length import Length, terms_of
from circlet.runtime.ir.terms import Assumption, Atom, Computed, Quotient, Symbol, Terms

Interval: TypeAlias = "tuple[int, int]"
"""The least and the most that an integer is."""
Box: TypeAlias = "Sequence[Interval]"
"""Of open lengths, by their numbers."""


def interval(number: Length | int, box: Box) -> Interval:
    """The bounds of an integer for lengths in a box, those of what the run computes included. They need not be the
    closest, as each length counts for itself wherever it stands; where each is one number they are."""
    return _of_terms(terms_of(number), box)


def _of_terms(terms: Terms, box: Box) -> Interval:
    low = high = 0
    for factor, atoms in terms:
        least = most = factor
        for each in atoms:
            least, most = _product((least, most), _of_atom(each, box))
        low, high = low + least, high + most
    return low, high


def _product(one: Interval, other: Interval) -> Interval:
    corners = [left * right for left in one for right in other]
    return min(corners), max(corners)


def _of_atom(atom: Atom, box: Box) -> Interval:
    if isinstance(atom, Symbol):
        return box[atom.number]
    if isinstance(atom, Computed):
        return atom.least, max(_of_terms(atom.most, box)[1], atom.least)
    if isinstance(atom, Quotient):
        numerator, (low, high) = _of_terms(atom.numerator, box), _of_terms(atom.denominator, box)
        found = [each // by for each in numerator for by in (max(low, 1), max(high, 1))]
        return min(found), max(found)
    one, other = _of_terms(atom.one, box), _of_terms(atom.other, box)
    return max(one[0], other[0]), max(one[1], other[1])


def holds(found: Assumption, box: Box) -> bool | None:
    """Whether an assumption is so for all lengths in a box; None where that cannot be told of all at once."""
    low, high = _of_terms(found.terms, box)
    if found.relation == "==":
        answer = False if low > 0 or high < 0 else True if low == high else None
    else:
        answer = True if high < 0 else False if low >= 0 else None
    return None if answer is None else answer is found.holds


def uncovered(box: Box, cases: Sequence[Sequence[Assumption]], most: int) -> tuple[int, ...] | None:
    """Lengths in a box for which no case is: the longest that are found first. None if there are none.

    Args:
        box: is halved until each part is in one case, or in none.
        cases: what holds for the lengths of each.
        most: how many parts are looked at.

    Raises:
        OverflowError: these are too few.
    """
    left, looked = [box], 0
    while left:
        part, looked = left.pop(), looked + 1
        if looked > most:
            raise OverflowError
        found = [_of_case(each, part) for each in cases]
        if True in found:
            continue
        if None not in found:
            return tuple(high for _, high in part)
        left += _halves(part)
    return None


def _of_case(case: Sequence[Assumption], box: Box) -> bool | None:
    """Whether a case is for all lengths in a box, or for none."""
    answers = [holds(each, box) for each in case]
    return False if False in answers else None if None in answers else True


def _halves(box: Box) -> list[Box]:
    """A box in two along its longest side, the shorter lengths first."""
    axis = max(range(len(box)), key=lambda each: box[each][1] - box[each][0])
    low, high = box[axis]
    middle = (low + high) // 2
    return [(*box[:axis], side, *box[axis + 1:]) for side in ((low, middle), (middle + 1, high))]
