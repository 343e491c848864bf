"""Open lengths in compiled code: each is computed once, where the function begins, or after what computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import Protocol

from llvmlite import ir
from llvmlite.ir._utils import NameScope

from circlet.backends.native.emit.written.order import last
from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ir.bounds import least
from circlet.runtime.ir.terms import (
    Atom,
    Computed,
    Maximum,
    Monomial,
    Symbol,
    Terms,
    computed_numbers,
    divides_by_open,
    has_computed,
    is_computed,
)
from circlet.runtime.records import dataclass

_I64 = ir.IntType(64)


class _Names(NameScope):  # type: ignore[misc]  # llvmlite is untyped
    """What a function's values are called: those without a name by a number, as llvmlite does it, which looks each up
    among all others."""

    def __init__(self, used: int) -> None:
        """
        Args:
            used: how many values have none yet.
        """
        super().__init__()
        self._unnamed = used

    def register(self, name: str, deduplicate: bool = False) -> str:
        """A name that no other value has."""
        if name or not deduplicate:
            found: str = super().register(name, deduplicate)
            return found
        self._unnamed += 1
        return f".{self._unnamed}"


class Entry:
    """The beginning of a function."""

    def __init__(self, function: ir.Function) -> None:
        if not function.blocks:
            function.scope = _Names(len(function.args) + 1)
        block = function.append_basic_block("entry")
        self.body = function.append_basic_block("body")
        """What comes next."""
        self._block = block
        self._builder = _Inserting(block)
        self._builder.branch(self.body)
        self.front = _Inserting(block)
        """Writes at the beginning of it, behind what it wrote before: what all else may read."""
        self.front.position_at_start(block)

    def builder(self) -> ir.IRBuilder:
        """Writes at the end of it."""
        self._builder.position_before_last(self._block)
        return self._builder


class _Inserting(ir.IRBuilder):  # type: ignore[misc]  # llvmlite is untyped
    """Writes before what ends a block."""

    def position_before_last(self, block: ir.Block) -> None:
        """As `position_before` its last instruction, which takes as long as there are instructions."""
        self._block, self._anchor = block, len(block.instructions) - 1


def _at_end_of(block: ir.Block) -> ir.IRBuilder:
    """Writes before what ends a block."""
    found = _Inserting(block)
    found.position_before_last(block)
    return found


class Beginning(Protocol):
    """Where numbers are computed that do not change."""

    def builder(self) -> ir.IRBuilder:
        """Writes there."""
        ...


@dataclass(eq=False)
class Around:
    """A function that is left for one that it calls, while this is written."""

    function: ir.Function
    builder: ir.IRBuilder
    """Writes before the call."""


class Lengths:
    """What open lengths are in registers."""

    def __init__(self, entry: Beginning, memory: ir.Value, index: ir.IntType) -> None:
        """
        Args:
            entry: of the function.
            memory: an i64 for each open length, then for each that the function computes.
            index: the type of an index.
        """
        self._entry = entry
        self._memory = memory
        self._index = index
        self._found: dict[Terms | Atom, ir.Value] = {}
        self._computed: dict[int, ir.Value] = {}
        self._brought: dict[ir.Value, Terms] = {}
        """What was computed of these, by the registers that hold it."""
        self._placed: dict[Terms, tuple[tuple[ir.Value, ...], ir.Value]] = {}
        """What was written behind all that it is computed of: this, and the register."""
        self._last: dict[tuple[ir.Block, ...], ir.Block] = {}
        """Which of some blocks is passed last."""
        self._written: dict[ir.Block, dict[Terms, ir.Value]] = {}
        """What was written where it is used, by block."""
        self._turning: frozenset[int] = frozenset()
        self._places: dict[int, ir.Value] = {}
        """Where the caller of the function has lengths."""
        self._noted: dict[ir.Value, Terms] | None = None

    @contextmanager
    def noting(self, noted: dict[ir.Value, Terms]) -> Iterator[None]:
        """Adds the registers that are asked for inside, and what is in them; no terms where that are several."""
        before, self._noted = self._noted, noted
        try:
            yield
        finally:
            self._noted = before

    def define(self, b: ir.IRBuilder, number: int, value: ir.Value) -> None:
        """Says what a length is that the function computes; the caller of the function finds it in memory."""
        self._computed[number] = value
        self._written.clear()
        self.ask(b, number, value)

    def ask(self, b: ir.IRBuilder, number: int, value: ir.Value) -> None:
        """Says what an open length is to be when the function is entered again."""
        if number not in self._places:
            place = self._entry.builder().gep(self._memory, [ir.Constant(_I64, number)], source_etype=_I64)
            self._places[number] = place
        b.store(b.sext(value, _I64), self._places[number])

    def recall(self, b: ir.IRBuilder, number: int) -> None:
        """Takes a length from memory that another function computed."""
        self._computed[number] = self._loaded(b, number)
        self._written.clear()

    def _loaded(self, b: ir.IRBuilder, number: int) -> ir.Value:
        place = b.gep(self._memory, [ir.Constant(_I64, number)], source_etype=_I64)
        return b.trunc(b.load(place, typ=_I64), self._index)

    @contextmanager
    def turning(self, numbers: Iterable[int]) -> Iterator[None]:
        """Computed lengths change from turn to turn of a loop that is written inside."""
        before, self._turning = self._turning, self._turning.union(numbers)
        try:
            yield
        finally:
            self._turning = before

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """What is said of computed lengths inside is not known behind it, where the code is that is entered instead."""
        before = dict(self._computed)
        yield
        self._computed = before
        self._written.clear()

    def is_final(self, number: int) -> bool:
        """Whether it was said what a computed length is, for good."""
        return number in self._computed and number not in self._turning

    def is_defined(self, number: int) -> bool:
        """Whether it was said what a computed length is."""
        return number in self._computed

    def late(self, value: ir.Value) -> Callable[[ir.IRBuilder], ir.Value] | None:
        """What computes anew, where it is asked to, a value that hangs on what the function computes; None for
        others."""
        terms = self._brought.get(value)
        if terms is not None:
            return lambda b: self._late(terms, b)
        number = next((number for number, each in self._computed.items() if each is value), None)
        return None if number is None else lambda b: self._computed[number]

    def register(self, terms: Terms, here: ir.IRBuilder, around: Sequence[Around] = ()) -> ir.Value:
        """The index that a length is; written `here` where it hangs on what the function computes, or in the first of
        the functions `around` that has all of that, so that what is called is alike for lengths that differ."""
        found = self._register(terms, here, around)
        if self._noted is not None:
            self._noted[found] = terms if self._noted.get(found, terms) == terms else ()
        return found

    def _register(self, terms: Terms, here: ir.IRBuilder, around: Sequence[Around]) -> ir.Value:
        if has_computed(terms):
            known = (each.builder for each in around if self._is_known(terms, each.function))
            return self._late(terms, next(known, here), around)
        if terms not in self._found:
            self._found[terms] = self._sum(terms, self._entry.builder())
        return self._found[terms]

    def _is_known(self, terms: Terms, function: ir.Function) -> bool:
        """Whether all that terms hang on is computed in a function."""
        known = (self._computed[number] for number in computed_numbers(terms))
        return all(getattr(each, "function", function) is function for each in known)

    def _late(self, terms: Terms, b: ir.IRBuilder, around: Sequence[Around] = ()) -> ir.Value:
        """What terms are that hang on what the function computes."""
        return self._once(terms, b, partial(self._sum, terms), around)

    def _once(self, terms: Terms, b: ir.IRBuilder, write: Callable[[ir.IRBuilder], ir.Value],
              around: Sequence[Around] = ()) -> ir.Value:
        """What is written of terms: once behind the last of what they hang on, where that can be told, else in each
        block."""
        made_of = tuple([self._computed[number] for number in sorted(computed_numbers(terms))])
        known = self._placed.get(terms)
        if known is not None and known[0] == made_of:
            return known[1]
        written = self._written.setdefault(b.block, {})
        if terms in written:
            return written[terms]
        behind = None if divides_by_open(terms) else self._behind(made_of, (b, *(each.builder for each in around)))
        found = write(behind or b)
        self._brought[found] = terms
        if behind is None:
            written[terms] = found
        else:
            self._placed[terms] = made_of, found
        return found

    def _behind(self, values: Sequence[ir.Value], at_hand: Sequence[ir.IRBuilder]) -> ir.IRBuilder | None:
        """Writes behind the last of some values: one of the builders at hand if it is in that block, as another one
        does not know what is added there."""
        if not all(isinstance(each, ir.Instruction) for each in values):
            return None
        blocks = tuple(dict.fromkeys([each.parent for each in values]))
        block = self._last.get(blocks) or last(blocks)
        if block is None:
            return None
        self._last[blocks] = block
        known = next((each for each in at_hand if each.block is block), None)
        return known or (None if block.terminator is None else _at_end_of(block))

    def _sum(self, terms: Terms, b: ir.IRBuilder) -> ir.Value:
        """
        Raises:
            UnsupportedError: it is computed from what no index holds.
        """
        total: ir.Value | None = None
        for factor, atoms in terms:
            if factor.bit_length() >= self._index.width:
                raise UnsupportedError(f"a length is computed from {factor}, which no index holds")
            value: ir.Value = ir.Constant(self._index, factor)
            parts = [self._several(atoms, b)] if len(atoms) > 1 and has_computed(((1, atoms),)) else [
                self._atom(each, b) for each in atoms]
            for each in parts:
                is_one = isinstance(value, ir.Constant) and value.constant == 1
                value = each if is_one else b.mul(value, each)
            total = value if total is None else b.add(total, value)
        return ir.Constant(self._index, 0) if total is None else total

    def _several(self, atoms: Monomial, b: ir.IRBuilder) -> ir.Value:
        """The product of atoms of which some hang on what the function computes."""
        def write(b: ir.IRBuilder) -> ir.Value:
            return reduce(b.mul, [self._atom(each, b) for each in atoms])

        return self._once(((1, atoms),), b, write)

    def _atom(self, atom: Atom, b: ir.IRBuilder) -> ir.Value:
        if isinstance(atom, Computed):
            return self._computed[atom.number]
        if is_computed(atom):
            return self._once(((1, (atom,)),), b, partial(self._made, atom))
        if atom not in self._found:
            self._found[atom] = self._made(atom, self._entry.builder())
        return self._found[atom]

    def _made(self, atom: Atom, b: ir.IRBuilder) -> ir.Value:
        assert not isinstance(atom, Computed), "it is in a register"
        if isinstance(atom, Symbol):
            return self._loaded(b, atom.number)
        if isinstance(atom, Maximum):
            one, other = self.register(atom.one, b), self.register(atom.other, b)
            return b.select(b.icmp_signed(">", one, other), one, other)
        numerator, denominator = self.register(atom.numerator, b), self.register(atom.denominator, b)
        if least(atom.numerator) >= 0:
            return b.udiv(numerator, denominator)
        quotient = b.sdiv(numerator, denominator)
        is_above = b.icmp_signed("<", numerator, b.mul(quotient, denominator))
        return b.sub(quotient, b.zext(is_above, self._index))
