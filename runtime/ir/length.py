"""Integers that differ from run to run: lengths that a model leaves open, and what follows from them.

A `Length` stands wherever a dimension or another integer does. It is a polynomial with integer coefficients over atoms:
open lengths, quotients and maxima, so that sums, products and exact quotients of equal things are equal. Where a
question about one has another answer for other lengths, the answer is that for the lengths at hand, and its scope keeps
it as an assumption: what was derived holds for all lengths for which every assumption does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

from circlet.runtime.ir.bounds import bound_of, bounds, certain_of, compared, least, maximum_of, simple_quotient
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.premises import NO_PREMISES, Asking, Premises, Promised, ToldApart, Turns
from circlet.runtime.ir.terms import (
    LEAST,
    MOST_ROOM,
    Assumption,
    Computed,
    Formula,
    Symbol,
    Terms,
    can_vanish,
    constant,
    difference_of,
    divisor_of,
    fixed,
    formula_of,
    hangs_on,
    hangs_on_any,
    has_computed,
    is_fixed,
    negative,
    number_of,
    product_of,
    reduced,
    sum_of,
    text,
    value_of,
)

CAPACITY = 64
"""For how long a length there is room at first that changes from turn to turn of a loop; a choice."""


class Indefinite(Unknown):
    """A Python integer was asked for where there is a length that differs from run to run."""


class Scope(Asking):
    """The open lengths of one derivation, and what was assumed of them."""

    def __init__(self, lengths: Sequence[int], premises: Premises = NO_PREMISES) -> None:
        """Of lengths at hand, each at least `LEAST`, and what is taken of them."""
        super().__init__()
        self.premises = premises
        self.told: set[int] = set()
        """Numbers that the run tells."""
        self.opened = len(lengths)
        """How many are open."""
        self.lengths = [*lengths]
        """At hand; behind the open lengths 0 for what the run computes, and how much buffers are to hold."""
        self.capacities: list[int] = []
        """The numbers of lengths that say for how much a loop has room, which must be as large as it comes to be."""
        self.promised = Promised()
        self.lacks_sizes = False
        """Whether a subgraph that operators invoke is not known because only the run tells sizes or parts."""
        self.together: set[Assumption] = set()
        """What was assumed because lengths were those of parts that became one tensor."""
        self.turns = Turns()
        """What changes from turn to turn of loops."""
        self.derived: dict[Hashable, object] = {}
        """What was derived with these lengths, which is forgotten with them."""
        self.quoted: dict[str, Terms] = {}
        """What messages call lengths, as these are known when a message is shown."""
        self._assumed: dict[tuple[Terms, str], Assumption] = {}
        self._is_closed = self._is_complete = False

    @property
    def count(self) -> int:
        """Of all lengths."""
        return len(self.lengths)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return tuple(self._assumed.values())

    def now(self, terms: Terms) -> int:
        """What terms are for the lengths at hand."""
        return value_of(terms, self.lengths)

    def may_be_negative(self, terms: Terms) -> bool:
        """Whether terms are less than 0 for some lengths; nothing is assumed of them."""
        return (not has_computed(terms) and self.now(terms) < 0) or least(terms) < 0

    def close(self) -> None:
        """Assumes no more, and has no more lengths: what would need them raises `Indefinite`."""
        self._is_closed = True
        self.complete()

    def complete(self) -> None:
        """Has no more lengths: code is made that knows where each of them is kept."""
        self._is_complete = self.promised.is_closed = True

    def symbol(self, number: int) -> int:
        """The length of a number, as what stands for it."""
        return cast(int, Length(self, ((1, (Symbol(number, self.premises.least.get(number, LEAST)),)),)))

    def late(self, most: Length | int | None, least: int = 0) -> int:
        """A length that the run computes, at most another one; without one, as long as there is room. Code leaves
        runs where it is less than `least`, by asking for room. One that must be 1 is 1."""
        room = self.capacity() if most is None or (least and not self.capacities) else 0
        if most == least == 1 and isinstance(most, int):
            return 1
        return self.computed(room if most is None else most, least)

    def computed(self, most: Length | int, least: int = 0) -> int:
        """A length that the run computes, at most as long as another one."""
        limit = bound_of(terms_of(most))
        if limit is None or self._is_complete:
            raise Indefinite(f"{most} has no bound" if limit is None else "all lengths are told")
        self.lengths.append(0)
        return cast(int, Length(self, ((1, (Computed(self.count - 1, limit, least),)),)))

    def capacity(self) -> int:
        """A length for which a loop is to have room, without anything at hand that it follows from."""
        if self._is_complete:
            raise Indefinite("all lengths are told")
        self.lengths.append(CAPACITY)
        self.capacities.append(self.count - 1)
        return cast(int, Length(self, ((1, (Symbol(self.count - 1, LEAST, MOST_ROOM),)),)))

    def told_number(self, least: int) -> int:
        """A number that the run tells, at least so large."""
        found = self.computed(self.capacity(), least)
        self.told.add(self.count - 1)
        return found

    def carried(self, most: Length | int, begin: int | None = None, least: int = 0) -> int:
        """As `computed`, a length that changes from turn to turn of a loop; `begin` is what it begins with if no turn
        makes it shorter, which then is the least that it is."""
        found = self.computed(most, least if begin is None else max(lowest(begin), 0))
        self.turns.add(self.count - 1, begin)
        return found

    def lasts(self, length: Length | int, begin: Length | int) -> bool:
        """Whether it is a length of a loop in which it began with another one, and no turn makes it shorter."""
        known = self.turns.begin(computed_number(length))
        return known is not None and (self.is_one(known, begin) or self.lasts(known, begin))

    @contextmanager
    def tentatively(self) -> Iterator[Callable[[], None]]:
        """Forgets the lengths that are made inside, and what is derived there, unless what it gives is called."""
        lengths, capacities, promised, kept = len(self.lengths), len(self.capacities), len(self.promised.terms), [False]
        derived = len(self.derived)
        yield partial(kept.__setitem__, 0, True)
        if not kept[0]:
            del self.lengths[lengths:], self.capacities[capacities:], self.promised.terms[promised:]
            for each in [*self.derived][derived:]:
                del self.derived[each]
            self.told = {each for each in self.told if each < lengths}
            self.turns.forget(lengths)

    def is_carried(self, number: Length | int) -> bool:
        """Whether an integer is a length that changes from turn to turn."""
        return self.turns.has(computed_number(number))

    def is_one(self, one: Length | int, other: Length | int) -> bool:
        """Whether two integers are equal for all lengths for which what was assumed so far holds; nothing more is."""
        difference: Length | int = one - other
        if not isinstance(difference, Length):
            return difference == 0
        return self.ask(self._is_taken_for_none, difference.terms)

    def _is_taken_for_none(self, terms: Terms) -> bool:
        found = self._assumed.get((reduced(terms, "=="), "=="))
        return found is not None and found.holds

    def decide(self, terms: Terms, relation: str) -> bool:
        """Whether terms are 0, or less than 0; assumed, where it depends on the lengths.

        What a run computes equals nothing but itself: code for any length is code for that one, too. Who drops axes of
        length 1 asks `is_known`.

        Raises:
            ToldApart: it is so for lengths of 0 or 1, and for no others.
            Indefinite: only the run can tell.
        """
        return self.ask(self._decided, terms, relation)

    def _decided(self, terms: Terms, relation: str) -> bool:
        terms = reduced(terms, relation)
        low, high = bounds(terms)
        if relation == "==" and (low > 0 or high < 0 or not can_vanish(terms)):
            return False
        if relation == "<" and (low >= 0 or high < 0):
            return high < 0
        found = self._assumed.get((terms, relation))
        if found is None:
            if has_computed(terms) and relation == "==":
                return False
            if self._is_closed or has_computed(terms) or any(hangs_on(terms, each) for each in self.capacities):
                raise Indefinite(f"whether {text(terms)} {relation} 0 differs from run to run")
            value = value_of(terms, self.lengths)
            holds = value == 0 if relation == "==" else value < 0
            found = Assumption(terms, relation, holds)
            alone = self.premises.alone(found, self.lengths)
            if alone:
                raise ToldApart(alone)
            self._assumed[terms, relation] = found
        return found.holds


class Length:
    """An integer that is known when the model runs. Numbers that turn out to be fixed are plain `int`s."""

    __slots__ = ("scope", "terms")

    def __init__(self, scope: Scope, terms: Terms) -> None:
        self.scope = scope
        self.terms = terms

    def _made(self, how: Callable[..., Terms], *terms: Terms) -> Length | int:
        return made(self.scope, self.scope.derive(how, *terms))

    def __add__(self, other: Length | int) -> Length | int:
        right = _terms(other)
        return NotImplemented if right is None else self._made(sum_of, self.terms, right)

    __radd__ = __add__

    def __neg__(self) -> Length | int:
        return self._made(negative, self.terms)

    def __pos__(self) -> Length:
        return self

    def __sub__(self, other: Length | int) -> Length | int:
        right = _terms(other)
        return NotImplemented if right is None else self._made(difference_of, self.terms, right)

    def __rsub__(self, other: int) -> Length | int:
        left = _terms(other)
        return NotImplemented if left is None else self._made(difference_of, left, self.terms)

    def __mul__(self, other: Length | int) -> Length | int:
        right = _terms(other)
        return NotImplemented if right is None else self._made(product_of, self.terms, right)

    __rmul__ = __mul__

    def __floordiv__(self, other: Length | int) -> Length | int:
        right = _terms(other)
        return NotImplemented if right is None else _quotient(self.scope, self.terms, right)

    def __rfloordiv__(self, other: int) -> Length | int:
        left = _terms(other)
        return NotImplemented if left is None else _quotient(self.scope, left, self.terms)

    def __mod__(self, other: Length | int) -> Length | int:
        return self - (self // other) * other

    def __rmod__(self, other: int) -> Length | int:
        return other - (other // self) * self

    def __divmod__(self, other: Length | int) -> tuple[Length | int, Length | int]:
        return self // other, self % other

    def __eq__(self, other: object) -> bool:
        right = _terms(other)
        if right is None:
            return NotImplemented
        difference = self.scope.derive(difference_of, self.terms, right)
        return not difference or (not is_fixed(difference) and self.scope.decide(difference, "=="))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((id(self.scope), self.terms))

    def _less(self, left: Terms, right: Terms) -> bool:
        difference = self.scope.derive(difference_of, left, right)
        if is_fixed(difference):
            return fixed(difference) < 0
        return self.scope.decide(difference, "<")

    def __lt__(self, other: Length | int) -> bool:
        right = _terms(other)
        return NotImplemented if right is None else self._less(self.terms, right)

    def __gt__(self, other: Length | int) -> bool:
        right = _terms(other)
        return NotImplemented if right is None else self._less(right, self.terms)

    def __le__(self, other: Length | int) -> bool:
        return not self > other

    def __ge__(self, other: Length | int) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        raise Indefinite(f"{self} differs from run to run")

    __int__ = __float__ = bit_length = __index__

    def item(self) -> Length:
        """Itself, as numpy's numbers give a Python number."""
        return self

    def maximum(self, other: Length | int) -> Length | int:
        """The larger one."""
        return self._made(maximum_of, self.terms, terms_of(other))

    def minimum(self, other: Length | int) -> Length | int:
        """The smaller one."""
        return self + other - self.maximum(other)

    def __str__(self) -> str:
        found = f"‹{self.scope.ask(text, self.terms)}›"
        self.scope.quoted[found] = self.terms
        return found

    __repr__ = __str__


def made(scope: Scope, terms: Terms) -> Length | int:
    """What stands for terms: an `int` where they are fixed."""
    return fixed(terms) if is_fixed(terms) else Length(scope, terms)


def terms_of(number: Length | int) -> Terms:
    """An integer as terms."""
    found = _terms(number)
    assert found is not None, f"{number!r} is no integer"
    return found


def _terms(value: object) -> Terms | None:
    """An integer as terms; None for anything else."""
    if isinstance(value, Length):
        return value.terms
    if not hasattr(value, "__index__"):
        return None
    number = int(cast(int, value))
    return ((number, ()),) if number else ()


def larger(one: Length | int, other: Length | int) -> int:
    """The larger one of two integers, either of which may be a `Length`; nothing is assumed of them."""
    if isinstance(one, Length):
        return cast(int, one.maximum(other))
    return cast(int, other.maximum(one)) if isinstance(other, Length) else max(one, other)


def smaller(one: int, other: int) -> int:
    """The smaller one, as `larger`."""
    return one + other - larger(one, other)


def may_differ(one: Length | int, other: Length | int) -> bool:
    """Whether two integers differ for some lengths; nothing is assumed of them."""
    difference: Length | int = one - other
    return isinstance(difference, Length) or difference != 0


def bound(number: Length | int) -> int:
    """What an integer is at the most, without what the run computes; itself where it computes nothing.

    Raises:
        Indefinite: that cannot be told.
    """
    if not is_late(number) or not isinstance(number, Length):
        return cast(int, number)
    found = number.scope.derive(bound_of, number.terms)
    if found is None:
        raise Indefinite(f"{number} has no bound")
    return cast(int, made(number.scope, found))


def is_late(number: Length | int) -> bool:
    """Whether an integer is known only after a part of the run."""
    return isinstance(number, Length) and number.scope.ask(has_computed, number.terms)


def may_be_none(number: Length | int) -> bool:
    """Whether a length is 0 in some runs, of those that what is derived is for without having been asked."""
    return isinstance(number, Length) and lowest(number) < 1 and (is_late(number) or number.scope.ask(
        hangs_on_any, number.terms, number.scope.premises.empty))


def computed_number(number: Length | int) -> int | None:
    """The number of a length that the run computes; None for everything else."""
    return number.scope.ask(number_of, number.terms, Computed) if isinstance(number, Length) else None


def open_number(number: Length | int) -> int | None:
    """The number of an open length; None for everything else."""
    return number.scope.ask(number_of, number.terms, Symbol) if isinstance(number, Length) else None


def at_hand(number: Length | int) -> int:
    """What an integer is at the most for the lengths at hand; nothing is assumed, so that only preferences may hang on
    it."""
    return number.scope.ask(number.scope.now, terms_of(bound(number))) if isinstance(number, Length) else number


def certain(one: Length | int, relation: str, other: Length | int) -> bool | None:
    """Whether a relation holds between two integers, by Python's name for it; None where it does for some lengths
    alone."""
    difference: Length | int = one - other
    if not isinstance(difference, Length):
        return compared(relation, difference)
    return difference.scope.ask(certain_of, difference.terms, relation)


def is_known(number: Length | int, to_be: int) -> bool:
    """Whether an integer is a certain one for all lengths for which what was assumed so far holds; nothing more is."""
    return number.scope.is_one(number, to_be) if isinstance(number, Length) else number == to_be


def alike(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two shapes are the same for all lengths; nothing is assumed of them."""
    return len(one) == len(other) and not any(map(may_differ, one, other))


def assumed(number: Length | int) -> int:
    """What an integer is for the lengths at hand, which is assumed: where each number takes other code."""
    if not isinstance(number, Length):
        return number
    found = number.scope.ask(number.scope.now, number.terms)
    number.scope.decide(number.scope.derive(difference_of, number.terms, constant(found)), "==")
    return found


def may_be_less(one: Length | int, other: Length | int) -> bool:
    """Whether the first integer is less than the other one for some lengths; nothing is assumed of them."""
    difference: Length | int = one - other
    if not isinstance(difference, Length):
        return difference < 0
    return difference.scope.ask(difference.scope.may_be_negative, difference.terms)


def lowest(number: Length | int) -> int:
    """What an integer is at least, for any lengths; it may be less than that."""
    return number.scope.ask(least, number.terms) if isinstance(number, Length) else number


def divisor(number: Length | int) -> int:
    """What divides an integer for all lengths."""
    return number.scope.ask(divisor_of, number.terms) if isinstance(number, Length) else number


def is_length(value: object) -> bool:
    """Whether an integer differs from run to run."""
    return isinstance(value, Length)


def is_open(values: Iterable[object]) -> bool:
    """Whether there is a length among some integers that differs from run to run."""
    return any(isinstance(each, Length) for each in values)


def formula(number: Length | int) -> Formula:
    """What computes the number that an integer is for some lengths."""
    return formula_of(terms_of(number))


def scope_of(values: Iterable[object]) -> Scope | None:
    """The scope of the open lengths among some integers; None where all are fixed."""
    return next((each.scope for each in values if isinstance(each, Length)), None)


def value(number: Length | int, lengths: Sequence[int]) -> int:
    """The number that an integer is for some lengths."""
    return value_of(number.terms, lengths) if isinstance(number, Length) else number


def _quotient(scope: Scope, numerator: Terms, denominator: Terms) -> Length | int:
    if not denominator:
        raise ZeroDivisionError("division of a length by zero")
    if scope.ask(has_computed, denominator) and scope.ask(least, denominator) < 1:
        raise Indefinite(f"a length divided by ({text(denominator)}), which may be 0")
    if not is_fixed(denominator) and scope.decide(denominator, "=="):
        raise ZeroDivisionError("division of a length by zero")
    if not is_fixed(denominator) and scope.decide(denominator, "<"):
        raise Indefinite(f"a length divided by ({text(denominator)}), which is negative")
    if is_fixed(denominator) and fixed(denominator) < 0:
        return _quotient(scope, scope.derive(negative, numerator), negative(denominator))
    return made(scope, scope.derive(simple_quotient, numerator, denominator))
