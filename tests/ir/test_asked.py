"""What was asked of lengths holds for others, or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from circlet.runtime.ir.asked import Asked
from circlet.runtime.ir.length import (
    Indefinite,
    Scope,
    certain,
    divisor,
    is_late,
    lowest,
    may_differ,
    smaller,
    terms_of,
)

A, B, C, D = range(4)
Use = Callable[[int, int], object]

SAME: dict[str, Use] = {
    "products and sums": lambda n, m: n * m + 3 * n - m,
    "quotients": lambda n, m: (n * m + 7) // 8,
    "quotients by lengths": lambda n, m: (n * m) // n,
    "remainders": lambda n, m: (n % 4, m % 4),
    "the larger one": lambda n, m: smaller(n, m) * 2,
    "what differs": lambda n, m: may_differ(n, m) and may_differ(n * m, m * n),
    "bounds": lambda n, m: (lowest(n + m), certain(n, ">=", 1), certain(n, "<", m)),
    "factors": lambda n, m: divisor(6 * n + 3 * m),
    "assumptions": lambda n, m: (n < m, n == 5),
}


def asked_of(use: Use, scope: Scope, *numbers: int) -> Asked:
    """What is asked of some lengths."""
    found = Asked(map(terms_of, numbers))
    with scope.asking(found):
        use(*numbers)
    return found


def lengths(scope: Scope) -> list[int]:
    return [scope.symbol(each) for each in range(scope.opened)]


@pytest.mark.parametrize("use", SAME.values(), ids=SAME)
def test_other_lengths_of_which_the_same_holds(use: Use) -> None:
    scope = Scope([5, 9, 5, 11])
    n = lengths(scope)
    found = asked_of(use, scope, n[A], n[B])
    assert found.is_whole
    instead = found.others([terms_of(n[C]), terms_of(n[D])])
    assert instead is not None
    assert instead[terms_of(n[A])] == terms_of(n[C])


@pytest.mark.parametrize(("use", "others"), [
    (lambda n, m: divisor(n), lambda n: (4 * n[C], n[D])),  # another answer
    (lambda n, m: lowest(n), lambda n: (n[C] + 1, n[D])),
    (lambda n, m: n - m, lambda n: (n[C] + 2, n[C])),  # a number instead of a length
    (lambda n, m: (n * n, m), lambda n: (n[C], n[C] * n[C])),  # two that are one
    (lambda n, m: n < m, lambda n: (n[D], n[C])),  # another assumption
    (lambda n, m: str(n), lambda n: (n[C], n[D])),
])
def test_others_of_which_something_else_holds(use: Use, others: Callable[[list[int]], tuple[int, int]]) -> None:
    scope = Scope([5, 9, 5, 11])
    n = lengths(scope)
    found = asked_of(use, scope, n[A], n[B])
    assert found.is_whole
    assert found.others(list(map(terms_of, others(n)))) is None


def test_what_hangs_on_more_is_not_whole() -> None:
    scope = Scope([5, 9, 5, 11])
    n = lengths(scope)
    assert not asked_of(lambda one, other: one + n[C], scope, n[A], n[B]).is_whole


def test_questions_without_an_answer_are_not_whole() -> None:
    scope = Scope([5])
    (n,) = lengths(scope)
    late = scope.computed(n)

    def ask(number: int) -> bool:
        return number < 3

    found = Asked([terms_of(late)])
    with scope.asking(found), pytest.raises(Indefinite):
        ask(late)
    assert is_late(late)
    assert not found.is_whole


def test_nothing_is_noted_where_it_is_not_asked_for() -> None:
    scope = Scope([5, 9])
    n, m = lengths(scope)
    found = Asked([terms_of(n)])
    with scope.asking(found), scope.asking(None):
        assert may_differ(n, m)
    assert found.is_whole
