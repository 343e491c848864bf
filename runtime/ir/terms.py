"""Polynomials with integer coefficients over open lengths, quotients and maxima."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from math import gcd, prod
from operator import itemgetter
from typing import ClassVar, TypeAlias

from circlet.runtime.records import dataclass

LEAST = 1
"""The least length that a symbol stands for, unless it says another one. Axes of length 0 are another matter: nothing
is computed."""
MOST = 1 << 40
"""More than any length."""
MOST_TERMS = 6
"""Terms whose quotients are looked into for bounds: a choice; margins and counts of windows have up to five."""
DEPTH = 6
"""Atoms in a row that are written as others for the sake of bounds: margins of four strides in each other need five.
Each may be written in several ways, so that without an end nested maxima take half a minute."""
MEMO_SIZE = 1 << 12
"""Terms whose bounds are kept: more than the shapes of a large model have."""


class _Kept:
    """Keeps what tells an atom from others: it may be made of many, and is asked again and again."""

    __match_args__: ClassVar[tuple[str, ...]] = ()

    @cached_property
    def digest(self) -> int:
        """The hash of its fields."""
        return hash(tuple(getattr(self, each) for each in self.__match_args__))

    @cached_property
    def written(self) -> str:
        """Its fields as text, by which sums and products are in order."""
        fields = ", ".join(f"{each}={getattr(self, each)!r}" for each in self.__match_args__)
        return f"{type(self).__name__}({fields})"

    def __hash__(self) -> int:
        return self.digest

    def __repr__(self) -> str:
        return self.written


@dataclass(frozen=True)
class Symbol(_Kept):
    """A length that is open, by its number."""

    number: int
    least: int = LEAST
    """What it is at the least."""

    __hash__, __repr__ = _Kept.__hash__, _Kept.__repr__


@dataclass(frozen=True)
class Computed(_Kept):
    """A length that the run computes on its way, by its number behind the open ones; nothing can be assumed of it."""

    number: int
    most: Terms
    """What it is at the most."""
    least: int = 0
    """What it is at the least."""

    __hash__, __repr__ = _Kept.__hash__, _Kept.__repr__


@dataclass(frozen=True)
class Quotient(_Kept):
    """`numerator // denominator`, rounded down; the denominator is positive, as is assumed where it is made."""

    numerator: Terms
    denominator: Terms

    __hash__, __repr__ = _Kept.__hash__, _Kept.__repr__

    @cached_property
    def is_computed(self) -> bool:
        """Whether it is known only after a part of the run."""
        return has_computed(self.numerator) or has_computed(self.denominator)


@dataclass(frozen=True)
class Maximum(_Kept):
    """The larger one of two."""

    one: Terms
    other: Terms

    __hash__, __repr__ = _Kept.__hash__, _Kept.__repr__

    @cached_property
    def is_computed(self) -> bool:
        """Whether it is known only after a part of the run."""
        return has_computed(self.one) or has_computed(self.other)


Atom: TypeAlias = "Symbol | Computed | Quotient | Maximum"
Monomial: TypeAlias = "tuple[Atom, ...]"
Terms: TypeAlias = "tuple[tuple[int, Monomial], ...]"
"""Coefficients, none of them 0, and the products of atoms that they multiply, in one order for equal sums; the product
of no atoms is 1."""


Formula: TypeAlias = Callable[[Sequence[int]], int]
"""The number that an integer is for some lengths."""


def formula_of(terms: Terms) -> Formula:
    """What computes the number that terms are for some lengths."""
    if is_fixed(terms):
        found = fixed(terms)
        return lambda lengths: found
    rest = sum(factor for factor, atoms in terms if not atoms)
    parts = [(factor, tuple(map(_atom_formula, atoms))) for factor, atoms in terms if atoms]
    if len(parts) == 1 and len(parts[0][1]) == 1:
        (factor, (only,)), = parts
        return lambda lengths: factor * only(lengths) + rest
    return lambda lengths: sum([factor * prod([each(lengths) for each in atoms]) for factor, atoms in parts], rest)


def _atom_formula(atom: Atom) -> Formula:
    if isinstance(atom, (Symbol, Computed)):
        return itemgetter(atom.number)
    if isinstance(atom, Quotient):
        numerator, denominator = formula_of(atom.numerator), formula_of(atom.denominator)
        return lambda lengths: numerator(lengths) // (denominator(lengths) or 1)
    one, other = formula_of(atom.one), formula_of(atom.other)
    return lambda lengths: max(one(lengths), other(lengths))


def hangs_on(terms: Terms, number: int) -> bool:
    """Whether terms hang on a length, by its number."""
    def holds(atom: Atom) -> bool:
        if isinstance(atom, (Symbol, Computed)):
            return atom.number == number
        parts = (atom.numerator, atom.denominator) if isinstance(atom, Quotient) else (atom.one, atom.other)
        return any(hangs_on(each, number) for each in parts)

    return any(holds(each) for _, atoms in terms for each in atoms)


def has_computed(terms: Terms) -> bool:
    """Whether terms are known only after a part of the run."""
    return any(is_computed(each) for _, atoms in terms for each in atoms)


def is_computed(atom: Atom) -> bool:
    """Whether an atom is known only after a part of the run."""
    return atom.is_computed if isinstance(atom, (Quotient, Maximum)) else isinstance(atom, Computed)


def bound_of(terms: Terms) -> Terms | None:
    """What terms are at the most, without what the run computes; None where that cannot be told."""
    found: Terms = ()
    for factor, atoms in terms:
        most: Terms | None = ((factor, atoms),)
        pair = _multiple(atoms)
        if pair is not None and factor > 0:
            most = bound_of(scaled(pair.numerator, factor))
        elif any(map(is_computed, atoms)):
            ranges = list(map(_range, atoms))
            is_negative = (factor < 0) ^ (sum(high <= 0 for _, high in ranges) % 2 == 1)
            if is_negative and all(low >= 0 or high <= 0 for low, high in ranges):
                continue
            most = _times(constant(abs(factor)), map(_magnitude, atoms))
        if most is None:
            return None
        found = sum_of(found, most)
    return found


def _magnitude(atom: Atom) -> Terms | None:
    """How far an atom is from 0 at the most, without what the run computes; None where that cannot be told."""
    low, high = _range(atom)
    above, least = _atom_bound(atom) if high > 0 else (), _atom_least(atom) if low < 0 else ()
    return None if above is None or least is None else maximum_of(above, scaled(least, -1))


def _times(product: Terms, factors: Iterable[Terms | None]) -> Terms | None:
    """A product times others, None where one of them is."""
    for each in factors:
        if each is None:
            return None
        product = product_of(product, each)
    return product


def _atom_bound(atom: Atom) -> Terms | None:
    """What an atom is at the most, without what the run computes; None where that cannot be told."""
    if not is_computed(atom):
        return ((1, (atom,)),)
    if isinstance(atom, Computed):
        return atom.most
    if isinstance(atom, Maximum):
        one, other = bound_of(atom.one), bound_of(atom.other)
        return None if one is None or other is None else maximum_of(one, other)
    if not isinstance(atom, Quotient):
        return None
    above = bound_of(atom.numerator)
    if has_computed(atom.denominator) and above is not None and bounds(atom.denominator)[0] > 0:
        return maximum_of(above, ())
    return _bounding_quotient(above, atom.denominator)


def _atom_least(atom: Atom) -> Terms | None:
    """What an atom is at the least, without what the run computes; None where that cannot be told."""
    if not is_computed(atom):
        return ((1, (atom,)),)
    if isinstance(atom, Computed):
        return constant(atom.least)
    if isinstance(atom, Maximum):
        one = _least_of(atom.one)
        return _least_of(atom.other) if one is None else one
    return _bounding_quotient(_least_of(atom.numerator), atom.denominator) if isinstance(atom, Quotient) else None


def _least_of(terms: Terms) -> Terms | None:
    """What terms are at the least, without what the run computes; None where that cannot be told."""
    above = bound_of(scaled(terms, -1))
    return None if above is None else scaled(above, -1)


def _bounding_quotient(numerator: Terms | None, denominator: Terms) -> Terms | None:
    """A quotient of what bounds the numerator, which only the run tells; None where nothing bounds it, or only the run
    tells the denominator."""
    return None if numerator is None or has_computed(denominator) else quotient_of(numerator, denominator)


def _multiple(atoms: Monomial) -> Quotient | None:
    """The quotient of a product of one and its denominator, which is the greatest multiple of this up to the numerator;
    None where atoms are no such product."""
    if len(atoms) != 2:
        return None
    for each, other in (atoms, atoms[::-1]):
        if isinstance(each, Quotient) and each.denominator == ((1, (other,)),) and _range(other)[0] > 0:
            return each
    return None


def value_of(terms: Terms, lengths: Sequence[int]) -> int:
    """The number that terms are for some lengths."""
    return sum(factor * prod(_value(atom, lengths) for atom in atoms) for factor, atoms in terms)


def _value(atom: Atom, lengths: Sequence[int]) -> int:
    if isinstance(atom, (Symbol, Computed)):
        return lengths[atom.number]
    if isinstance(atom, Quotient):
        return value_of(atom.numerator, lengths) // (value_of(atom.denominator, lengths) or 1)
    return max(value_of(atom.one, lengths), value_of(atom.other, lengths))


@dataclass(frozen=True)
class Assumption:
    """Whether `terms` are 0, or less than 0."""

    terms: Terms
    relation: str
    """`==` or `<`."""
    holds: bool

    def fits(self, lengths: Sequence[int]) -> bool:
        """Whether it is so for some lengths."""
        value = value_of(self.terms, lengths)
        return (value == 0 if self.relation == "==" else value < 0) is self.holds


def text(terms: Terms) -> str:
    """Terms for people, e.g. `2*n0 + 1`."""
    parts = []
    for factor, atoms in terms:
        names = [_name(each) for each in atoms]
        parts.append("*".join(names if factor == 1 and names else [str(factor), *names]))
    return " + ".join(parts) or "0"


def _name(atom: Atom) -> str:
    if isinstance(atom, (Symbol, Computed)):
        return f"n{atom.number}"
    if isinstance(atom, Quotient):
        return f"(({text(atom.numerator)}) // ({text(atom.denominator)}))"
    return f"max({text(atom.one)}, {text(atom.other)})"


def is_fixed(terms: Terms) -> bool:
    """Whether terms are a number that is known."""
    return not terms or (len(terms) == 1 and not terms[0][1])


def fixed(terms: Terms) -> int:
    """The number that fixed terms are."""
    return terms[0][0] if terms else 0


def _ordered(found: dict[Monomial, int]) -> Terms:
    return tuple(sorted(((factor, atoms) for atoms, factor in found.items() if factor),
                        key=lambda term: (-len(term[1]), repr(term[1]))))


def sum_of(one: Terms, other: Terms) -> Terms:
    """The sum of two."""
    if not one or not other:
        return one or other
    found = {atoms: factor for factor, atoms in one}
    for factor, atoms in other:
        found[atoms] = found.get(atoms, 0) + factor
    return _ordered(found)


def scaled(terms: Terms, by: int) -> Terms:
    """Terms times a number."""
    return tuple((factor * by, atoms) for factor, atoms in terms) if by else ()


def product_of(one: Terms, other: Terms) -> Terms:
    """The product of two."""
    if is_fixed(one):
        return scaled(other, fixed(one))
    if is_fixed(other):
        return scaled(one, fixed(other))
    found: dict[Monomial, int] = {}
    for left, some in one:
        for right, more in other:
            atoms = tuple(sorted((*some, *more), key=repr))
            found[atoms] = found.get(atoms, 0) + left * right
    return _ordered(found)


def constant(value: int) -> Terms:
    """A number as terms."""
    return ((value, ()),) if value else ()


def divided(numerator: Terms, denominator: Terms) -> tuple[Terms, Terms]:
    """The terms that a denominator of one term divides, divided; and the other ones."""
    if len(denominator) != 1:
        return (constant(1), ()) if numerator == denominator else ((), numerator)
    (by, atoms), = denominator
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for factor, product in numerator:
        left = _without(product, atoms)
        if left is None:
            rest[product] = factor
            continue
        times = factor // by if not product else int(factor / by)
        whole[left] = times
        if factor != times * by:
            rest[product] = factor - times * by
    return _ordered(whole), _ordered(rest)


def quotient_of(numerator: Terms, denominator: Terms) -> Terms:
    """A quotient, rounded down; the denominator is positive."""
    whole, rest = divided(numerator, denominator)
    if rest and is_fixed(rest) and is_fixed(denominator):
        return sum_of(whole, constant(fixed(rest) // fixed(denominator)))
    return sum_of(whole, ((1, (Quotient(rest, denominator),)),)) if rest else whole


def maximum_of(one: Terms, other: Terms) -> Terms:
    """The larger one of two."""
    low, high = bounds(sum_of(one, scaled(other, -1)))
    if low >= 0 or high <= 0:
        return one if low >= 0 else other
    first, second = sorted((one, other), key=repr)
    return ((1, (Maximum(first, second),)),)


def _without(product: Monomial, atoms: Monomial) -> Monomial | None:
    """A product without some of its factors; None where they are none."""
    left = list(product)
    for each in atoms:
        if each not in left:
            return None
        left.remove(each)
    return tuple(left)


def reduced(terms: Terms, relation: str) -> Terms:
    """Terms that are 0, or less than 0, where others are: without a common factor, and of one sign where that is
    free."""
    by = gcd(*(factor for factor, _ in terms)) or 1
    sign = -1 if relation == "==" and terms and terms[0][0] < 0 else 1
    return tuple((sign * factor // by, atoms) for factor, atoms in terms)


def can_vanish(terms: Terms) -> bool:
    """Whether the factors of the atoms let terms be 0."""
    number = sum(factor for factor, atoms in terms if not atoms)
    common = gcd(*(factor for factor, atoms in terms if atoms))
    return number % common == 0 if common else not number


@lru_cache(MEMO_SIZE)
def bounds(terms: Terms, depth: int = DEPTH) -> tuple[int, int]:
    """What terms are at least and at most for any lengths; the bounds need not be the closest. So many atoms in a row
    are written as others."""
    low, high = _by_term(terms)
    if depth == 0:
        return low, high
    multiple = next(((factor, each) for factor, atoms in terms if (each := _multiple(atoms)) is not None), None)
    if low < high and len(terms) <= MOST_TERMS and multiple is not None:
        least, most = _without_multiple(terms, *multiple, depth - 1)
        low, high = max(low, least), min(high, most)
    if low < high and len(terms) <= MOST_TERMS and all(len(atoms) <= 1 for _, atoms in terms):
        found = [(factor, each) for factor, atoms in terms for each in atoms
                 if isinstance(each, Quotient) and is_fixed(each.denominator)]
        if found:
            least, most = _without_quotient(terms, *max(found, key=lambda each: len(repr(each[1]))), depth - 1)
            low, high = max(low, least), min(high, most)
        maximum = next((each for each in terms if len(each[1]) == 1 and isinstance(each[1][0], Maximum)), None)
        if maximum is not None:
            least, most = _without_maximum(terms, maximum[0], maximum[1][0], depth - 1)
            low, high = max(low, least), min(high, most)
    return low, high


def _without_multiple(terms: Terms, factor: int, quotient: Quotient, depth: int) -> tuple[int, int]:
    """Bounds of terms, with the product of a quotient and its denominator times a factor among them, which is the
    numerator or less than the denominator less."""
    product = product_of(((1, (quotient,)),), quotient.denominator)
    ends = [sum_of(sum_of(terms, scaled(product, -factor)), scaled(each, factor)) for each in (
        quotient.numerator, sum_of(sum_of(quotient.numerator, scaled(quotient.denominator, -1)), constant(1)))]
    found = [bounds(each, depth) for each in ends]
    return min(low for low, _ in found), max(high for _, high in found)


def _without_maximum(terms: Terms, factor: int, maximum: Atom, depth: int) -> tuple[int, int]:
    """Bounds of terms, with a maximum times a factor among them, which is one or the other of what it is of, and not
    less than either."""
    assert isinstance(maximum, Maximum)
    others = sum_of(terms, ((-factor, (maximum,)),))
    lows, highs = zip(*(bounds(sum_of(others, scaled(each, factor)), depth) for each in (maximum.one, maximum.other)),
                      strict=True)
    extreme = max if factor > 0 else min
    return extreme(lows), extreme(highs)


def _without_quotient(terms: Terms, factor: int, quotient: Quotient, depth: int) -> tuple[int, int]:
    """Bounds of terms, with a quotient times a factor among them, the deepest one, written as what its remainder leaves
    of the numerator, which may cancel other terms."""
    by = fixed(quotient.denominator)
    others = sum_of(terms, ((-factor, (quotient,)),))
    low, high = bounds(sum_of(scaled(others, by), scaled(quotient.numerator, factor)), depth)
    least, most = sorted((0, -factor * (by - 1)))
    return -(-(low + least) // by), (high + most) // by


def _by_term(terms: Terms) -> tuple[int, int]:
    low = high = 0
    for factor, atoms in terms:
        least = most = 1
        for each in atoms:
            down, up = _range(each)
            corners = (least * down, least * up, most * down, most * up)
            least, most = min(corners), max(corners)
        low += factor * (least if factor > 0 else most)
        high += factor * (most if factor > 0 else least)
    at_least, above = _from_least(terms)
    if all(factor > 0 for factor, _ in above):
        low = max(low, at_least)
    if all(factor < 0 for factor, _ in above):
        high = min(high, at_least)
    return low, high


def _from_least(terms: Terms) -> tuple[int, Terms]:
    """Terms as a polynomial of how much more than their least numbers atoms are: its constant, and the rest of it."""
    total: Terms = ()
    for factor, atoms in terms:
        product = constant(factor)
        for each in atoms:
            product = product_of(product, ((1, (each,)), *constant(_range(each)[0])))
        total = sum_of(total, product)
    return sum(factor for factor, atoms in total if not atoms), tuple(each for each in total if each[1])


def _range(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, Symbol):
        return atom.least, MOST
    if isinstance(atom, Computed):
        return atom.least, max(bounds(atom.most)[1], atom.least)
    if isinstance(atom, Quotient):
        (low, high), (down, up) = bounds(atom.numerator), bounds(atom.denominator)
        down = max(down, 1)
        return low // (down if low < 0 else max(up, 1)), high // (down if high > 0 else max(up, 1))
    (low, high), (down, up) = bounds(atom.one), bounds(atom.other)
    return max(low, down), max(high, up)
