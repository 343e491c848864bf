"""The functions that compute an entry point: one for all lengths, or a few where other lengths take other code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llvmlite import ir

from circlet.backends.native.aot.between import Between, Dims, opened
from circlet.backends.native.aot.function import (
    ARENA,
    LENGTHS,
    STATE,
    EmbeddedFunction,
    Opening,
    Shared,
    negative_sizes,
)
from circlet.backends.native.aot.refused import RefusedError, listed
from circlet.backends.native.emit.emitter import NATIVE_TYPES
from circlet.backends.native.emit.value import Value, in_memory
from circlet.backends.native.lower.controlflow import CONTROL_FLOW, refuses
from circlet.backends.native.lower.subgraphs import SubgraphLowering
from circlet.backends.native.parts import Site
from circlet.backends.native.program import Unlowerable
from circlet.runtime.errors import CircletError, ExecutionError, LimitError, Place, RunError
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.bounds import bound_of
from circlet.runtime.ir.intervals import Box, Interval, holds, interval, uncovered
from circlet.runtime.ir.length import Scope, terms_of
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.premises import Premises
from circlet.runtime.ir.terms import Assumption, Symbol, constant, hangs_on, sum_of
from circlet.runtime.ir.types import DType, Shape
from circlet.runtime.passes.analyses.elide_copies import given
from circlet.runtime.passes.analyses.growing import entering
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.records import dataclass

MOST_CASES = 16
"""Functions for one entry point, each for other lengths: a choice, as for those that a session makes."""
ALONE = 2
"""Lengths below stand for themselves where no function for longer ones is one for them, too."""
_MOST_PARTS = 1 << 17
"""Parts that bounds are cut into to find lengths without code: some seconds."""
_SLOTS = "in_{}", "out_{}"
"""The names of the arguments of a function for inputs and outputs."""


@dataclass(frozen=True)
class EntryPoint:
    """Where runs of a model begin.

    Attributes:
        symbol: the function's name.
        subgraph: that it computes.
        shapes: of the inputs.
        names: of the inputs, for messages.
        capacity: for how long lengths there is room that the run computes and nothing else bounds; None where there
            are to be none.
    """

    symbol: str
    subgraph: int
    shapes: tuple[Dims, ...]
    names: tuple[str, ...]
    capacity: int | None = None


@dataclass(frozen=True)
class Body:
    """A function that computes an entry point for some lengths.

    Attributes:
        function: it.
        spec: what it computes.
        conditions: for which lengths.
        opening: the lengths; None where all are fixed.
    """

    function: EmbeddedFunction
    spec: Specialization
    conditions: Sequence[Assumption]
    opening: Opening | None

    @property
    def outputs(self) -> Sequence[Sequence[tuple[int, Interval]]]:
        """The lengths of each output, with what they are at least and at most."""
        box = () if self.opening is None else self.opening.box
        return [[(size, interval(size, box)) for size in self.spec.shape(each)] for each in self.spec.subgraph.outputs]


@dataclass(frozen=True)
class Misfit:
    """Lengths that the model cannot compute with.

    Attributes:
        conditions: which these are.
        site: where, and why.
    """

    conditions: Sequence[Assumption]
    site: Site


class Cases:
    """The functions of an entry point on their way."""

    def __init__(self, shared: Shared, executors: ExecutorMap, entry: EntryPoint) -> None:
        self._shared = shared
        self._executors = executors
        self._entry = entry
        self._axes = [(position, axis) for position, shape in enumerate(entry.shapes) for axis in opened(shape)]
        self.lengths: list[Between] = [each for shape in entry.shapes for each in shape if isinstance(each, Between)]
        """Those that are given, in order."""
        self._box: Box = tuple((each.least, each.most) for each in self.lengths)
        self.sites: list[Site] = []
        """What statuses stand for."""
        self.found: list[Body | Misfit] = []

    @property
    def bodies(self) -> Sequence[Body]:
        """The functions."""
        return [each for each in self.found if isinstance(each, Body)]

    def lower(self) -> None:
        """Writes a function for lengths that none is for until there are no such lengths.

        Raises:
            RefusedError: there is no code for some lengths.
        """
        while (point := self._missing()) is not None:
            if len(self.found) == MOST_CASES:
                raise RefusedError(f"lengths within these bounds take more than {MOST_CASES} functions")
            self.found.append(self._misfit(point) or self._body(point))
        misfits = [each for each in self.found if isinstance(each, Misfit)]
        if misfits and not self.bodies:
            raise ExecutionError(misfits[0].site.message, misfits[0].site.place)

    def _missing(self) -> tuple[int, ...] | None:
        """Lengths without code."""
        if not self._box:
            return None if self.found else ()
        try:
            return uncovered(self._box, [each.conditions for each in self.found], _MOST_PARTS)
        except OverflowError:
            raise RefusedError("which lengths within these bounds take which function cannot be told; give narrower "
                               "bounds") from None

    def _scope(self, point: Sequence[int]) -> tuple[Scope, list[Assumption]]:
        """The lengths of a derivation, and what must hold of them for it: 0 and 1 stand for themselves where a function
        for other lengths is not one for them, too."""
        least = {k: max(1, min(low, ALONE)) for k, (low, _) in enumerate(self._box)}
        conditions = []
        for k, length in enumerate(point):
            by = length if length < ALONE else least[k]
            terms = sum_of(((1, (Symbol(k, least[k]),)),), constant(-by))
            conditions.append(Assumption(terms, "==", True) if length < ALONE else Assumption(terms, "<", False))
        return Scope(point, Premises(least)), self._pruned(conditions)

    def _pruned(self, conditions: Sequence[Assumption]) -> list[Assumption]:
        """Conditions without those that hold for all lengths."""
        return [each for each in conditions if holds(each, self._box) is not True]

    def _shapes(self, lengths: Sequence[int]) -> tuple[Shape, ...]:
        """The shapes of the inputs with some lengths."""
        numbers = dict(zip(self._axes, lengths, strict=True))
        return tuple(tuple(numbers[position, axis] if isinstance(size, Between) else size
                           for axis, size in enumerate(shape)) for position, shape in enumerate(self._entry.shapes))

    def _derived(self, point: Sequence[int]) -> tuple[Specialization | None, Scope, list[Assumption]]:
        """What holds for lengths like these; None where nothing does."""
        scope, conditions = self._scope(point)
        shapes = self._shapes([each if each < ALONE else scope.symbol(k) for k, each in enumerate(point)])
        try:
            return self._executors.specializer.within(self._entry.subgraph, shapes, scope), scope, conditions
        except (ExecutionError, LimitError):
            return None, scope, conditions

    def _misfit(self, point: tuple[int, ...]) -> Misfit | None:
        """Why the model computes nothing for lengths like these; None where it does.

        Raises:
            ExecutionError, LimitError: there are no open lengths that could be others.
        """
        try:
            self._expect_turns(self._executors.specializer.at(self._entry.subgraph, self._shapes(point)))
        except (ExecutionError, LimitError) as error:
            if not point:
                raise
            return Misfit(self._unfitting(point, error), self._site(point, error))
        return None

    def _expect_turns(self, spec: Specialization) -> None:
        """Expects what the first operator without known shapes invokes to compute with the lengths that it gets.

        Raises:
            ExecutionError, LimitError: it cannot, with the operator's place.
        """
        if spec.is_static or not self._axes:
            return
        operator = spec.subgraph.operators[spec.stop]
        for callee in operator.op.callees():
            try:
                self._executors.specializer.at(callee, given(spec, operator))
            except (ExecutionError, LimitError) as error:
                raise type(error)(str(error), _place(spec, spec.stop)) from None

    def _unfitting(self, point: tuple[int, ...], error: RunError) -> list[Assumption]:
        """Lengths that fail as these do: what fails as well where lengths are open does so for the same answers."""
        spec, scope, conditions = self._derived(point)
        if spec is not None and error.place is not None and error.place.operator == spec.stop:
            return self._pruned([*scope.assumptions, *conditions])
        box = tuple((each, each) for each in point)
        sizes = [] if spec is None else negative_sizes(spec, self._whole(scope), len(point))
        short = [each for each in sizes if not holds(each, box)]
        if short:
            return self._pruned([*scope.assumptions, *conditions, *(
                Assumption(each.terms, each.relation, not each.holds) for each in short)])
        return [Assumption(sum_of(((1, (Symbol(k),)),), constant(-each)), "==", True) for k, each in enumerate(point)]

    def _site(self, point: Sequence[int], error: RunError) -> Site:
        graph = self._executors.model.subgraphs[self._entry.subgraph]
        lengths = ", ".join(f"{name}: {length}" for name, length in zip(self._names, point, strict=True))
        place = error.place or Place(self._entry.subgraph, graph.name, 0, "")
        return Site(place, f"lengths that do not fit, such as {lengths}: {error.message}")

    def _whole(self, scope: Scope) -> Box:
        """The bounds of all lengths, those for which there is to be room among them."""
        return (*self._box, *((each, each) for each in scope.lengths[len(self._box):]))

    @property
    def _names(self) -> list[str]:
        """What the lengths are called."""
        return [f"{self._entry.names[position]}[{axis}]" for position, axis in self._axes]

    def _body(self, point: tuple[int, ...]) -> Body:
        """A function for lengths like these."""
        spec, conditions, opening = self._general(point)
        graph = spec.subgraph
        counts = len(graph.inputs), len(graph.outputs)
        names = [name.format(k) for name, count in zip(_SLOTS, counts, strict=True) for k in range(count)]
        more = (ARENA, STATE) if opening is None else (LENGTHS, ARENA, STATE)
        function = EmbeddedFunction(f"{self._entry.symbol}_body_{len(self.found)}", self._shared, (*names, *more),
                                    self.sites, opening)
        for tensor in (*graph.inputs, *graph.outputs):
            if graph.tensors[tensor].dtype not in NATIVE_TYPES - {DType.BFLOAT16, DType.COMPLEX64}:
                raise RefusedError(f"subgraph {spec.index} ({graph.name!r}): tensor {graph.tensor_label(tensor)} has "
                                   f"elements of type {graph.tensors[tensor].dtype.value}")
        inputs = [in_memory(home, spec.shape(tensor), graph.tensors[tensor].dtype)
                  for home, tensor in zip(function.arguments, graph.inputs, strict=False)]
        homes = function.arguments[counts[0]:sum(counts)]
        lowering = SubgraphLowering(function, self._executors, scope=spec.scope)
        invoke(lowering, function, self._entry.subgraph, inputs, homes)
        if opening is not None:
            conditions = [*conditions, *opening.scope.assumptions, *function.conditions]
        return Body(function, spec, self._expected(point, conditions), opening)

    def _expected(self, point: Sequence[int], conditions: Sequence[Assumption]) -> Sequence[Assumption]:
        """Conditions, of which none may exclude the lengths that code was made for."""
        box = tuple((each, each) for each in point)
        if not all(holds(each, box) for each in conditions):
            raise RefusedError(f"lengths {', '.join(map(str, point))}: a tensor would be shorter than nothing")
        return self._pruned(list(dict.fromkeys(conditions)))

    def _general(self, point: tuple[int, ...]) -> tuple[Specialization, list[Assumption], Opening | None]:
        """What is known of the entry point for lengths like these.

        Raises:
            RefusedError: shapes cannot be told, or have no bound.
        """
        alone = self._executors.specializer.at(self._entry.subgraph, self._shapes(point))
        if not point and alone.is_static and not self._tells(alone):
            return alone, [], None
        spec, scope, conditions = self._derived(point)
        if spec is None or not spec.is_static:
            raise RefusedError(listed(dict.fromkeys(self._unknown(spec or alone, scope), _UNKNOWN)))
        if scope.capacities and self._entry.capacity is None:
            found = dict.fromkeys(_unbounded(spec, scope), _UNBOUNDED)
            raise RefusedError(listed(found) if found else _UNBOUNDED)
        for each in scope.capacities:
            scope.lengths[each] = self._entry.capacity or 0
        return spec, conditions, Opening(scope, self._whole(scope), self._names, _place(spec, 0))

    def _unknown(self, spec: Specialization, scope: Scope) -> Iterator[Place]:
        """The operators whose results have shapes that only a run can tell: the first one or, in what it invokes, the
        first ones."""
        operator, found = spec.subgraph.operators[spec.stop], False
        for callee in operator.op.callees():
            try:
                inner = self._executors.specializer.within(
                    callee, entering(operator.op, callee, given(spec, operator), scope), scope)
            except (Unknown, ExecutionError, LimitError):
                continue
            if not inner.is_static:
                found = True
                yield from self._unknown(inner, scope)
        if not found:
            yield _place(spec, spec.stop)

    def _tells(self, spec: Specialization) -> bool:
        """Whether what operators of a subgraph invoke computes lengths."""
        return any(type(each.op) in CONTROL_FLOW and refuses(
            self._executors, each.op, given(spec, each), spec.scope, {}) for each in spec.subgraph.operators)


_UNKNOWN = "shapes that are known only when it runs"
_UNBOUNDED = "lengths that nothing bounds; say for how many elements along an axis there is to be room, --capacity"


def _place(spec: Specialization, number: int) -> Place:
    graph = spec.subgraph
    return Place(spec.index, graph.name, number, graph.operators[number].name)


def _unbounded(spec: Specialization, scope: Scope) -> Iterator[Place]:
    """The operators that give tensors whose lengths nothing bounds."""
    for number, operator in enumerate(spec.subgraph.operators):
        sizes = [size for each in operator.outputs for size in spec.shape(each)]
        inputs = [size for each in operator.inputs if each >= 0 for size in spec.shape(each)]
        if _hang(sizes, scope) and not _hang(inputs, scope):
            yield _place(spec, number)


def _hang(sizes: Sequence[int], scope: Scope) -> bool:
    """Whether lengths hang on how much room there is."""
    return any(hangs_on(bound_of(terms_of(size)) or (), each) for size in sizes for each in scope.capacities)


def invoke(lowering: SubgraphLowering, function: EmbeddedFunction, index: int, inputs: Sequence[Value],
           homes: Sequence[ir.Value], ends: bool = True) -> None:
    """Writes a subgraph into a function.

    Raises:
        RefusedError: it cannot be compiled.
    """
    try:
        lowering.invoke(index, inputs, homes, frozenset(), tuple(each.shape for each in inputs))
    except (Unlowerable, CircletError) as error:
        raise RefusedError(str(error)) from error
    if ends:
        function.finish()
