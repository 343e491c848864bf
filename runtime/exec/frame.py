"""The memory of an invocation of a subgraph, for concrete input shapes, with every kernel bound to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.copying import same_memory
from circlet.runtime.exec.executor import Executor
from circlet.runtime.exec.kernel import SKIP, DynamicKernel, Span, has_objects
from circlet.runtime.exec.memory import copies, expect_room, result_copiers, retype
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step, idle
from circlet.runtime.ir.faults import FAULTS, located, raise_located
from circlet.runtime.ir.model import ABSENT
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.elide_copies import CopyPlanner
from circlet.runtime.passes.analyses.plan_memory import place_classes
from circlet.runtime.passes.analyses.specialize import Specialization, Specializer
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.exec.values.inputs import Lane


@dataclass(frozen=True, eq=False)
class Contract:
    """What a caller lends to a frame."""

    inputs: tuple[Array | None, ...] = ()
    """A buffer for each input, or None where the frame has its own; empty: none is lent."""
    outputs: tuple[Array | None, ...] = ()
    """The same for the outputs; only for those that the frame can compute there."""
    destroyable: frozenset[int] = frozenset()
    """The lent inputs that the frame may overwrite. Inputs that it owns it always may."""

    def input(self, position: int) -> Array | None:
        return self.inputs[position] if self.inputs else None

    def output(self, position: int) -> Array | None:
        return self.outputs[position] if self.outputs else None

    def overwritable(self, count: int) -> frozenset[int]:
        """Those of so many inputs that the frame may overwrite."""
        return self.destroyable | {k for k in range(count) if self.input(k) is None}


@dataclass(frozen=True, eq=False)
class Bound:
    """Operators bound to memory."""

    steps: list[tuple[int, Step]]
    """Each with the operator that it begins with."""
    is_compiled: bool
    """Whether no step needs numpy."""


class Frame(ABC):
    """A subgraph bound to memory: write `inputs`, `invoke()`, read `outputs`."""

    opened: None = None
    is_direct = True

    inputs: tuple[Array, ...]
    is_compiled = False
    """Whether nothing is left to numpy."""
    whole: Step | None = None
    """What `invoke` does, if it is one step that a backend made of all operators."""
    is_fixed = False
    """Whether `outputs` are the same arrays after each run."""
    copies: Sequence[Callable[[], Array]] | None = None
    """What gives copies of `outputs`, if these are always the same arrays."""
    lane: Lane | None = None
    """Of the entry point that used it last."""

    def __init__(self, executor: Executor, spec: Specialization, planner: CopyPlanner, specializer: Specializer,
                 run: Run, contract: Contract) -> None:
        self._executor = executor
        self.size = 0
        """The bytes of the buffers that the frame made for itself when it was bound."""
        self.planned_shapes = spec.shapes
        """The shape of each tensor, as far as it is known before the subgraph runs."""
        self._planner = planner
        self._specializer = specializer
        self.run = run
        """The run, or runs one after another, that the frame serves."""
        self._contract = contract
        self._arrays: list[Array | None] = [None] * len(spec.subgraph.tensors)
        for tensor, value in spec.known.items():
            self._arrays[tensor] = value
        for index, each in enumerate(spec.subgraph.tensors):
            if each.is_variable and not each.is_constant:
                self._arrays[index] = run.variables.tensor(executor.index, index, each)

    @property
    def result_shapes(self) -> tuple[Shape | None, ...]:
        """The shapes of the outputs, as far as they are known before the subgraph runs."""
        return tuple(self.planned_shapes[each] for each in self._executor.subgraph.outputs)

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on copies of the inputs; the results belong to the caller."""
        for target, source in zip(self.inputs, arrays):  # noqa: B905  # checked when the frame was made
            target[...] = source
        return self.compute()

    def compute(self) -> list[Array]:
        """The same, on what `inputs` hold."""
        if self.whole is not None:
            self.whole()
        elif self.is_compiled:
            self.invoke()
        else:
            with np.errstate(all="ignore"):
                self.invoke()
        return copies(self.outputs) if self.copies is None else [copy() for copy in self.copies]

    @property
    @abstractmethod
    def outputs(self) -> tuple[Array, ...]:
        """The results of the last run."""

    @abstractmethod
    def invoke(self) -> None:
        """Runs the subgraph once.

        Raises:
            ExecutionError: with the place of the operator that failed.
        """

    def _allocate(self, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
        array = self.run.room.allocate(shape, dtype)
        self.size += array.nbytes
        return array

    def _array(self, tensor: int) -> Array:
        array = self._arrays[tensor]
        assert array is not None, f"tensor {tensor} is used before it has memory"
        return array

    def _operands(self, number: int) -> list[Array | None]:
        operator = self._executor.subgraph.operators[number]
        return [None if each == ABSENT else self._array(each) for each in operator.inputs]

    def _own_inputs(self, spec: Specialization) -> None:
        """Gives every input that is not lent a buffer of its own."""
        for position, tensor in enumerate(spec.subgraph.inputs):
            lent = self._contract.input(position)
            dtype = spec.subgraph.tensors[tensor].dtype.numpy
            self._arrays[tensor] = self._allocate(spec.shape(tensor), dtype) if lent is None else lent
        self.inputs = tuple(self._array(each) for each in spec.subgraph.inputs)

    def _destroyable(self) -> frozenset[int]:
        return self._contract.overwritable(len(self._executor.subgraph.inputs))

    def _bind(self, spec: Specialization, span: range, aliases: Aliases, live: bool) -> Bound:
        """Gives the results of `span` memory and binds its kernels; `live` says they must outlive the span."""
        self._place(spec, span, aliases, live)
        steps: list[tuple[int, Step]] = []
        is_compiled = True
        for part in self._parts(spec, span):
            whole = self._bind_whole(spec, part, aliases)
            is_compiled = is_compiled and whole is not None
            steps += self._bind_each(spec, part, aliases) if whole is None else [whole]
        return Bound(steps, is_compiled)

    def _parts(self, spec: Specialization, span: range) -> Sequence[range]:
        """The span as the backend wants it that computes several operators at once, cut where objects of Python come
        and go, so that it computes what is between them."""
        backend = next(iter(self._executor.span_backends), None)
        if backend is None or not span:
            return [span]
        runs = [list(run) for _, run in groupby(span, partial(has_objects, spec))]
        return [part for run in runs for part in backend.parts(self._executor.index, range(run[0], run[-1] + 1))]

    def _bind_each(self, spec: Specialization, span: range, aliases: Aliases) -> list[tuple[int, Step]]:
        """A step for each operator."""
        steps: list[tuple[int, Step]] = []
        for number in span:
            self.run.watch.check()
            operator = self._executor.subgraph.operators[number]
            is_done = bool(operator.outputs) and all(each in spec.known for each in operator.outputs)
            is_done = is_done or operator.op == SKIP or self._is_view(spec, aliases, number)
            if is_done and (operator.op == SKIP or not self.run.observer.sees_values):
                continue
            inputs, outputs = self._operands(number), [self._array(each) for each in operator.outputs]
            step = idle if is_done else self._step(number, inputs, outputs)
            steps.append((number, self._observed(number, step, inputs, outputs)))
        return steps

    def _observed(self, number: int, step: Step, inputs: Sequence[Array | None], outputs: Sequence[Array]) -> Step:
        """The step of an operator, which reports itself as far as that is asked for."""
        place = self._executor.index, number
        return self.run.observer.operator(step, place, self._executor.subgraph, inputs, outputs)

    def _step(self, number: int, inputs: Sequence[Array | None], outputs: Sequence[Array]) -> Step:
        """The kernel of an operator on its buffers."""
        step = self._executor.bind(number, inputs, outputs, self.run)
        return self.run.watch.after(step, (*inputs, *outputs))

    def _bind_whole(self, spec: Specialization, operators: range, aliases: Aliases) -> tuple[int, Step] | None:
        """One step for all operators, with the one that it begins with, where a backend computes them together."""
        if self.run.observer.is_stepped:
            return None
        exported = frozenset(each for operator in spec.subgraph.operators[operators.start:operators.stop]
                             for each in operator.outputs
                             if self._executor.last_reads.get(each, -1) >= operators.stop)
        span = Span(spec, operators, aliases, self._arrays, exported, self.run)
        for backend in self._executor.span_backends:
            step = backend.bind_span(span)
            if step is not None:
                return span.leading, step
        return None

    def _is_view(self, spec: Specialization, aliases: Aliases, number: int) -> bool:
        """Whether there is nothing to do, as the results lie where they are viewed and no value can be wrong."""
        operator = self._executor.subgraph.operators[number]
        views = operator.op.views()
        parameters = [each for k, each in enumerate(operator.inputs) if k not in views.values() and each != ABSENT]
        return bool(views) and all(each in spec.known for each in parameters) and all(
            output in views and aliases.root(each) == aliases.root(operator.inputs[views[output]])
            for output, each in enumerate(operator.outputs)
        )

    def _place(self, spec: Specialization, span: range, aliases: Aliases, live: bool) -> None:
        """Decides where the results of `span` lie: in a buffer of their class, or in one arena."""
        tensors = spec.subgraph.tensors
        written = [each for number in span for each in spec.subgraph.operators[number].outputs
                   if each not in spec.known]
        homeless: dict[int, None] = {}
        for each in written:
            root = aliases.root(each)
            if self._arrays[root] is None and root not in homeless:
                with located(self._executor.place, aliases.first_write(root)):
                    expect_room(spec.shape(root), tensors[root].dtype.numpy)
                if tensors[root].dtype.numpy.hasobject:
                    self._arrays[root] = self._allocate(spec.shape(root), tensors[root].dtype.numpy)
                    continue
                homeless[root] = None
        places, size = place_classes(aliases, homeless, live)
        memory = self._allocate((size,), np.dtype(np.uint8))
        for root, place in places.items():
            self._arrays[root] = retype(memory[place.offset:place.offset + place.size],
                                        spec.shape(root), tensors[root].dtype.numpy)
        for each in written:
            if self._arrays[each] is None:
                self._arrays[each] = retype(self._array(aliases.root(each)), spec.shape(each),
                                            tensors[each].dtype.numpy)


class StaticFrame(Frame):
    """A frame whose shapes are all known: bound once, then only stepped."""

    is_fixed = True

    def __init__(self, executor: Executor, spec: Specialization, planner: CopyPlanner, specializer: Specializer,
                 run: Run, contract: Contract) -> None:
        super().__init__(executor, spec, planner, specializer, run, contract)
        self._own_inputs(spec)
        span = range(len(spec.subgraph.operators))
        aliases = planner.aliases(spec, span, self._destroyable())
        self._lend_outputs(spec, aliases)
        bound = self._bind(spec, span, aliases, live=False)
        self.is_compiled = bound.is_compiled
        self._outputs = tuple(
            self._array(tensor) if lent is None else lent
            for tensor, lent in zip(spec.subgraph.outputs, contract.outputs or (None,) * len(spec.subgraph.outputs),
                                    strict=True)
        )
        self.copies = result_copiers(self._outputs)
        steps = [step for _, step in bound.steps]
        self._operators = {id(step): number for number, step in bound.steps}
        self._steps = tuple(run.observer.invocation(steps, executor.index))
        if self.is_compiled and len(self._steps) == 1:
            self.whole = self._steps[0]

    @property
    def outputs(self) -> tuple[Array, ...]:
        return self._outputs

    def invoke(self) -> None:
        step: Step | None = None
        try:
            for step in self._steps:
                step()
        except FAULTS as error:
            if id(step) not in self._operators:
                raise
            raise_located(error, self._executor.place(self._operators[id(step)]))

    def _lend_outputs(self, spec: Specialization, aliases: Aliases) -> None:
        """Puts results into lent buffers."""
        for position, tensor in enumerate(spec.subgraph.outputs):
            lent = self._contract.output(position)
            if lent is None:
                continue
            root = aliases.root(tensor)
            if self._arrays[root] is None:
                self._arrays[root] = retype(lent, spec.shape(root), spec.subgraph.tensors[root].dtype.numpy)
            assert same_memory(self._array(root), lent), f"output {position} lies elsewhere than the caller wants it"


@dataclass(eq=False)
class Segment:
    """The operators from one whose result shapes depend on data to the next such one."""

    steps: list[tuple[int, Step]]
    spec: Specialization
    """Known up to the end of the segment."""
    lead: tuple[Array, ...] = ()
    """The results of the leading operator, where it makes them itself."""


class SegmentedFrame(Frame):
    """A frame with operators whose result shapes depend on data; what follows each is bound when they are known."""

    def __init__(self, executor: Executor, spec: Specialization, planner: CopyPlanner, specializer: Specializer,
                 run: Run, contract: Contract) -> None:
        super().__init__(executor, spec, planner, specializer, run, contract)
        self._own_inputs(spec)
        self._first = Segment(self._bind_span(spec, range(spec.stop)), spec)
        self._rest: list[Segment] = []
        self._final = spec

    @property
    def outputs(self) -> tuple[Array, ...]:
        return tuple(self._array(each) for each in self._executor.subgraph.outputs)

    def invoke(self) -> None:
        index = self._executor.index
        self.run.observer.will_invoke(index)
        self._execute(self._first.steps)
        spec, depth = self._first.spec, 0
        while not spec.is_static:
            segment = self._segment(spec, depth)
            self._execute(segment.steps)
            spec, depth = segment.spec, depth + 1
        self.run.observer.did_invoke(index)

    def _execute(self, steps: Sequence[tuple[int, Step]]) -> None:
        for number, step in steps:
            with located(self._executor.place, number):
                step()

    def _segment(self, before: Specialization, depth: int) -> Segment:
        """The segment that starts at operator `before.stop`, bound anew if its shapes differ from the last run's."""
        number = before.stop
        operator = self._executor.subgraph.operators[number]
        values = {each: self._array(each) for each in operator.inputs if each != ABSENT}
        after = self._specializer.extend(before, values)
        made: tuple[Array, ...] | None = None
        if after.stop == number:
            made = self._make(number)
            after = self._resume(before, number, made)
        old = self._rest[depth] if depth < len(self._rest) else None
        if old is not None and _same_shapes(old.spec, after) and (made is None) == (not old.lead):
            for target, source in zip(old.lead, made or (), strict=True):
                np.copyto(target, source)
            return old
        del self._rest[depth:]
        self._forget(number)
        for tensor, value in after.known.items():
            self._arrays[tensor] = value
        for tensor, array in zip(operator.outputs, made or (), strict=made is not None):
            self._arrays[tensor] = array
        start = number if made is None else number + 1
        segment = Segment(self._bind_span(after, range(start, after.stop)), after, made or ())
        self._rest.append(segment)
        return segment

    def _make(self, number: int) -> tuple[Array, ...]:
        """Runs an operator that allocates its own results, control flow mostly."""
        kernel = self._executor.kernels[number]
        if not isinstance(kernel, DynamicKernel):
            raise ExecutionError("the shape of the result cannot be told", self._executor.place(number))
        operands = self._operands(number)
        found: list[Array] = []

        def step() -> None:
            found.extend(each.copy() for each in kernel.evaluate(operands, self.run))

        with located(self._executor.place, number):
            self._observed(number, step, operands, found)()
        return tuple(found)

    def _resume(self, before: Specialization, number: int, made: tuple[Array, ...]) -> Specialization:
        shapes = list(before.shapes)
        for tensor, array in zip(self._executor.subgraph.operators[number].outputs, made, strict=True):
            shapes[tensor] = array.shape
        return self._specializer.extend(Specialization(before.index, before.subgraph, before.promised, tuple(shapes),
                                                       before.known, number + 1))

    def _forget(self, start: int) -> None:
        for operator in self._executor.subgraph.operators[start:]:
            for each in operator.outputs:
                self._arrays[each] = None

    def _bind_span(self, spec: Specialization, span: range) -> list[tuple[int, Step]]:
        return self._bind(spec, span, self._planner.aliases(spec, span), live=True).steps


def _same_shapes(one: Specialization, other: Specialization) -> bool:
    return one.stop == other.stop and one.shapes == other.shapes
