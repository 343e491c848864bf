"""Open lengths that are others, or sums of others, as was assumed of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain

from circlet.runtime.ir.length import Scope
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.terms import Symbol, Terms, replaced, solved, without_common
from circlet.runtime.records import dataclass

MOST_OF_ONE = 4
"""How often a sum may have one length: a choice."""


@dataclass(frozen=True)
class Sum:
    """Open lengths, by number, that are added up, and a number."""

    numbers: tuple[int, ...]
    more: int = 0

    def of(self, scope: Scope) -> int:
        """What stands for it."""
        return sum(map(scope.symbol, self.numbers), self.more)


def fixed_lengths(scope: Scope) -> tuple[int, ...]:
    """The numbers of open lengths that are assumed to be some number each."""
    found = []
    for terms in _held(scope):
        match _simplified(terms):
            case ((_, (Symbol(number),)), (_, ())) | ((_, ()), (_, (Symbol(number),))) if number < scope.opened:
                found.append(number)
    return tuple(dict.fromkeys(found))


def equalities(scope: Scope) -> dict[int, Sum]:
    """The numbers of open lengths that are assumed to be equal to others, with the least one of those, or to be sums of
    some of those that are not, as the mask of a decoder is as long as what it has kept and what is new."""
    held = _held(scope)
    pairs = _pairs(held, scope.opened)
    sums: dict[int, Sum] = {}
    for terms in held:
        found = _sum(terms, pairs, scope.opened)
        if found is not None and found[0] not in sums and not _are_entangled(*found, sums):
            sums[found[0]] = found[1]
    return {number: sums.get(least, Sum((least,))) for number, least in pairs.items()} | sums


def asked_elsewhere(scope: Scope) -> dict[int, int]:
    """The numbers of open lengths that are assumed to be equal to others, with the least one of those, where that is
    asked for more than to lay parts together."""
    held = [_simplified(each.terms) for each in scope.assumptions
            if each.relation == "==" and each.holds and each not in scope.together]
    return _pairs(held, scope.opened)


@contextmanager
def laying(scope: Scope | None, op: Op) -> Iterator[None]:
    """Notes what is assumed inside for an operator, if that is to lay parts together."""
    if scope is None or not op.lays_together:
        yield
        return
    before = scope.assumptions
    yield
    scope.together.update(scope.assumptions[len(before):])


def _held(scope: Scope) -> list[Terms]:
    """What is assumed to be 0, also with what quotients are."""
    held = [_simplified(each.terms) for each in scope.assumptions if each.relation == "==" and each.holds]
    quotients = dict(filter(None, map(solved, held)))
    return [*held, *(replaced(each, quotients) for each in held)]


def _simplified(terms: Terms) -> Terms:
    """Terms without the factors that all of them have."""
    return tuple(chain(*without_common(terms[:1], terms[1:]))) if len(terms) > 1 else terms


def _pairs(held: Iterable[Terms], opened: int) -> dict[int, int]:
    """The numbers of lengths that are equal to others, with the least one of those."""
    found: dict[int, int] = {}
    for terms in held:
        pair = _pair(terms)
        if pair is not None and max(pair) < opened:
            one, other = sorted(found.get(number, number) for number in pair)
            found = {**found, other: one} | {number: one for number, least in found.items() if least == other}
    return {number: least for number, least in found.items() if number != least}


def _pair(terms: Terms) -> tuple[int, int] | None:
    """The numbers of two lengths that are equal where terms are 0, maybe times others; None where these are no such."""
    if len(terms) != 2:
        return None
    match without_common(terms[:1], terms[1:]):
        case ((factor, (Symbol(one),)),), ((other_factor, (Symbol(other),)),) if factor + other_factor == 0:
            return one, other
    return None


def _sum(terms: Terms, pairs: Mapping[int, int], opened: int) -> tuple[int, Sum] | None:
    """A length, by number, and the sum that it is where terms are 0; None where there is no such."""
    factors: Counter[int] = Counter()
    more = 0
    for factor, atoms in _simplified(terms):
        match atoms:
            case ():
                more = factor
            case (Symbol(number),) if number < opened:
                factors[pairs.get(number, number)] += factor
            case _:
                return None
    for number, factor in factors.items():
        others = {other: -factor * each for other, each in factors.items() if other != number and each}
        rest = -factor * more
        if abs(factor) == 1 and others and rest >= 0 and all(0 < each <= MOST_OF_ONE for each in others.values()) and (
                rest or sum(others.values()) > 1):
            return number, Sum(tuple(sorted(Counter(others).elements())), rest)
    return None


def _are_entangled(number: int, found: Sum, sums: Mapping[int, Sum]) -> bool:
    """Whether a sum is of lengths that are sums themselves, or such are of it."""
    return not sums.keys().isdisjoint(found.numbers) or any(number in each.numbers for each in sums.values())
