"""What is asked of open lengths while something is made of some of them, so that what was made serves other lengths of
which everything is the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.terms import Terms, is_fixed
from circlet.runtime.records import dataclass

TermsT = TypeVar("TermsT", bound="Terms | None")
"""What follows from terms."""


@dataclass(frozen=True)
class _Step:
    """Something that was computed of terms, or asked of them."""

    how: Callable[..., object]
    terms: tuple[Terms, ...]
    more: tuple[Hashable, ...] = ()
    """What it takes besides."""


class Asked:
    """What was computed of some lengths, and asked of them and of that, in order."""

    def __init__(self, given: Iterable[Terms]) -> None:
        self._given = tuple(given)
        self._known = set(self._given)
        self._derived: dict[_Step, Terms] = {}
        self._answers: dict[_Step, object] = {}
        self._steps: list[tuple[_Step, bool]] = []
        """Each, and whether terms follow from it."""
        self.is_whole = True
        """Whether all of it follows from the lengths, and every question had an answer."""

    def derive(self, how: Callable[..., TermsT], terms: tuple[Terms, ...], found: TermsT) -> None:
        """Notes what follows from terms."""
        if found is None:
            self.ask(how, terms, (), None)
            return
        step = _Step(how, terms)
        if step not in self._derived:
            self._expect(terms)
            self._known.add(found)
            self._derived[step] = found
            self._steps.append((step, True))

    def ask(self, how: Callable[..., object], terms: tuple[Terms, ...], more: tuple[Hashable, ...],
            answer: object) -> None:
        """Notes the answer to a question, which may be another one later."""
        step = _Step(how, terms, more)
        if step not in self._answers:
            self._expect(step.terms)
            self._answers[step] = answer
            self._steps.append((step, False))
        elif self._answers[step] != answer:
            self.is_whole = False

    def _expect(self, terms: Iterable[Terms]) -> None:
        self.is_whole = self.is_whole and all(is_fixed(each) or each in self._known for each in terms)

    def knows(self, terms: Terms) -> bool:
        """Whether terms are among the lengths, or follow from them."""
        return terms in self._known

    def others(self, others: Sequence[Terms]) -> Mapping[Terms, Terms] | None:
        """What is in the place of the lengths, and of all that followed from them, where these are others; None where
        something is not the same of those.

        Raises:
            ToldApart: as where it is asked for the sake of what is made of them.
        """
        found = _Instead()
        if not all(map(found.put, self._given, others)):
            return None
        for step, gives_terms in self._steps:
            try:
                answer = step.how(*map(found, step.terms), *step.more)
            except (Unknown, ArithmeticError):
                return None
            if gives_terms:
                if answer is None or not found.put(self._derived[step], answer):  # type: ignore[arg-type]  # are terms
                    return None
            elif answer != self._answers[step]:
                return None
        return found.known


class _Instead:
    """Terms in the place of others, of which equal ones are equal, others differ, and numbers are the same."""

    def __init__(self) -> None:
        self.known: dict[Terms, Terms] = {}
        self._back: dict[Terms, Terms] = {}

    def __call__(self, terms: Terms) -> Terms:
        return terms if is_fixed(terms) else self.known[terms]

    def put(self, one: Terms, other: Terms) -> bool:
        """Puts one in the place of another, if that may be."""
        if is_fixed(one) or is_fixed(other):
            return one == other
        return self.known.setdefault(one, other) == other and self._back.setdefault(other, one) == one
