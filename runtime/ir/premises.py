"""What is taken for granted of lengths and of numbers that only a run tells, where that tells more of a model, and of
which lengths it cannot be, as loops go on to change them; who asks of lengths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from circlet.runtime.ir.terms import Assumption, Terms, hangs_on
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.ir.asked import Asked

T = TypeVar("T")
"""What answers a question."""
TermsT = TypeVar("TermsT", bound="Terms | None")
"""What follows from terms."""

OTHERS = (2, 3)
"""Lengths instead of 0 and 1 for which a question is asked as well."""
_NONE: Mapping[int, int] = MappingProxyType({})


class ToldApart(Exception):
    """What would be derived for lengths of 0 or 1 holds for no others."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__()
        self.numbers = tuple(numbers)
        """Of the lengths, among the open ones."""


@dataclass(frozen=True)
class Premises:
    """What code may rely on; a run for which it does not hold takes other code, or leaves it."""

    least: Mapping[int, int] = _NONE
    """The least lengths, by number, where that is not what a symbol stands for anyway; 0 where there may be nothing."""
    told: int = 0
    """What numbers that the run tells, and sizes follow from, are at the least."""
    promises: bool = False
    """Whether positions that the run tells are taken to lie on the axes that they are of, and sizes of which only a run
    tells whether they are equal to be so where they must be, but for those of 1."""
    from_start: bool = False
    """Whether positions at which parts begin may be 0 all the same."""

    @property
    def empty(self) -> frozenset[int]:
        """The lengths, by number, that may be 0."""
        return frozenset(number for number, least in self.least.items() if not least)

    def serve(self, lengths: Sequence[int]) -> bool:
        """Whether none of the open lengths is 0 that may not be."""
        return all(lengths) or self.empty.issuperset(number for number, each in enumerate(lengths) if not each)

    def alone(self, found: Assumption, lengths: Sequence[int]) -> Sequence[int]:
        """The numbers of those among lengths that are 0, or of those that are 1, if something is so for these alone,
        rather than for some others, too."""
        none = [each for each in self.empty if not lengths[each] and hangs_on(found.terms, each)]
        ones = [number for number, each in enumerate(lengths) if each == 1 and hangs_on(found.terms, number)]
        if not (none or ones) or (none and _is_sum(found, none)):
            return ()
        for one, other in product(OTHERS, repeat=2):
            instead = dict.fromkeys(none, one) | dict.fromkeys(ones, other)
            if found.fits([instead.get(number, each) for number, each in enumerate(lengths)]):
                return ()
        return sorted(none) or ones

    @property
    def told_part(self) -> int:
        """As `told`, of numbers that say where parts begin and end."""
        return self.told if self.promises else 0


NO_PREMISES = Premises()


def _is_sum(found: Assumption, none: Collection[int]) -> bool:
    """Whether lengths of nothing and others add up to what is assumed, so that others do if it changes with them."""
    return found.relation == "==" and found.holds and any(
        atoms and not any(hangs_on(((factor, atoms),), each) for each in none) for factor, atoms in found.terms)


class Promised:
    """Which sizes of one derivation were taken to be equal."""

    def __init__(self) -> None:
        self.terms: list[Terms] = []
        """What is 0 then; code leaves a run where one of them turns out not to be."""
        self.is_closed = False
        """Whether no more are taken."""


class Turns:
    """Which of the lengths of one derivation change from turn to turn of loops."""

    def __init__(self) -> None:
        self._begins: dict[int, int | None] = {}
        self._over: set[int] = set()
        """Those of loops that are over, in what is derived next."""
        self._least: dict[tuple[int, int], int] = {}
        """What the turns of a loop take a length to be at the least, by the loop's body and the length's number; the
        condition, and what comes after the loop, do not."""

    def add(self, number: int, begin: int | None) -> None:
        """A length changes so; `begin` is what it begins with if no turn makes it shorter."""
        self._begins[number] = begin

    def take(self, body: int, number: int, least: int) -> None:
        """The turns of a loop with some body take a length to be so large at the least."""
        self._least[body, number] = least

    def taken(self, body: int) -> Mapping[int, int]:
        """The lengths, by number, of which the turns of a loop with some body take that, and how large."""
        return {number: least for (index, number), least in self._least.items() if index == body}

    def forget(self, first: int) -> None:
        """There are no lengths from a number on, and there may be others."""
        self._least = {key: least for key, least in self._least.items() if key[1] < first}

    def end(self, numbers: Iterable[int | None]) -> None:
        """A loop is over: its lengths stay what they came to."""
        self._over.update(each for each in numbers if each is not None and each in self._begins)

    def begin(self, number: int | None) -> int | None:
        """What a length begins with if no turn makes it shorter; None where one does, or for other lengths."""
        return None if number is None else self._begins.get(number)

    def has(self, number: int | None) -> bool:
        """Whether a length changes so, or did."""
        return number in self._begins

    def change(self, terms: Terms) -> bool:
        """Whether terms hang on lengths that change so, or did."""
        return any(hangs_on(terms, each) for each in self._begins)

    def go_on(self, terms: Terms) -> bool:
        """Whether terms hang on lengths of loops that are not over."""
        return any(hangs_on(terms, each) for each in self._begins if each not in self._over)


class Asking:
    """Computes of terms, and asks of them; keeps what that was, where somebody wants to know."""

    def __init__(self) -> None:
        self._asked: Asked | None = None

    def derive(self, how: Callable[..., TermsT], *terms: Terms) -> TermsT:
        """What follows from terms, which is a function of them alone."""
        found = how(*terms)
        if self._asked is not None:
            self._asked.derive(how, terms, found)
        return found

    def ask(self, how: Callable[..., T], terms: Terms, *more: Hashable) -> T:
        """The answer to a question about terms, given what it takes besides."""
        asked = self._asked
        if asked is None:
            return how(terms, *more)
        is_whole, asked.is_whole = asked.is_whole, False  # without an answer
        answer = how(terms, *more)
        asked.is_whole = is_whole
        asked.ask(how, (terms,), more, answer)
        return answer

    @contextmanager
    def asking(self, asked: Asked | None) -> Iterator[None]:
        """Notes what is asked inside; or nothing, by `None`."""
        before, self._asked = self._asked, asked
        try:
            yield
        finally:
            self._asked = before
