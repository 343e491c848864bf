"""Integers that may be known when code is made: what is known is computed at once, for the rest code is emitted.

An open length is known as what it is, but what it compares to may not be.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter
from circlet.runtime.ir.length import certain, may_differ
from circlet.runtime.records import dataclass

Truth: TypeAlias = "ir.Value | bool"
"""An i1, known or not."""


@dataclass(frozen=True, eq=False)
class Whole:
    """An index in Python's notation."""

    e: Emitter
    value: ir.Value | int

    @property
    def register(self) -> ir.Value:
        """The number in a register; a constant where it is known."""
        return self.e.register(self.value)

    @property
    def is_zero(self) -> bool:
        """Whether it is known to be zero."""
        return not isinstance(self.value, ir.Value) and not may_differ(self.value, 0)

    def _of(self, other: Whole | int) -> Whole:
        """An operand as a number like this."""
        return other if isinstance(other, Whole) else Whole(self.e, other)

    def _combine(self, name: str, known: Callable[[int, int], int], other: Whole | int) -> Whole:
        """`known` of two numbers that are known, else what the builder's instruction `name` gives."""
        right = self._of(other)
        if not isinstance(self.value, ir.Value) and not isinstance(right.value, ir.Value):
            return Whole(self.e, known(self.value, right.value))
        return Whole(self.e, getattr(self.e.builder, name)(self.register, right.register))

    def __add__(self, other: Whole | int) -> Whole:
        right = self._of(other)
        return right if self.is_zero else self if right.is_zero else self._combine("add", operator.add, right)

    def __sub__(self, other: Whole | int) -> Whole:
        return self._combine("sub", operator.sub, other)

    def __mul__(self, other: Whole | int) -> Whole:
        right = self._of(other)
        return self if isinstance(right.value, int) and right.value == 1 else self._combine("mul", operator.mul, right)

    def __floordiv__(self, other: Whole | int) -> Whole:
        """Of a number that is not negative, by a positive one."""
        return self._combine("udiv", operator.floordiv, other)

    def compare(self, relation: str, other: Whole | int) -> Truth:
        """Whether a relation holds between this, as a signed number, and another one."""
        right = self._of(other)
        if not isinstance(self.value, ir.Value) and not isinstance(right.value, ir.Value):
            found = certain(self.value, relation, right.value)
            if found is not None:
                return found
        return self.e.builder.icmp_signed(relation, self.register, right.register)

    def where(self, condition: Truth, other: Whole | int) -> Whole:
        """This where a condition holds, else `other`."""
        right = self._of(other)
        if isinstance(condition, bool):
            return self if condition else right
        return Whole(self.e, self.e.builder.select(condition, self.register, right.register))

    def at_least(self, low: Whole | int) -> Whole:
        """The greater one of this and `low`."""
        return self.where(self.compare(">", low), low)

    def at_most(self, high: Whole | int) -> Whole:
        """The lesser one of this and `high`."""
        return self.where(self.compare("<", high), high)

    def is_in(self, low: int, high: Whole | int) -> Truth:
        """Whether it is at least `low` and at most `high`."""
        return both(self.e, self.compare(">=", low), self.compare("<=", high))


def both(e: Emitter, one: Truth, other: Truth) -> Truth:
    """Whether two conditions hold."""
    if isinstance(one, bool):
        return other if one else False
    if isinstance(other, bool):
        return one if other else False
    return e.builder.and_(one, other)


def either(e: Emitter, one: Truth, other: Truth) -> Truth:
    """Whether one of two conditions holds."""
    if isinstance(one, bool):
        return True if one else other
    if isinstance(other, bool):
        return True if other else one
    return e.builder.or_(one, other)
