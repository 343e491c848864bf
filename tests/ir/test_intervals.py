"""Bounds of what follows from lengths that have bounds, and the lengths for which none of several cases is."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.runtime.ir.intervals import Box, holds, interval, uncovered
from circlet.runtime.ir.length import Scope, formula, terms_of
from circlet.runtime.ir.premises import Premises
from circlet.runtime.ir.terms import Assumption, Terms, constant, sum_of, value_of
from tests.ir.test_length import Formula
from tests.ir.test_length import formula as formulas

sides = st.tuples(st.integers(1, 6), st.integers(0, 5)).map(lambda side: (side[0], side[0] + side[1]))
boxes = st.tuples(sides, sides, sides)


def points(box: Box) -> list[tuple[int, ...]]:
    return list(product(*(range(low, high + 1) for low, high in box)))


def opened(found: Formula) -> int:
    """A formula of three lengths that may be 1."""
    scope = Scope([4, 4, 4], Premises({0: 1, 1: 1, 2: 1}))
    return found([scope.symbol(k) for k in range(3)])


@settings(max_examples=150)
@given(formulas, boxes)
def test_numbers_are_within_their_bounds(found: Formula, box: Box) -> None:
    number = opened(found)
    low, high = interval(number, box)
    values = [formula(number)(each) for each in points(box)]
    assert low <= min(values)
    assert max(values) <= high
    for each, value in zip(points(box), values, strict=True):
        assert interval(number, tuple((size, size) for size in each)) == (value, value)


conditions = st.builds(lambda found, relation, answer: Assumption(terms_of(opened(found)), relation, answer),
                       formulas, st.sampled_from(["==", "<"]), st.booleans())


@settings(max_examples=150)
@given(conditions, boxes)
def test_what_holds_for_a_box_holds_for_all_in_it(condition: Assumption, box: Box) -> None:
    said = holds(condition, box)
    if said is not None:
        assert {condition.fits(each) for each in points(box)} == {said}


@settings(max_examples=100)
@given(st.lists(st.lists(conditions, max_size=2), max_size=3), boxes)
def test_lengths_without_a_case_are_found(cases: list[list[Assumption]], box: Box) -> None:
    missing = {each for each in points(box) if not any(all(one.fits(each) for one in case) for case in cases)}
    found = uncovered(box, cases, 10_000)
    assert found in missing if missing else found is None


def less(one: int, other: int) -> Terms:
    """The difference of two lengths."""
    scope = Scope([3, 3])
    return sum_of(terms_of(scope.symbol(one)), tuple((-by, atoms) for by, atoms in terms_of(scope.symbol(other))))


def test_the_longest_are_found_first() -> None:
    assert uncovered(((1, 128), (1, 64)), [], 10) == (128, 64)
    assert value_of(less(0, 1), (3, 5)) == -2
    equal = Assumption(less(0, 1), "==", True)
    assert uncovered(((1, 4), (1, 4)), [[equal]], 100) in {(4, 3), (3, 4)}


def test_too_many_parts_are_an_error() -> None:
    equal = [Assumption(less(0, 1), "==", each) for each in (True, False)]
    assert uncovered(((1, 100), (1, 100)), [[each] for each in equal], 10_000) is None
    with pytest.raises(OverflowError):
        uncovered(((1, 10_000), (1, 10_000)), [[each] for each in equal], 100)


def test_fixed_numbers_are_their_bounds() -> None:
    assert interval(7, ()) == (7, 7)
    assert holds(Assumption(constant(0), "==", True), ()) is True
