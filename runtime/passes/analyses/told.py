"""Values that only a run tells and that shapes follow from, as lengths that the run computes: how many rows are to be
taken, how large an image is to become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial
from itertools import chain
from math import prod
from operator import attrgetter
from typing import TypeVar, cast

import numpy as np

from circlet.runtime.ir.faults import FAULTS
from circlet.runtime.ir.length import (
    CAPACITY,
    Scope,
    computed_number,
    is_open,
    lowest,
    made,
    scope_of,
    terms_of,
)
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph
from circlet.runtime.ir.op import Op, Operand, Operands, Unknown
from circlet.runtime.ir.ratio import EXACT
from circlet.runtime.ir.terms import hangs_on
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.runtime.late import LOADING
from circlet.runtime.ops.operands import has_gaps, typed
from circlet.runtime.passes.analyses.entry import MOST_NUMBERS, NUMBERS, Values, is_few, sized
from circlet.runtime.records import dataclass, replace

Result = TypeVar("Result")
_CLIPPING = {"MAXIMUM": 2, "REDUCE_MAX": 1}
"""Operators that have another number for what is negative, where one of their numbers is not, such as 0, and how many
inputs have these, as axes are others."""
_WRAPPING = "FLOOR_MOD"
"""The operator that gives no negative numbers, whatever it is given, where what it divides by is positive."""
_PASSING = frozenset({*_CLIPPING, "ADD", "ALIAS", "CAST", "CONCATENATION", "EXPAND_DIMS", "MINIMUM", "MUL", "NEG",
                      "PACK", "REDUCE_MIN", "RESHAPE", "SQUEEZE", "SUB"})
"""Operators whose numbers may be negative where those of their inputs may."""
_KEEPING = frozenset({"ALIAS", "CAST", "EXPAND_DIMS", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE", "SQUEEZE"})
"""Operators that have no other numbers than the first of their inputs, or these rounded towards zero."""
_BEGINNING = frozenset({"SLICE", "STRIDED_SLICE"})
"""Operators whose input 1 says where parts begin."""
MOST_CANCELLED = 1 << 30
"""How far from 0 a number may be that cancels in the lengths that it is computed into: half of what an int32 holds, so
that two of them are added exactly. A choice; a run of which one is further away is left to a frame for any values."""
MOST_FOLLOWED = 64
"""Operators in a row through which numbers are followed: more than exporters write, and no deeper than Python's stack
is. A choice."""


@dataclass(frozen=True, eq=False)
class Told:
    """What the run tells of a subgraph's tensors."""

    values: Mapping[int, Array]
    """By tensor: integers, in terms of lengths."""
    roots: Mapping[int, Array]
    """By tensor, the integers that are such lengths or differences of two, as `parts_of` has them, with None for those
    that follow from others. A value that is less than the length may be is left to frames for any values."""
    passed: Mapping[Operator, Values]
    """What is known of operands to the subgraphs that an operator invokes."""
    taken: Mapping[Operator, int]
    """The branch that an operator is taken to choose, by number, as no other one can be computed. Code leaves a run
    that chooses another one, which has the error."""


NOTHING = Told({}, {}, {}, {})


def parts_of(number: int) -> Sequence[tuple[int, int]]:
    """The lengths that a number which the run tells is made of, each with its sign: what it is above 0 and below, if it
    may be negative."""
    scope, terms = scope_of([number]), terms_of(number)
    assert scope is not None, "the run tells it"
    return [(cast(int, made(scope, ((1, atoms),))), sign) for sign, atoms in terms]


def _members(operator: Operator) -> Sequence[tuple[Op, tuple[int, ...], tuple[int, ...]]]:
    """The operators of a group with their inputs and outputs, or the one that an operator is."""
    return operator.op.joined() or ((operator.op, operator.inputs, operator.outputs),)


def lacks_sizes(operator: Operator, known: Mapping[int, Array]) -> bool:
    """Whether only the run tells sizes or parts of an operator, or of a group of some."""
    return any(tensor not in known for op, inputs, _ in _members(operator) for position, tensor in enumerate(inputs)
               if tensor != ABSENT and position in op.sizes | op.parts_from)


class Teller:
    """Takes values that only a run tells for lengths."""

    def __init__(self, subgraph: Subgraph, scope: Scope, shapes: list[Shape | None], known: Mapping[int, Array],
                 told: Told) -> None:
        """
        Args:
            subgraph: of which tensors are told.
            scope: of the lengths.
            shapes: by tensor, None where they are not known yet; the caller adds to them.
            known: values that are known before the run; the caller adds to them.
            told: so far.
        """
        self._subgraph = subgraph
        self._scope = scope
        self._shapes = shapes
        self._known = known
        self._cancelled: set[int] = set()
        """Tensors that may have any numbers, as these have no part in what follows."""
        self._is_clipped = True
        """Whether numbers of which none below another one counts may be negative; not where an operator would refuse
        the size that these have then."""
        self._has_signed = False
        """Whether some were told that may be negative."""
        self._lacking = 0
        """How much sizes that were told last lacked to be none, as what is computed of a larger number does."""
        self.told = told

    @cached_property
    def _makers(self) -> Mapping[int, Operator]:
        """The operator that gives a tensor."""
        return {tensor: each for each in self._subgraph.operators for tensor in each.outputs}

    @cached_property
    def _inside(self) -> Mapping[int, Operator]:
        """The operator that gives a tensor, of those that a pass put into another one."""
        return {tensor: Operator(op, inputs, outputs) for each in self._subgraph.operators
                for op, inputs, outputs in each.op.joined() for tensor in outputs}

    def _shape(self, tensor: int, depth: int, asked: dict[int, Shape | None] | None = None) -> Shape | None:
        """The shape of a tensor, that of one between operators that were put into another among them.

        Args:
            tensor: the tensor.
            depth: how far it is followed already.
            asked: what was found of others meanwhile, each of which several may be made of.
        """
        asked = {} if asked is None else asked
        if tensor not in asked:
            asked[tensor] = self._shape_inside(tensor, depth, asked)
        return asked[tensor]

    def _shape_inside(self, tensor: int, depth: int, asked: dict[int, Shape | None]) -> Shape | None:
        """The same, of a tensor that was not asked for."""
        found, operator = self._shapes[tensor], self._inside.get(tensor)
        if found is not None or operator is None or depth >= MOST_FOLLOWED:
            return found
        given = {each: self._shape(each, depth + 1, asked) for each in operator.inputs if each != ABSENT}
        operands = [None if each == ABSENT or (shape := given[each]) is None else Operand(
            self._subgraph.tensors[each].dtype, shape, self._known.get(each)) for each in operator.inputs]
        with suppress(Unknown, *FAULTS):
            if None not in given.values():
                return operator.op.infer(Operands(tuple(operands), len(operator.outputs)))[
                    operator.outputs.index(tensor)]
        return None

    def shapes(self, operator: Operator, operands: Callable[[Mapping[int, Array]], Operands]) -> (
            tuple[Shape, ...] | None):
        """The shapes of an operator's results, from its inputs as lengths; None where they do not follow.

        Args:
            operator: the operator.
            operands: its inputs, given values by tensor.
        """
        self._has_signed = False
        found = self._shapes_of(operator, operands)
        if found is None and self._has_signed:
            self._is_clipped = False
            found = self._shapes_of(operator, operands)
            self._is_clipped = True
        return found

    def _shapes_of(self, operator: Operator, operands: Callable[[Mapping[int, Array]], Operands]) -> (
            tuple[Shape, ...] | None):
        """The same, with numbers that are clipped taken as `_is_clipped` says."""
        before = self.told
        has_least = any(op.least_size for op, _, _ in _members(operator))
        for is_counted_from, more in self._ways(has_least and not self._scope.premises.told):
            sizing = partial(self._sized_by, operator, operands, is_counted_from, more)
            with self._scope.tentatively() as keep:
                found = sizing()
                unread = [] if found is None else self._unread(operator, before, found)
                if found is not None and not unread:
                    keep()
                    return found
            if found is not None:
                return self._cancelling(operator, sizing, before, unread)
            self.told = before
        return None

    def _ways(self, has_least: bool) -> Iterator[tuple[bool, int]]:
        """Whether numbers that sizes are counted from may be 0, and how many more are taken for granted."""
        self._lacking = 0
        yield from (((True, 0), (False, 0)) if has_least else ((True, 0),))
        if 0 < self._lacking < CAPACITY:
            yield False, self._lacking

    def _sized_by(self, operator: Operator, operands: Callable[[Mapping[int, Array]], Operands],
                  is_counted_from: bool, more: int) -> tuple[Shape, ...] | None:
        """The same, for which it tells numbers; any that sizes are counted from, or as large ones as sizes are, and so
        many more."""
        sizes, parts, starts = self._asked(operator)
        least = max(op.least_size for op, _, _ in _members(operator))
        premises = self._scope.premises
        for each in sizes:
            self._follow(each)
            self._tell_size(each, (least if each in starts else max(least, premises.told)) + more, is_counted_from)
        begins = {inputs[1] for op, inputs, _ in _members(operator) if op.name in _BEGINNING}
        for each in parts:
            may_be_none = premises.from_start and each in begins
            self._tell(each, 0 if may_be_none else premises.told_part, None if premises.promises else self._sized)
        values = {each: self.told.values[each] for each in (*sizes, *parts) if each in self.told.values}
        if not values or len(values) < len({*sizes, *parts}):
            return None
        try:
            return operator.op.infer(operands({**self._known, **values}))
        except (Unknown, *FAULTS):
            self._lacking = max((-lowest(each) for size in sizes for each in values[size].flat), default=0)
            return None

    def _asked(self, operator: Operator) -> tuple[list[int], list[int], list[int]]:
        """The inputs of an operator that sizes, parts and starts follow from, of those that are not known."""
        given = {*operator.inputs} - {ABSENT, *self._known}
        sizes, parts, starts = ([tensor for op, inputs, _ in _members(operator) for position, tensor in
                                 enumerate(inputs) if position in among(op) and tensor in given]
                                for among in map(attrgetter, ("sizes", "parts_from", "starts")))
        return sizes, parts, starts

    def _unread(self, operator: Operator, before: Told, found: tuple[Shape, ...]) -> list[int]:
        """The tensors whose numbers were told for an operator, and have no part in what was found."""
        sizes, parts, _ = self._asked(operator)
        read = [terms_of(number) for number in chain(*found, *(self.told.values[each].flat for each in (
            *sizes, *parts)))]
        return [tensor for tensor in self.told.roots.keys() - before.roots.keys()
                if not any(hangs_on(terms, number) for number in self._lengths_of(tensor) for terms in read)]

    def _lengths_of(self, tensor: int) -> list[int]:
        """The numbers of the lengths that a tensor was told as."""
        return [number for each in self.told.roots[tensor].flat if each is not None for part, _ in parts_of(each)
                if (number := computed_number(part)) is not None]

    def _cancelling(self, operator: Operator, sizing: Callable[[], tuple[Shape, ...] | None], before: Told,
                    unread: Sequence[int]) -> tuple[Shape, ...] | None:
        """The shapes where as many as can of the tensors that have no part in them may have any numbers, as the start
        of a range may of which only the limit hangs on it."""
        for each in sorted(unread):
            self.told = before
            self._cancelled.add(each)
            with self._scope.tentatively():
                found = sizing()
                if found is None or each not in self._unread(operator, before, found):
                    self._cancelled.remove(each)
        self.told = before
        found = sizing()
        numbers = [number for each in self._cancelled & self.told.roots.keys() for number in self._lengths_of(each)]
        self.told = replace(self.told, values={
            tensor: values for tensor, values in self.told.values.items()
            if not any(hangs_on(terms_of(each), number) for each in values.flat for number in numbers)})
        self._cancelled.clear()
        return found

    def _follow(self, tensor: int) -> None:
        """Tells the integers of a tensor if all of them follow from lengths, though not all that they are computed with
        do."""
        with suppress(Unknown):
            found = self._numbers(tensor, {})
            if not has_gaps(found):
                self.told = replace(self.told, values={**self.told.values, tensor: found})

    def _tell_size(self, tensor: int, least: int, is_counted_from: bool) -> None:
        """Tells the integers of a tensor. Those that sizes are computed with may be 0, as what a loop counts from, if
        `is_counted_from`, and unless numbers are taken to be more; an operator asks of the sizes themselves what it
        needs."""
        before = self.told
        if least and is_counted_from and not self._scope.premises.told:
            with self._scope.tentatively() as keep:
                if self._tell(tensor, 0) is not None and tensor not in self.told.roots:
                    keep()
                    return
        self.told = before
        self._tell(tensor, least)

    def parts(self, operator: Operator) -> Mapping[int, Array]:
        """The numbers that say which parts an operator takes, as far as they follow; None for the others."""
        found: dict[int, Array] = {}
        return {tensor: self._numbers(tensor, found) for position, tensor in enumerate(operator.inputs)
                if position in operator.op.parts_from and tensor not in (ABSENT, *self._known)}

    def _numbers(self, tensor: int, found: dict[int, Array], depth: int = 0) -> Array:
        """The numbers of a tensor, or conditions, that follow from lengths; None for the others. Floats are ratios.

        Args:
            tensor: the tensor.
            found: those of other tensors, to which it adds.
            depth: how many operators lie between.

        Raises:
            Unknown: it has too many, or others.
        """
        known = self._known.get(tensor, self.told.values.get(tensor))
        if known is not None:
            return known
        if tensor not in found:
            found[tensor] = self._followed_in_part(tensor, found, depth)
        return found[tensor]

    def _followed_in_part(self, tensor: int, found: dict[int, Array], depth: int) -> Array:
        shape, dtype = self._shape(tensor, depth), self._subgraph.tensors[tensor].dtype
        if shape is None or dtype not in (*NUMBERS, DType.BOOL, *EXACT) or is_open(shape) or prod(shape) > MOST_NUMBERS:
            raise Unknown
        operator = self._inside.get(tensor, self._makers.get(tensor))
        if depth < MOST_FOLLOWED and operator is not None and operator.inputs and not operator.op.callees():
            with LOADING:
                from circlet.runtime.passes.analyses.open_values import partial_results, valued_in_part

            with suppress(Unknown, *FAULTS):
                made = partial_results(operator.op, [None if each == ABSENT else self._numbers(each, found, depth + 1)
                                                     for each in operator.inputs],
                                       tuple(self._shape(each, depth) or () for each in operator.outputs))
                if made is not None:
                    return valued_in_part(made[operator.outputs.index(tensor)], dtype)
        return np.full(shape, None, np.object_)

    def invoking(self, operator: Operator, operands: Mapping[int, int], shapes: Callable[[Values], Result]
                 ) -> Result | None:
        """What the subgraphs that an operator invokes make of operands that are known to them as lengths; None where it
        does not follow.

        Args:
            operator: the operator.
            operands: the tensors, by position among the inputs of the subgraphs.
            shapes: gives it, from the values of operands.
        """
        before = self.told
        with self._scope.tentatively() as keep:
            told = {position: self._tell(tensor, 0) for position, tensor in operands.items()}
            with suppress(Unknown, *FAULTS):
                values = self.pass_on(operator, {position: each for position, each in told.items() if each is not None})
                found = shapes(values)
                keep()
                return found
        self.told = before
        return None

    def pass_on(self, operator: Operator, known: Mapping[int, Array]) -> Values:
        """Lets the subgraphs that an operator invokes know operands."""
        values = tuple((position, tuple(each.reshape(-1).tolist())) for position, each in known.items())
        if values:
            self.told = replace(self.told, passed={**self.told.passed, operator: values})
        return values

    def take(self, operator: Operator, branch: int) -> None:
        """Takes an operator to choose a branch; there is a length that says for how much room there is, as code leaves
        a run by asking for some."""
        if not self._scope.capacities:
            self._scope.capacity()
        self.told = replace(self.told, taken={**self.told.taken, operator: branch})

    @cached_property
    def _sized(self) -> frozenset[int]:
        return sized(self._subgraph)

    def _tell(self, tensor: int, least: int, among: frozenset[int] | None = None, depth: int = 0,
              is_signed: bool = False) -> Array | None:
        """The integers of a tensor; None where it has none, or too many.

        Args:
            tensor: the tensor.
            least: what lengths are at the least that were not told yet.
            among: the tensors that may become such lengths; None for any.
            depth: how many operators lie between.
            is_signed: whether they may be negative, as zero is what they are at the least then.
        """
        if tensor in self._known or tensor in self.told.values:
            return self._known[tensor] if tensor in self._known else self.told.values[tensor]
        shape = self._shapes[tensor]
        if shape is None or not is_few(self._subgraph.tensors[tensor].dtype, shape):
            return None
        found = self._followed(tensor, least, among, depth, is_signed) if depth < MOST_FOLLOWED else None
        if found is None and among is not None and tensor not in among:
            return None
        if found is None:
            lowest = self._lowest(tensor)
            found, root = self._filled(tensor, shape, self._any_number if tensor in self._cancelled else partial(
                self._number, max(least, lowest or 0), is_signed and lowest is None))
            self.told = replace(self.told, roots={**self.told.roots, tensor: root})
        self.told = replace(self.told, values={**self.told.values, tensor: found})
        return found

    def _number(self, least: int, is_signed: bool) -> int:
        """A number that the run tells."""
        self._has_signed = self._has_signed or is_signed
        if is_signed and self._is_clipped:
            return self._scope.told_number(0) - self._scope.told_number(0)
        return self._scope.told_number(least)

    def _lowest(self, tensor: int) -> int | None:
        """What the numbers of a tensor are at the least, as the greatest of each and a number is taken, such as 1; None
        where that does not say that they are not negative. Code leaves a run of other numbers."""
        for _ in range(MOST_FOLLOWED):
            operator = self._inside.get(tensor, self._makers.get(tensor))
            if operator is None:
                return None
            if operator.op.name == "RELU":
                return 0
            if operator.op.name == "MAXIMUM":
                given = [array for each in operator.inputs if (array := self._known.get(each)) is not None and
                         array.size and not array.dtype.hasobject]
                least = max((float(each.min()) for each in given), default=-1.0)
                return int(least) if 0 <= least <= CAPACITY else None
            if operator.op.name not in _KEEPING:
                return None
            tensor = operator.inputs[0]
        return None

    def _any_number(self) -> int:
        """A number that the run tells, and that has no part in lengths. Code leaves a run by asking for room."""
        if not self._scope.capacities:
            self._scope.capacity()
        return self._scope.computed(MOST_CANCELLED, -MOST_CANCELLED)

    def _filled(self, tensor: int, shape: Shape, number: Callable[[], int]) -> tuple[Array, Array]:
        """The integers of a tensor with numbers for those that do not follow, and these alone."""
        found = np.full(shape, None, np.object_)
        with suppress(Unknown):
            found[...] = self._numbers(tensor, {})
        root = np.full(shape, None, np.object_)
        root.reshape(-1)[:] = [number() if each is None else None for each in found.flat]
        found.reshape(-1)[:] = [new if each is None else each for each, new in zip(found.flat, root.flat, strict=True)]
        return found, root

    def _may_be_negative(self, tensor: int, operator: Operator, is_signed: bool) -> bool:
        """Whether numbers that an operator reads may be negative: it has zero for those that are, or the remainder by
        a positive number, or moves, adds to or multiplies them alone, and what it gives may be."""
        @cache
        def may(tensor: int) -> bool:
            found = [member for member in _members(operator) if tensor in member[1]]
            return all(holds(tensor, *member) for member in found) if found else is_signed

        def holds(tensor: int, op: Op, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> bool:
            if op.name in _CLIPPING and any(map(self._has_no_less, inputs[:_CLIPPING[op.name]])):
                return True
            if op.name == _WRAPPING:
                return tensor not in inputs[1:] and self._is_positive(inputs[1])
            return op.name in _PASSING and all(map(may, outputs))

        return may(tensor)

    def _has_no_less(self, tensor: int) -> bool:
        """Whether a tensor has a number that is 0 or more, and the same in each run."""
        with suppress(Unknown):
            return any(isinstance(number, (int, float, np.number)) and number >= 0
                       for number in self._numbers(tensor, {}).flat)
        return False

    def _is_positive(self, tensor: int) -> bool:
        with suppress(Unknown):
            return all(number is not None and lowest(number) > 0 for number in self._numbers(tensor, {}).flat)
        return False

    def _followed(self, tensor: int, least: int, among: frozenset[int] | None, depth: int, is_signed: bool
                  ) -> Array | None:
        """What an operator makes of integers that are told; None where it computes with others, or otherwise."""
        operator, before = self._makers.get(tensor), self.told
        if operator is None or operator.op.callees():
            return None
        with LOADING:
            from circlet.runtime.passes.analyses.open_values import open_results

        with self._scope.tentatively() as keep:
            inputs = {each: self._tell(each, least, among, depth + 1, self._may_be_negative(each, operator, is_signed))
                      for each in operator.inputs if each != ABSENT}
            shapes = tuple(self._shapes[each] or () for each in operator.outputs)
            with suppress(Unknown, *FAULTS):
                made = None if any(each is None for each in inputs.values()) else open_results(
                    operator.op, [inputs.get(each) for each in operator.inputs], shapes)
                if made is not None:
                    found = typed(made[operator.outputs.index(tensor)], self._subgraph.tensors[tensor].dtype)
                    keep()
                    return found
        self.told = before
        return None
