"""Open lengths are numbers: whatever is computed with them is, for some lengths, what is computed with those."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import product
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from circlet.runtime.ir import bounds
from circlet.runtime.ir.display.formulas import Formulas
from circlet.runtime.ir.length import (
    Indefinite,
    Scope,
    alike,
    assumed,
    bound,
    certain,
    divisor,
    is_late,
    is_length,
    larger,
    lowest,
    may_be_less,
    may_differ,
    smaller,
    terms_of,
    value,
)
from circlet.runtime.ir.premises import Premises
from circlet.runtime.ir.terms import LEAST

Formula: TypeAlias = Callable[[list[int]], int]

BINARY: tuple[Callable[[int, int], int], ...] = (operator.add, operator.sub, operator.mul, larger, smaller)
PARTS: tuple[Callable[[int, int], int], ...] = (operator.floordiv, operator.mod)


def combined(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    def both(do: Callable[[int, int], int], one: Formula, other: Formula) -> Formula:
        return lambda lengths: do(one(lengths), other(lengths))

    def part(do: Callable[[int, int], int], one: Formula, by: int) -> Formula:
        return lambda lengths: do(one(lengths), by)

    return st.builds(both, st.sampled_from(BINARY), inner, inner) | st.builds(
        part, st.sampled_from(PARTS), inner, st.integers(1, 7))


def chosen(number: int) -> Formula:
    return lambda lengths: lengths[number]


def fixed(number: int) -> Formula:
    return lambda lengths: number


formula = st.recursive(st.builds(chosen, st.integers(0, 2)) | st.builds(fixed, st.integers(-5, 40)), combined,
                       max_leaves=5)
some_lengths = st.lists(st.integers(LEAST, 50), min_size=3, max_size=3)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(formula, some_lengths, some_lengths)
def test_a_formula_has_the_value_that_it_has_of_numbers(made: Formula, at_hand: list[int], others: list[int]) -> None:
    scope = Scope(at_hand)
    length = made([scope.symbol(k) for k in range(3)])
    assert not scope.assumptions
    for lengths in (at_hand, others):
        assert value(length, lengths) == made(lengths)
        assert made(lengths) % divisor(length or 1) == 0 or not is_length(length)
    if not is_length(length):
        assert made(others) == made(at_hand)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(formula, formula, st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), some_lengths, some_lengths)
def test_answers_hold_for_all_lengths_that_fit(one: Formula, other: Formula, relation: str, at_hand: list[int],
                                               others: list[int]) -> None:
    ask = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
           "!=": operator.ne}[relation]
    scope = Scope(at_hand)
    symbols = [scope.symbol(k) for k in range(3)]
    sure = certain(one(symbols), relation, other(symbols))
    assert sure in (None, ask(one(others), other(others)))
    assert may_differ(one(symbols), other(symbols)) or one(others) == other(others)
    assert may_be_less(one(symbols), other(symbols)) or one(others) >= other(others)
    assert not scope.assumptions
    answer = ask(one(symbols), other(symbols))
    assert answer == ask(one(at_hand), other(at_hand))
    assume(all(each.fits(others) for each in scope.assumptions))
    assert answer == ask(one(others), other(others))


@given(formula, some_lengths, st.integers(0, 2))
@example(lambda n: n[0] - larger(n[0] - 3, 0), [2, 2, 9], 0)
@example(lambda n: n[1] * (n[0] - larger(n[0] - n[2], n[1] - 2)), [2, 2, 9], 0)
@example(lambda n: (-n[0] // 2) * (-n[1] // 2), [2, 2, 9], 0)
@example(lambda n: (-n[2] // 2) * (n[0] - n[1]) * n[0], [2, 2, 9], 0)
@example(lambda n: (n[2] // larger(n[0], 1)) * larger(n[0], 1) * 3, [2, 2, 9], 0)
@example(lambda n: (n[2] // larger(n[0], 1)) * n[1], [2, 2, 9], 0)
def test_a_bound_is_one(made: Formula, at_hand: list[int], least: int) -> None:
    """The first two lengths are computed by the run, at most as long as the third one."""
    scope = Scope(at_hand[2:])
    most = scope.symbol(0)
    try:
        found = made([scope.computed(most, least), scope.computed(most), most])
        limit = bound(found)
    except Indefinite:
        assume(False)
    assert not is_late(limit)
    for one, other in product(range(least, at_hand[2] + 1, 3), range(0, at_hand[2] + 1, 5)):
        lengths = [at_hand[2], one, other]
        assert value(found, lengths) <= value(limit, lengths), (found, limit, lengths)


def test_room_for_whole_vectors_of_what_the_run_computes() -> None:
    scope = Scope([])
    found = scope.computed(100)
    assert bound(-(-found // 16) * 16) == 7 * 16
    assert bound(-(-found // 16) * 16 * found) == 7 * 16 * 100


def test_room_for_the_smaller_one_of_two() -> None:
    scope = Scope([640])
    found = scope.computed(scope.symbol(0) + 10)
    assert bound(smaller(found, 10)) == 10
    assert bound(4 * smaller(found, 10) * scope.symbol(0)) == 40 * scope.symbol(0)
    assert bound(smaller(found, 12 + scope.symbol(0))) == scope.symbol(0) + 10


def test_the_end_of_any_axis_is_more_than_a_product_of_lengths() -> None:
    scope = Scope([3, 5, 7])
    first, second, third = map(scope.symbol, range(3))
    end = (1 << 63) - 1
    for rows in (first * second, first * second * third + first, first * scope.computed(second)):
        assert smaller(rows, end) == rows
    assert not scope.assumptions


def test_numbers_of_many_strides_are_compared_soon() -> None:
    n = Scope([640]).symbol(0)
    deep: int = n
    bounds.bounds.cache_clear()
    for _ in range(8):
        deep = larger((deep + 1) // 2, (4 * deep + 3) // 9 + 1)
    assert may_be_less(deep, n)
    assert bounds.bounds.cache_info().misses < 4_000


def test_equal_things_are_equal_without_assumptions() -> None:
    scope = Scope([7, 9], Premises({0: 2, 1: 2}))
    n, m = scope.symbol(0), scope.symbol(1)
    assert (n * 128) // 32 == 4 * n
    assert (n * m * 6) // n == 6 * m
    assert n + m - n == m
    assert (n - 1) // 2 == (n + 1) // 2 - 1
    assert n * 8 % 4 == 0
    assert (n + 3) // 4 // 8 == (n + 3) // 32
    assert ((n + 1) // 2 - 1 + m) // 2 == (n + 2 * m - 1) // 4
    assert (64 * n * m) // (16 * n * larger(m, 1)) == 4
    assert (64 * (n // 8) * m + 64 * m) // (16 * (n // 8) * m + 16 * m) == 4
    assert (n * m + 3 * n + m + 3) // (n + 1) == m + 3
    assert (6 * n * m) // (4 * m * m + 2 * m) == (3 * n) // (2 * m + 1)
    assert n > 1
    assert n != 1
    assert n >= LEAST + 1
    assert n * m - m > 1
    assert n * m > n
    assert n + m > m
    assert {n * m: 1}[m * n] == 1
    assert not scope.assumptions


def evaluated(written: Callable[[Formulas], list[str]], lengths: Sequence[int]) -> list[object]:
    """What expressions are at some lengths."""
    write = Formulas()
    expressions = written(write)
    names: dict[str, object] = {f"n{number}": length for number, length in enumerate(lengths)}
    exec("\n".join(write.lines), names)
    return [eval(each, names) for each in expressions]


@given(st.lists(formula, max_size=4), some_lengths, some_lengths)
def test_formulas_have_the_values_that_each_has(made: list[Formula], at_hand: list[int], others: list[int]) -> None:
    scope = Scope(at_hand)
    try:
        found = [each([scope.symbol(k) for k in range(3)]) for each in made]
    except Indefinite:
        assume(False)
    numbers = [each(others) for each in made]
    assert evaluated(lambda write: [write(terms_of(each)) for each in found], others) == [
        value(each, others) for each in found]
    fit = all(each.fits(others) for each in scope.assumptions)
    assert any(evaluated(lambda write: [write.fault(each) for each in scope.assumptions], others)) is not fit
    assert not fit or [value(each, others) for each in found] == numbers


def test_multiples_up_to_a_number() -> None:
    scope = Scope([40])
    n = scope.symbol(0)
    size = larger(scope.computed(n), 1)
    whole = n // size * size
    for one, relation, other in ((whole, "<=", n), (n - whole, "<", size), (whole, ">=", 0)):
        assert certain(one, relation, other)
    with pytest.raises(Indefinite, match="may be 0"):
        n // scope.computed(n)


def test_a_question_is_one_however_it_is_asked() -> None:
    scope = Scope([7, 7])
    n, m = scope.symbol(0), scope.symbol(1)
    assert n == m
    assert m == n
    assert n * 4 == m * 4
    assert len(scope.assumptions) == 1
    assert not alike((n, 3), (m, 3))
    assert alike((n * 2, 3), (n + n, 3))


def test_what_is_needed_as_a_python_integer_is_assumed() -> None:
    scope = Scope([7])
    assert assumed(scope.symbol(0) - 4) == 3
    assert not scope.assumptions[0].fits([8])
    assert assumed(5) == 5


def test_a_python_integer_is_refused() -> None:
    n = Scope([7]).symbol(0)
    for use in (range, int, float, hex, lambda each: [0] * each, lambda each: (1 << each), lambda each: 1.5 * each,
                lambda each: each.bit_length()):
        with pytest.raises((Indefinite, TypeError)):
            use(n)


def test_what_is_left_where_others_are_counted_is_not_negative() -> None:
    scope = Scope([7])
    n = scope.symbol(0)
    count, few = scope.computed(n), scope.computed(n, 3)
    assert larger(n - count, 0) == n - count
    assert larger(count - n, 0) == 0
    assert larger(count + few, 2 * n) == 2 * n
    assert larger(3 * n - 2 * few - count, few - 3) != 3 * n - 2 * few - count, "two counts of which each may be all"
    assert is_length(larger(count, few))


def test_what_is_clipped_on_both_sides_is_not_negative() -> None:
    """The larger one of a difference and 0 is in the larger one of it and 3, too."""
    scope = Scope([7])
    difference = scope.computed(scope.symbol(0)) - scope.computed(scope.symbol(0))
    assert lowest(smaller(larger(difference, 0), 3)) == 0
    assert lowest(smaller(larger(difference, 1), 3)) == 1


def test_quotients_of_the_larger_one_are_those_of_both() -> None:
    """Where these are simple: elements from the second one on, every other one of an even number."""
    n = Scope([7], Premises({0: 0})).symbol(0)
    assert -(-larger(2 * n - 1, 0) // 2) == n
    assert str((larger(n, 5) + 1) // 2) == str((larger(5, n) + 1) // 2), "as it is elsewhere"


def test_a_closed_scope_assumes_no_more() -> None:
    scope = Scope([7])
    n = scope.symbol(0)
    assert n < 10
    scope.close()
    assert n < 10
    with pytest.raises(Indefinite):
        assert n < 9


def test_lengths_of_two_scopes_are_not_mixed_up() -> None:
    one, other = Scope([7]).symbol(0), Scope([7]).symbol(0)
    assert hash(one) != hash(other)
    assert terms_of(one) == terms_of(other)
