"""Positions on an axis, and sizes, and what is taken for granted of those that only a run tells."""

from __future__ import annotations

from circlet.runtime.ir.length import Length, certain, is_late, larger, lowest
from circlet.runtime.ir.terms import hangs_on, reduced


def clamped(position: int, dim: int, low: int, high: int) -> int:
    """A position, which counts from the end of an axis if it is negative, limited to [low, high]."""
    if is_promised(position, dim):
        return position
    return min(max(position + dim if position < 0 else position, low), high)


def limited(position: int, dim: int, low: int, high: int) -> int:
    """As `clamped`, but of what only a run tells nothing is asked; `high` is `dim`, or one less. As many elements lie
    before the last one as behind the first one, and are written the same."""
    if not (is_late(position) or is_late(dim)) or is_promised(position, dim):
        return clamped(position, dim, low, high)
    return larger(position + dim, low) if position < 0 else high - larger(high - position, 0)


def is_promised(position: Length | int, dim: Length | int) -> bool:
    """Whether a position that only a run tells is taken to lie on an axis: one that changes from turn to turn of a
    loop, such as of how many tokens, on an axis that does not change, as of a table of positions, or a number on any
    axis where the scope promises that. Code leaves a run where it turns out not to."""
    return ((changes(position) and not changes(dim)) or _takes(position)) and lowest(position) >= 0 and certain(
        position, "<=", dim) is None


def is_taken_equal(one: Length | int, other: Length | int) -> bool:
    """Whether two sizes, of which only a run tells whether they are equal, are taken to be, where the scope promises
    that and no loop changes them. Code leaves a run where they turn out not to be: it asks for room, as if it lacked
    some, so there is a length that says for how much there is."""
    difference = one - other
    if not (isinstance(difference, Length) and is_late(difference)) or changes(difference) or (
            certain(one, "==", other) is not None):
        return False
    scope, terms = difference.scope, reduced(difference.terms, "==")
    if terms in scope.promised.terms:
        return True
    if scope.promised.is_closed or not scope.premises.promises:
        return False
    if not scope.capacities:
        scope.capacity()
    scope.promised.terms.append(terms)
    return True


def changes(number: Length | int) -> bool:
    """Whether an integer hangs on a length that changes from turn to turn of a loop."""
    return isinstance(number, Length) and number.scope.changes(number.terms)


def is_taken(number: Length | int) -> bool:
    """Whether an integer may hang on a position that is promised."""
    return changes(number) or _takes(number)


def _takes(number: Length | int) -> bool:
    return isinstance(number, Length) and number.scope.premises.promises and any(
        hangs_on(number.terms, each) for each in number.scope.told)
