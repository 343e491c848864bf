"""What polynomials over open lengths are at the least and at the most."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import lru_cache, reduce

from circlet.runtime.ir.terms import (
    MEMO_SIZE,
    MOST_PRODUCT,
    Atom,
    Computed,
    Maximum,
    Monomial,
    Quotient,
    Symbol,
    Terms,
    can_vanish,
    constant,
    fixed,
    has_computed,
    is_computed,
    is_fixed,
    numbers_of,
    product_of,
    quotient_of,
    scaled,
    sum_of,
)

MOST_TERMS = 6
"""Terms whose quotients are looked into for bounds: a choice; margins and counts of windows have up to five."""
DEPTH = 6
"""Atoms in a row that are written as others for the sake of bounds: margins of four strides in each other need five.
Each may be written in several ways, so that without an end nested maxima take half a minute."""
LEAST_OF = 2
"""Smaller ones of two, in one sum, that bounds are found of: a choice."""
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}


def least(terms: Terms) -> int:
    """What terms are at least, for any lengths; it may be less than that."""
    return bounds(terms)[0]


def compared(relation: str, number: int) -> bool:
    """Whether a number has a relation to 0, by Python's name for it."""
    return _COMPARE[relation](number, 0)


def certain_of(terms: Terms, relation: str) -> bool | None:
    """Whether terms have a relation to 0; None where they do for some lengths alone."""
    low, high = bounds(terms)
    if relation in ("==", "!="):
        return None if low <= 0 <= high and can_vanish(terms) else relation == "!="
    found = {compared(relation, each) for each in (low, high)}
    return found.pop() if len(found) == 1 else None


def maximum_of(one: Terms, other: Terms) -> Terms:
    """The larger one of two."""
    difference = sum_of(one, scaled(other, -1))
    low, high = bounds(difference)
    if low < 0 < high and has_computed(difference):
        low, high = max(low, -_most_late(scaled(difference, -1))), min(high, _most_late(difference))
    if low >= 0 or high <= 0:
        return one if low >= 0 else other
    first, second = sorted((one, other), key=repr)
    return ((1, (Maximum(first, second),)),)


def _most_late(terms: Terms) -> int:
    """What terms are at most, of which a run computes some, such as how many elements are left where it counts others:
    what a count is at the most may cancel."""
    above = bound_of(terms)
    return MOST_PRODUCT if above is None else bounds(above)[1]


def simple_quotient(numerator: Terms, denominator: Terms) -> Terms:
    """A quotient, rounded down; the denominator is positive. Of the larger one of two by a number it is the larger or
    the smaller one of two quotients, where these are simple and it is not."""
    plain = quotient_of(numerator, denominator)
    if not is_fixed(denominator) or _atoms(plain) <= _atoms(numerator):
        return plain
    for factor, atoms in numerator:
        if len(atoms) == 1 and isinstance(larger := atoms[0], Maximum):
            others = sum_of(numerator, ((-factor, atoms),))
            sums = [sum_of(others, scaled(each, factor)) for each in (larger.one, larger.other)]
            ends = [quotient_of(each, denominator) for each in sums]
            if _atoms(*ends) <= _atoms(*sums):
                sign = 1 if factor > 0 else -1
                return scaled(maximum_of(*(scaled(each, sign) for each in ends)), sign)
    return plain


def _atoms(*sums: Terms) -> set[Atom]:
    """What products in sums are of."""
    return {each for terms in sums for _, atoms in terms for each in atoms}


@lru_cache(MEMO_SIZE)
def bounds(terms: Terms, depth: int = DEPTH) -> tuple[int, int]:
    """What terms are at least and at most for any lengths; the bounds need not be the closest. So many atoms in a row
    are written as others."""
    low, high = _by_term(terms)
    if depth == 0:
        return low, high
    if len(terms) > MOST_TERMS and len(parts := _apart(terms)) > 1:
        lows, highs = zip(*(bounds(each, depth) for each in parts), strict=True)
        return max(low, sum(lows)), min(high, sum(highs))
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
    larger = [(factor, atoms, top) for factor, atoms in terms if (top := _larger(atoms)) is not None]
    if low < high and len(terms) <= MOST_TERMS and larger:
        least, most = _without_maximum(terms, *max(larger, key=lambda each: len(repr(each[2]))), depth - 1)
        low, high = max(low, least), min(high, most)
    return low, high


def _apart(terms: Terms) -> list[Terms]:
    """Terms in parts that hang on none of the same lengths."""
    found: list[tuple[set[int], Terms]] = []
    for each in terms:
        joined: Terms = (each,)
        numbers = numbers_of(joined, Symbol, Computed)
        for other, part in [part for part in found if not numbers.isdisjoint(part[0])]:
            numbers, joined = numbers | other, (*part, *joined)
            found.remove((other, part))
        found.append((numbers, joined))
    return [part for _, part in found]


def _without_multiple(terms: Terms, factor: int, quotient: Quotient, depth: int) -> tuple[int, int]:
    """Bounds of terms, with the product of a quotient and its denominator times a factor among them, which is the
    numerator or less than the denominator less."""
    product = product_of(((1, (quotient,)),), quotient.denominator)
    ends = [sum_of(sum_of(terms, scaled(product, -factor)), scaled(each, factor)) for each in (
        quotient.numerator, sum_of(sum_of(quotient.numerator, scaled(quotient.denominator, -1)), constant(1)))]
    found = [bounds(each, depth) for each in ends]
    return min(low for low, _ in found), max(high for _, high in found)


def _larger(atoms: Monomial) -> Maximum | None:
    """The maximum among factors of which no other one is below 0; None where there is none."""
    for number, each in enumerate(atoms):
        if isinstance(each, Maximum) and all(_range(other)[0] >= 0 for other in (*atoms[:number], *atoms[number + 1:])):
            return each
    return None


def _without_maximum(terms: Terms, factor: int, atoms: Monomial, maximum: Maximum, depth: int) -> tuple[int, int]:
    """Bounds of terms, with a product of a maximum times a factor among them, which is that of one or the other of what
    it is of, and not less than either."""
    rest = list(atoms)
    rest.remove(maximum)
    others, scale = sum_of(terms, ((-factor, atoms),)), ((factor, tuple(rest)),)
    lows, highs = zip(*(bounds(sum_of(others, product_of(each, scale)), depth)
                        for each in (maximum.one, maximum.other)), strict=True)
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
    lowest = 0
    for factor, atoms in terms:
        least = most = 1
        for each in atoms:
            down, up = _range(each)
            lowest = min(lowest, down)
            corners = (least * down, least * up, most * down, most * up)
            least, most = min(corners), max(corners)
        if len(atoms) > 1:
            least, most = max(least, -MOST_PRODUCT), min(most, MOST_PRODUCT)
        low += factor * (least if factor > 0 else most)
        high += factor * (most if factor > 0 else least)
    if lowest == 0 and len({factor > 0 for factor, atoms in terms if atoms}) < 2:
        return low, high
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
        return atom.least, atom.most
    if isinstance(atom, Computed):
        return atom.least, max(bounds(atom.most)[1], atom.least)
    if isinstance(atom, Quotient):
        (low, high), (down, up) = bounds(atom.numerator), bounds(atom.denominator)
        down = max(down, 1)
        return low // (down if low < 0 else max(up, 1)), high // (down if high > 0 else max(up, 1))
    (low, high), (down, up) = bounds(atom.one), bounds(atom.other)
    return max(low, down), max(high, up)


def bound_of(terms: Terms, depth: int = LEAST_OF) -> Terms | None:
    """What terms are at the most, without what the run computes; None where that cannot be told. So many maxima are
    looked into that are taken away, as the smaller one of two numbers is the one without what it is more."""
    by_term = _bound_by_term(terms)
    taken = next(((factor, atoms, each) for factor, atoms in terms if factor < 0 for each in atoms if _is_late_maximum(
        each) and all(_range(other)[0] >= 0 for other in atoms if other is not each)), None)
    if depth == 0 or taken is None:
        return by_term
    factor, atoms, maximum = taken
    assert isinstance(maximum, Maximum)
    rest = ((factor, tuple(each for each in atoms if each is not maximum)),)
    others = sum_of(terms, ((-factor, atoms),))
    ends = (bound_of(sum_of(others, product_of(rest, each)), depth - 1) for each in (maximum.one, maximum.other))
    return reduce(_smaller, ends, by_term)


def _is_late_maximum(atom: Atom) -> bool:
    """Whether an atom is the larger one of two numbers that the run computes."""
    return isinstance(atom, Maximum) and is_computed(atom)


def _smaller(one: Terms | None, other: Terms | None) -> Terms | None:
    """The smaller one of two, of which None is more than any."""
    if one is None or other is None:
        return other if one is None else one
    return sum_of(one, scaled(maximum_of(sum_of(one, scaled(other, -1)), ()), -1))


def _bound_by_term(terms: Terms) -> Terms | None:
    """As `bound_of`, of each term for itself."""
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
    if not isinstance(atom, Quotient):
        return None
    below = _least_of(atom.numerator)
    if has_computed(atom.denominator) and below is not None and bounds(atom.denominator)[0] > 0:
        return scaled(maximum_of(scaled(below, -1), ()), -1)
    return _bounding_quotient(below, atom.denominator)


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
