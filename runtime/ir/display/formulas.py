"""Numbers that integers are for some lengths, as text of Python's."""

from __future__ import annotations

from circlet.runtime.ir.terms import Assumption, Atom, Computed, Quotient, Symbol, Terms, text


class Formulas:
    """Writes terms: what they have in common is computed once. Lengths are `n0`, `n1` and so on, what is computed of
    them `v0`, `v1`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        """Statements that come before all that was written."""
        self.lengths: set[int] = set()
        """The numbers of the lengths in it."""
        self._values: dict[Atom, str] = {}

    def __call__(self, terms: Terms) -> str:
        """An expression for the number that terms are."""
        return text(terms, self._name)

    def fault(self, assumption: Assumption) -> str:
        """An expression for whether something that is assumed is not so."""
        relations = ("!=", "==") if assumption.relation == "==" else (">=", "<")
        return f"{self(assumption.terms)} {relations[not assumption.holds]} 0"

    def _name(self, atom: Atom) -> str:
        if isinstance(atom, (Symbol, Computed)):
            self.lengths.add(atom.number)
            return f"n{atom.number}"
        if atom not in self._values:
            value = self._value(atom)
            self._values[atom] = f"v{len(self._values)}"
            self.lines.append(f"{self._values[atom]} = {value}")
        return self._values[atom]

    def _value(self, atom: Atom) -> str:
        if isinstance(atom, Quotient):
            return f"({self(atom.numerator)}) // (({self(atom.denominator)}) or 1)"
        assert not isinstance(atom, (Symbol, Computed)), "a length is no value"
        return f"max({self(atom.one)}, {self(atom.other)})"
