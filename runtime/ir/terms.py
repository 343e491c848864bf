"""Polynomials with integer coefficients over open lengths, quotients and maxima."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from math import gcd, prod
from operator import itemgetter
from typing import ClassVar, TypeAlias

from circlet.runtime.records import dataclass

LEAST = 1
"""The least length that a symbol stands for, unless it says another one. Axes of length 0 are mostly another matter:
nothing is computed."""
MOST = 1 << 40
"""More than any length."""
MOST_PRODUCT = 1 << 60
"""More than any product of lengths, and less than what exporters write for the end of any axis."""
MOST_ROOM = 1 << 24
"""The most that there is room for where lengths change: less than what exporters write for the end of any axis, and an
integer that float32 has, as all below it."""
MEMO_SIZE = 1 << 12
"""Results that are kept of what is computed of terms again and again: more than the shapes of a large model have."""
MOST_PARTS = 8
"""Terms of quotients by sums: a choice."""


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
    most: int = MOST
    """What it is at the least and at the most."""

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


def hangs_on_any(terms: Terms, numbers: Collection[int]) -> bool:
    """Whether terms hang on one of some lengths, by number."""
    return any(hangs_on(terms, each) for each in numbers)


def number_of(terms: Terms, kind: type[Symbol | Computed]) -> int | None:
    """The number of an atom of a kind, if there is nothing else."""
    if len(terms) == 1:
        factor, atoms = terms[0]
        if factor == 1 and len(atoms) == 1 and isinstance(atom := atoms[0], (Computed, Symbol)):
            return atom.number if isinstance(atom, kind) else None
    return None


def divisor_of(terms: Terms) -> int:
    """What divides terms for all lengths."""
    return gcd(*(factor for factor, _ in terms))


def has_computed(terms: Terms) -> bool:
    """Whether terms are known only after a part of the run."""
    return any(is_computed(each) for _, atoms in terms for each in atoms)


def is_computed(atom: Atom) -> bool:
    """Whether an atom is known only after a part of the run."""
    return atom.is_computed if isinstance(atom, (Quotient, Maximum)) else isinstance(atom, Computed)


def computed_numbers(terms: Terms) -> set[int]:
    """The numbers of the lengths that the run computes and that terms hang on."""
    return numbers_of(terms, Computed)


def divides_by_open(terms: Terms) -> bool:
    """Whether a denominator among terms is no number, so that where they are not asked for it may be 0."""
    def holds(atom: Atom) -> bool:
        if isinstance(atom, Quotient):
            return not is_fixed(atom.denominator) or divides_by_open(atom.numerator)
        return isinstance(atom, Maximum) and (divides_by_open(atom.one) or divides_by_open(atom.other))

    return any(holds(each) for _, atoms in terms for each in atoms)


def numbers_of(terms: Terms, *kinds: type[Symbol | Computed]) -> set[int]:
    """The numbers of the lengths of some kinds that terms hang on."""
    found: set[int] = set()
    for atom in (each for _, atoms in terms for each in atoms):
        if isinstance(atom, Quotient):
            found |= numbers_of(atom.numerator, *kinds) | numbers_of(atom.denominator, *kinds)
        elif isinstance(atom, Maximum):
            found |= numbers_of(atom.one, *kinds) | numbers_of(atom.other, *kinds)
        elif isinstance(atom, kinds):
            found.add(atom.number)
    return found


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


def text(terms: Terms, name: Callable[[Atom], str] | None = None) -> str:
    """Terms for people, e.g. `2*n0 + 1`; atoms as something else names them, if it is given."""
    parts = []
    for factor, atoms in terms:
        names = [(name or _name)(each) for each in atoms]
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
    terms = [(factor, atoms) for atoms, factor in found.items() if factor]
    return tuple(sorted(terms, key=_place) if len(terms) > 1 else terms)


def _place(term: tuple[int, Monomial]) -> tuple[int, str]:
    """Where a product is among others."""
    return _place_of(term[1])


@lru_cache(MEMO_SIZE)
def _place_of(atoms: Monomial) -> tuple[int, str]:
    return -len(atoms), repr(atoms)


@lru_cache(MEMO_SIZE)
def _joined(some: Monomial, more: Monomial) -> Monomial:
    """The product of two products."""
    return tuple(sorted((*some, *more), key=repr))


def sum_of(one: Terms, other: Terms) -> Terms:
    """The sum of two."""
    if not one or not other:
        return one or other
    found = {atoms: factor for factor, atoms in one}
    for factor, atoms in other:
        found[atoms] = found.get(atoms, 0) + factor
    if len(found) == len(one) or (len(found) == len(one) + 1 and other[-1][1] == () != one[-1][1]):
        return tuple([(factor, atoms) for atoms, factor in found.items() if factor])  # in order, as numbers are last
    return _ordered(found)


def scaled(terms: Terms, by: int) -> Terms:
    """Terms times a number."""
    return tuple((factor * by, atoms) for factor, atoms in terms) if by else ()


def negative(terms: Terms) -> Terms:
    """Terms with the other sign."""
    return scaled(terms, -1)


def difference_of(one: Terms, other: Terms) -> Terms:
    """The difference of two."""
    return sum_of(one, scaled(other, -1))


def product_of(one: Terms, other: Terms) -> Terms:
    """The product of two."""
    if is_fixed(one):
        return scaled(other, fixed(one))
    if is_fixed(other):
        return scaled(one, fixed(other))
    found: dict[Monomial, int] = {}
    for left, some in one:
        for right, more in other:
            atoms = _joined(some, more)
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
    numerator, denominator = without_common(numerator, denominator)
    exact = _exact_quotient(numerator, denominator)
    if exact is not None:
        return exact
    whole, rest = divided(numerator, denominator)
    if rest and is_fixed(rest) and is_fixed(denominator):
        return sum_of(whole, constant(fixed(rest) // fixed(denominator)))
    inner = _inner_quotient(rest) if is_fixed(denominator) else None
    if inner is not None:
        by = fixed(inner.denominator)
        others = sum_of(rest, ((-1, (inner,)),))
        return sum_of(whole, quotient_of(sum_of(inner.numerator, scaled(others, by)), scaled(denominator, by)))
    return sum_of(whole, ((1, (Quotient(rest, denominator),)),)) if rest else whole


def solved(terms: Terms) -> tuple[Quotient, Terms] | None:
    """A quotient that is one of two terms, nothing multiplying it, and what it is where these add up to 0."""
    for place, (factor, atoms) in enumerate(terms if len(terms) == 2 else ()):
        if abs(factor) == len(atoms) == 1 and isinstance(found := atoms[0], Quotient):
            return found, scaled((terms[1 - place],), -factor)
    return None


def replaced(terms: Terms, known: Mapping[Quotient, Terms]) -> Terms:
    """Terms with others in the place of quotients that are factors of them."""
    found: Terms = ()
    for factor, atoms in terms:
        product = constant(factor)
        for each in atoms:
            product = product_of(product, known.get(each, ((1, (each,)),)) if isinstance(each, Quotient) else
                                 ((1, (each,)),))
        found = sum_of(found, product)
    return found


def without_common(numerator: Terms, denominator: Terms) -> tuple[Terms, Terms]:
    """Two sums without the factors that all terms of both have: numbers, and open lengths."""
    both = (*numerator, *denominator)
    by = gcd(*(factor for factor, _ in both)) or 1
    shared: Counter[Atom] = Counter(each for each in denominator[0][1] if isinstance(each, Symbol))
    for _, atoms in both:
        shared &= Counter(atoms)
    if by == 1 and not shared:
        return numerator, denominator
    common = tuple(shared.elements())
    one, other = (_ordered({_without(atoms, common) or (): factor // by for factor, atoms in each})
                  for each in (numerator, denominator))
    return one, other


def _exact_quotient(numerator: Terms, denominator: Terms) -> Terms | None:
    """A quotient by a sum without a remainder; None where there is one."""
    whole: Terms = ()
    left = numerator
    (by, lead), *others = denominator
    for _ in range(MOST_PARTS if others else 0):
        if not left:
            return whole
        factor, atoms = left[0]
        product = _without(atoms, lead)
        if product is None or factor % by:
            return None
        part = ((factor // by, product),)
        whole, left = sum_of(whole, part), sum_of(left, scaled(product_of(part, denominator), -1))
    return None


def _inner_quotient(terms: Terms) -> Quotient | None:
    """The one quotient by a number among terms that nothing multiplies; None where there is none, or are more."""
    found = [each for factor, atoms in terms for each in atoms
             if factor == 1 and len(atoms) == 1 and isinstance(each, Quotient) and is_fixed(each.denominator)]
    return found[0] if len(found) == 1 else None


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
