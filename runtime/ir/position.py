"""Positions on an axis, and sizes, and what is taken for granted of those that only a run tells."""

from __future__ import annotations

from typing import cast

from circlet.runtime.ir.bounds import certain_of, simple_quotient
from circlet.runtime.ir.length import Length, Scope, certain, is_late, larger, lowest, made, may_differ
from circlet.runtime.ir.terms import Terms, hangs_on_any, has_computed, reduced


def clamped(position: int, dim: int, low: int, high: int) -> int:
    """A position, which counts from the end of an axis if it is negative, limited to [low, high]. Whether an axis of
    which only a run tells the size has as many elements as it counts back is left to code to ask."""
    if is_promised(position, dim):
        return position
    if is_late(dim) and not is_late(position) and position < 0:
        return position + dim
    return min(max(position + dim if position < 0 else position, low), high)


def limited(position: int, dim: int, low: int, high: int) -> int:
    """As `clamped`, but of what only a run tells nothing is asked; `high` is `dim`, or one less. As many elements lie
    before the last one as behind the first one, and are written the same."""
    if not (is_late(position) or is_late(dim)) or is_promised(position, dim):
        return clamped(position, dim, low, high)
    return larger(position + dim, low) if position < 0 else high - larger(high - position, 0)


def is_empty(first: int, last: int, stride: int) -> bool:
    """Whether nothing lies between two positions; of those that only a run tells, whether nothing ever does."""
    if stride < 0:
        return bool(certain(first, "<=", last)) if is_late(last - first) else first <= last
    if certain(first, "<=", last):
        return False
    return bool(certain(first, ">=", last)) if is_late(last - first) else first >= last


def steps(first: int, last: int, stride: int) -> int:
    """The length of `range(first, last, stride)` where it is not empty, and of one that only a run tells."""
    found = -((first - last) // stride)
    return larger(found, 0) if is_late(found) else found


def is_promised(position: Length | int, dim: Length | int) -> bool:
    """Whether a position that only a run tells is taken to lie on an axis: one that changes from turn to turn of a
    loop, such as of how many tokens, on an axis that does not change, as of a table of positions, or a number on any
    axis where the scope promises that. Code leaves a run where it turns out not to. One that never lies before the
    end is the end."""
    return ((changes(position) and not changes(dim)) or _takes(position)) and lowest(position) >= 0 and certain(
        position, "<=", dim) is None and not certain(position, ">=", dim)


def is_taken_equal(one: Length | int, other: Length | int) -> bool:
    """Whether two sizes, of which only a run tells whether they are equal, are taken to be, where the scope promises
    that and no loop that goes on changes them. Code leaves a run where they turn out not to be: it asks for room, as if
    it lacked some, so there is a length that says for how much there is."""
    difference = one - other
    return isinstance(difference, Length) and _is_taken_for_none(difference, difference.scope.premises.promises)


def is_taken_to_reach(size: Length | int, least: int) -> bool:
    """Whether a size, of which only a run tells whether it is at least so large, is taken to be, where an operator
    fails otherwise, unless a loop that goes on changes it. Code leaves a run where it turns out not to be, as
    `is_taken_equal`."""
    if not is_late(size) or certain(size, ">=", least) is not None:
        return False
    lacking: Length | int = larger(least - size, 0)
    return isinstance(lacking, Length) and _is_taken_for_none(lacking, True)


def promised_quotient(number: Length | int, by: Length | int) -> int | None:
    """What times `by` is a number, for all lengths, where the scope promises positions: `by` is taken not to be 0 then.
    None where none is found."""
    if not (isinstance(number, Length) and isinstance(by, Length) and by.scope.premises.promises):
        return None
    found = made(by.scope, by.scope.derive(simple_quotient, number.terms, by.terms))
    return cast(int, found) if not may_differ(found * by, number) and is_taken_to_reach(by, 1) else None


def is_left_to_turns(size: Length | int, least: int) -> bool:
    """Whether a loop that goes on changes a size, so that its code looks in each turn whether it is so large."""
    return (isinstance(size, Length) and size.scope.ask(size.scope.turns.go_on, size.terms)
            and certain(size, ">=", least) is None)


def _is_taken_for_none(number: Length, may_promise: bool) -> bool:
    """Whether a number that only a run tells is taken to be 0, or may be promised to be."""
    return number.scope.ask(_takes_for_none, number.terms, number.scope, may_promise)


def _takes_for_none(terms: Terms, scope: Scope, may_promise: bool) -> bool:
    is_asked = has_computed(terms) and certain_of(terms, "==") is None
    terms = reduced(terms, "==")
    if not is_asked or scope.turns.go_on(terms):
        return False
    if terms in scope.promised.terms:
        return True
    if scope.promised.is_closed or not may_promise:
        return False
    if not scope.capacities:
        scope.capacity()
    scope.promised.terms.append(terms)
    return True


def changes(number: Length | int) -> bool:
    """Whether an integer hangs on a length that changes from turn to turn of a loop."""
    return isinstance(number, Length) and number.scope.ask(number.scope.turns.change, number.terms)


def is_taken(number: Length | int) -> bool:
    """Whether an integer may hang on a position that is promised."""
    return changes(number) or _takes(number)


def _takes(number: Length | int) -> bool:
    return isinstance(number, Length) and number.scope.premises.promises and number.scope.ask(
        hangs_on_any, number.terms, frozenset(number.scope.told))
