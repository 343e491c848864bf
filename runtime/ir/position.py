"""Positions on an axis, and what is taken for granted of those that only a run tells."""

from __future__ import annotations

from circlet.runtime.ir.length import Length, certain, lowest


def clamped(position: int, dim: int, low: int, high: int) -> int:
    """A position, which counts from the end of an axis if it is negative, limited to [low, high]."""
    if is_promised(position, dim):
        return position
    return min(max(position + dim if position < 0 else position, low), high)


def is_promised(position: Length | int, dim: Length | int) -> bool:
    """Whether a position that changes from turn to turn of a loop, such as of how many tokens, is taken to lie on an
    axis that does not change, as of a table of positions. Code leaves a run where it turns out not to."""
    return changes(position) and not changes(dim) and lowest(position) >= 0 and certain(position, "<=", dim) is None


def changes(number: Length | int) -> bool:
    """Whether an integer hangs on a length that changes from turn to turn of a loop."""
    return isinstance(number, Length) and number.scope.changes(number.terms)
