"""Owns one executor for each subgraph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from circlet.runtime.errors import ExecutionError, Place, UnsupportedError, plural
from circlet.runtime.exec.executor import Executor
from circlet.runtime.exec.frame import Contract, Frame, SegmentedFrame, StaticFrame
from circlet.runtime.exec.frames.chained import Chained
from circlet.runtime.exec.frames.layout import Layout
from circlet.runtime.exec.frames.layouts import keeps_inputs, open_layout
from circlet.runtime.exec.frames.lent_frame import LentFrame
from circlet.runtime.exec.frames.open_frame import OpenFrame, UnboundError
from circlet.runtime.exec.frames.open_layout import OpenLayout
from circlet.runtime.exec.kernel import Backend, Call, Kernel, SkippedKernel, Span, SpanBackend, uses_objects
from circlet.runtime.exec.observe.listener import Observation
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.exec.step import OpenStep
from circlet.runtime.ir.faults import located
from circlet.runtime.ir.length import Indefinite, is_late
from circlet.runtime.ir.model import Model, Subgraph
from circlet.runtime.ir.op import Opaque, Skip
from circlet.runtime.ir.premises import ToldApart
from circlet.runtime.ir.terms import Assumption, Terms
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.late import LOADING
from circlet.runtime.ops.controlflow import lifted_variables
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.elide_copies import CopyPlanner
from circlet.runtime.passes.analyses.generalize import Generalizer
from circlet.runtime.passes.analyses.specialize import MEMO_SIZE, Specialization, Specializer
from circlet.runtime.passes.analyses.told import NOTHING

if TYPE_CHECKING:
    from circlet.runtime.exec.frames.stateful_frame import StatefulFrame

_OPEN = frozenset({Observation.NONE, Observation.COUNTS, Observation.TIMES})
"""What frames for any lengths report."""


class ExecutorMap:
    """Owns exactly one executor for each subgraph index; the only way one subgraph reaches another."""

    def __init__(self, model: Model, backends: Callable[[ExecutorMap], Sequence[Backend]], elide: bool) -> None:
        """
        Args:
            model: a verified model.
            backends: makes the backends, in order of preference, given this map.
            elide: whether control flow lends buffers instead of copying.

        Raises:
            UnsupportedError: lists every operator that no backend computes.
        """
        self.model = model
        self._evaluated: dict[tuple[int, int], tuple[Sequence[Array | None], Sequence[Array]]] = {}
        """For each operator that was evaluated, by subgraph, what it was given last, and gave: constants, mostly."""
        self._refused: dict[tuple[int, tuple[Shape, ...]], ExecutionError] = {}
        """What is wrong with shapes of a subgraph's inputs, of a bounded number of them."""
        self.specializer = Specializer(model, self._evaluate)
        self.generalizer = Generalizer(model, self.specializer)
        self._rounds = frozenset(callee for subgraph in model.subgraphs for each in subgraph.operators
                                 if each.op.name == "LOOP_ROUNDS" for callee in each.op.callees())
        """The subgraphs that see few shapes, those of buffers that double, so that code for each is worth it."""
        self.planner = CopyPlanner(model, self.specializer, elide)
        made = backends(self)
        self.span_backends = tuple(each for each in made if isinstance(each, SpanBackend))
        refused: dict[str, Place] = {}
        self._executors = tuple(
            self._executor(index, subgraph, made, refused) for index, subgraph in enumerate(model.subgraphs)
        )
        if refused:
            raise UnsupportedError(
                f"{plural(len(refused), 'kind')} of operators cannot be run:\n  "
                + "\n  ".join(f"{kind}, first in {place}" for kind, place in refused.items()))

    @property
    def elide(self) -> bool:
        return self.planner.elide

    def begins_apart(self, index: int) -> bool:
        """Whether the first turns of a subgraph's loops may be bound apart to save copies: not where loops begin once
        in a run, nor where backends compute several operators at once, as what is bound apart is compiled apart."""
        return not self.span_backends and index in self.planner.repeated

    def __getitem__(self, index: int) -> Executor:
        return self._executors[index]

    def __len__(self) -> int:
        return len(self._executors)

    def __iter__(self) -> Iterator[Executor]:
        return iter(self._executors)

    def frame(self, index: int, shapes: tuple[Shape, ...], run: Run, contract: Contract | None = None,
              is_planned: bool = False) -> Frame:
        """The memory of an invocation of a subgraph, bound and ready.

        Args:
            index: of the subgraph.
            shapes: those of the subgraph's inputs.
            run: the run that the frame serves.
            contract: the buffers that the caller lends; none by default.
            is_planned: whether the planner told the shapes of the results, which the frame then has before it runs.

        Raises:
            ExecutionError: the shapes do not fit the subgraph.
            LimitError: there is not memory enough.
        """
        spec, contract = self._specialization(index, shapes), contract or Contract()
        if is_planned and not self._is_as_planned(spec, shapes, contract):
            spec = self.specializer.at(index, shapes)
        kind = StaticFrame if spec.is_static else SegmentedFrame
        with run.binding():
            return kind(self[index], spec, self.planner, self.specializer, run, contract)

    def _is_as_planned(self, spec: Specialization, shapes: tuple[Shape, ...], contract: Contract) -> bool:
        """Whether values lie where the planner took them to lie at some shapes: for any lengths less may be known than
        for these, and of fewer values that they are of one size."""
        if not spec.is_static or spec.general is None:
            return spec.is_static
        alone = self.specializer.at(spec.index, shapes)
        span, free = range(len(spec.subgraph.operators)), contract.overwritable(len(shapes))
        return not alone.is_static or self.planner.aliases(spec, span, free).lends_as(
            self.planner.aliases(alone, span, free))

    def resizable_frame(self, index: int, shapes: tuple[Shape, ...], run: Run, is_whole_run: bool = True
                        ) -> Frame | OpenFrame:
        """As `frame`, where nothing is lent: for other lengths too, if these are open and a backend computes it so.

        Args:
            index: of the subgraph.
            shapes: those of the subgraph's inputs.
            run: the run that the frame serves.
            is_whole_run: whether it does nothing before it.
        """
        spec = self._specialization(index, shapes)
        return self._open_frame(spec, shapes, run, is_whole_run) or self.frame(index, shapes, run)

    def entry_frame(self, index: int, shapes: tuple[Shape, ...], run: Run) -> Frame | OpenFrame | StatefulFrame:
        """As `resizable_frame`, of a subgraph that a session runs, where values of variables may be inputs, too."""
        op = lifted_variables(self[index].subgraph)
        if op is None or run.observer.observation not in (Observation.NONE, Observation.TIMES):
            return self.resizable_frame(index, shapes, run)
        with LOADING:
            from circlet.runtime.exec.frames.stateful_frame import StatefulFrame

        return StatefulFrame(op, run, lambda index, shapes: self.resizable_frame(index, shapes, run))

    def frame_on(self, index: int, arrays: Sequence[Array], run: Run, is_resizable: bool) -> Frame | LentFrame:
        """As `frame`, on inputs that the caller keeps; for other lengths too where only the run tells shapes, or that
        is asked for, if a backend computes the subgraph so, and then perhaps on inputs of its own."""
        op = lifted_variables(self[index].subgraph)
        if op is not None and op.plain_subgraph >= 0:
            index = op.plain_subgraph
        shapes = tuple(each.shape for each in arrays)
        spec = self._specialization(index, shapes)
        opened = None if spec.is_static and not is_resizable else self._open_frame(spec, shapes, run, True)
        if opened is not None:
            return LentFrame(opened, arrays, is_resizable, spec.shapes)
        return self.frame(index, shapes, run, Contract(inputs=tuple(arrays)))

    def shapes(self, index: int, shapes: tuple[Shape, ...]) -> Sequence[Shape | None]:
        """The shape of each tensor of a subgraph for inputs of some shapes; None where only the run tells it."""
        return self._specialization(index, shapes).shapes

    def _specialization(self, index: int, shapes: tuple[Shape, ...]) -> Specialization:
        refused = self._refused.get((index, shapes))
        if refused is not None:
            raise ExecutionError(refused.message, refused.place)
        is_general = self.span_backends and index not in self._rounds
        try:
            return self.generalizer.at(index, shapes) if is_general else self.specializer.at(index, shapes)
        except ExecutionError as error:
            if len(self._refused) >= MEMO_SIZE:
                self._refused.clear()
            self._refused[index, shapes] = ExecutionError(error.message, error.place)
            raise

    def _open_frame(self, spec: Specialization, shapes: tuple[Shape, ...], run: Run, is_whole_run: bool
                    ) -> OpenFrame | None:
        general = spec.general
        if general is None or not general.spec.is_static or run.observer.observation not in _OPEN:
            return None
        if not spec.subgraph.operators or uses_objects(spec.subgraph):
            return None  # nothing is computed; Python's objects lie in no bytes
        if general.scope.capacities and not is_whole_run and not self._is_repeatable(spec.index):
            return None
        inputs = range(0 if general.scope.capacities else len(spec.subgraph.inputs))
        aliases = self.planner.aliases(general.spec, range(len(spec.subgraph.operators)), inputs)
        for backend in self.span_backends:
            parts = backend.parts(spec.index, range(len(spec.subgraph.operators)))
            between = self._between(spec, parts, aliases)
            if between is None:
                parts, between = (range(len(spec.subgraph.operators)),), ()
            try:
                layout, known = open_layout(general, aliases, between)
            except Indefinite:
                return None  # nothing bounds how much memory a result takes
            try:
                with suppress(UnboundError), run.binding():
                    bind = partial(self._bound_parts, backend, spec, parts, aliases, run)
                    return OpenFrame(spec.index, _opened(layout), known, shapes, run,
                                     partial(_with_layout, bind, layout),
                                     lambda shapes: self.frame(spec.index, shapes, run),
                                     keeps_inputs(aliases, layout, is_open=True), is_whole_run)
            except ToldApart as found:
                return self._open_frame(self.generalizer.apart(spec, found.numbers), shapes, run, is_whole_run)
        return None

    def _between(self, spec: Specialization, parts: Sequence[range], aliases: Aliases) -> Sequence[int] | None:
        """The tensors that share the memory of what one part of a subgraph computes and another reads; None if there
        are parts that cannot be computed apart, as one computes lengths of another."""
        general = spec.general
        if general is None or len(parts) == 1:
            return ()
        if general.scope.capacities or general.spec.told != NOTHING or any(
                is_late(size) for shape in general.spec.shapes for size in shape or ()):
            return None
        roots = {aliases.root(each) for part in parts for each in self._exported(spec, part)}
        return [each for each in range(len(spec.subgraph.tensors))
                if aliases.root(each) in roots and each not in general.spec.known]

    def _exported(self, spec: Specialization, part: range) -> frozenset[int]:
        """What operators compute that is read after them, or is a result."""
        known = () if spec.general is None else spec.general.spec.known
        last = self[spec.index].last_reads
        return frozenset(each for operator in spec.subgraph.operators[part.start:part.stop]
                         for each in operator.outputs if last.get(each, -1) >= part.stop and each not in known)

    def _bound_parts(self, backend: SpanBackend, spec: Specialization, parts: Sequence[range], aliases: Aliases,
                     run: Run, arrays: Mapping[int, Array]) -> OpenStep | None:
        """A step for a subgraph at any lengths, which may be several."""
        if len(parts) == 1:
            return _bound_whole(backend, spec, aliases, run, arrays)
        known = () if spec.general is None else spec.general.spec.known
        buffers = [None if each in known else arrays.get(each) for each in range(len(spec.subgraph.tensors))]
        found = []
        for part in parts:
            step = backend.bind_open(Span(spec, part, aliases, buffers, self._exported(spec, part), run, is_whole=True))
            if step is None:
                return None
            found.append(step)
        return Chained(found)

    def _is_repeatable(self, index: int) -> bool:
        """Whether a subgraph can be begun anew in the midst of a run, as it changes nothing but what it computes, and
        how many random numbers were drawn."""
        subgraph = self.model.subgraphs[index]
        return not any(each.is_variable and not each.is_constant for each in subgraph.tensors) and all(
            (each.op.is_taken_back or ((each.op.pure or each.op.callees()) and not each.op.has_state))
            and all(map(self._is_repeatable, each.op.callees())) for each in subgraph.operators)

    def close(self) -> None:
        """Lets go of what backends keep for further runs."""
        for each in self.span_backends:
            each.close()

    def computed_by(self, index: int) -> tuple[str, ...]:
        """The name of what computes each operator of a subgraph: what did, in the spans that were bound so far, several
        names joined by `+`, and else what is expected to."""
        executor = self[index]
        lifted = lifted_variables(executor.subgraph)
        if lifted is not None:
            return tuple(executor.backends[number] if each == SKIPPED else each
                         for number, each in enumerate(self.computed_by(lifted.subgraph)))
        names = list(executor.backends)
        for backend in self.span_backends:
            computed = backend.computed
            for number, name in enumerate(names):
                found = computed.get((index, number))
                if found and name != SKIPPED:
                    names[number] = "+".join(sorted(found))
        for operator, name in zip(executor.subgraph.operators, tuple(names), strict=True):
            for part in operator.op.parts():
                names[part] = name
        return tuple(names)

    def invoke(self, index: int, inputs: Sequence[Array], run: Run) -> Sequence[Array]:
        """Runs a subgraph on copies of the inputs, whatever their shapes.

        The outputs belong to the callee's frame: they are valid until the subgraph is invoked again.
        """
        run.watch.check()
        shapes = tuple(each.shape for each in inputs)
        frame = run.frames.get((index, shapes), lambda: self.resizable_frame(index, shapes, run, False))
        for target, source in zip(frame.inputs, inputs, strict=True):
            np.copyto(target, source)
        frame.invoke()
        return frame.outputs

    def _executor(self, index: int, subgraph: Subgraph, backends: Sequence[Backend],
                  refused: dict[str, Place]) -> Executor:
        kernels: list[Kernel] = []
        named: list[Callable[[], str]] = []
        for number, operator in enumerate(subgraph.operators):
            if isinstance(operator.op, Skip):
                kernels.append(SkippedKernel())
                named.append(lambda: SKIPPED)
                continue
            call = Call.of(subgraph, operator, Place(index, subgraph.name, number, operator.name))
            reasons: dict[str, None] = {}
            for backend in backends:
                reason = _refuses_tensors(call) or backend.refuses(call)
                if reason is None:
                    kernels.append(backend.kernel(call))
                    named.append(partial(backend.computes_with, call))
                    break
                reasons[reason] = None
            else:
                why = operator.op.reason if isinstance(operator.op, Opaque) else ""
                why = why or "; ".join(reason for reason in reasons if reason != NOT_MINE) or "not implemented"
                kind = f"{operator.name} (version {operator.version}): {why}"
                refused.setdefault(kind, subgraph.place(index, number))
        for operator, name in zip(subgraph.operators, tuple(named), strict=False):
            for part in operator.op.parts():
                named[part] = name
        return Executor(index, subgraph, tuple(kernels), tuple(named), self.span_backends)

    def _evaluate(self, index: int, number: int, inputs: list[Array | None],
                  shapes: tuple[Shape, ...]) -> Sequence[Array]:
        """The results of an operator, which are those of before where it has the very inputs again."""
        given, found = self._evaluated.get((index, number), ((), ()))
        if not found or not all(one is other for one, other in zip(given, inputs, strict=True)):
            found = self._compute(index, number, inputs, shapes)
            self._evaluated[index, number] = inputs, found
        return found

    def _compute(self, index: int, number: int, inputs: list[Array | None], shapes: tuple[Shape, ...]
                 ) -> Sequence[Array]:
        executor = self[index]
        tensors = [executor.subgraph.tensors[each] for each in executor.subgraph.operators[number].outputs]
        outputs: list[Array] = [np.zeros(shape, each.dtype.numpy)
                                for shape, each in zip(shapes, tensors, strict=True)]
        with located(executor.place, number), np.errstate(all="ignore"):
            executor.kernels[number].bind(inputs, outputs, Run(Variables()))()
        return outputs


def _with_layout(bind: Callable[[Mapping[int, Array]], OpenStep | None], layout: Layout,
                 arrays: Mapping[int, Array]) -> tuple[OpenStep, OpenLayout] | None:
    """A step, and a layout with what it needs."""
    step = bind(arrays)
    return None if step is None else (step, _opened(layout, step.needs, step.assumptions))


def _opened(layout: Layout, needs: Sequence[Terms] = (), assumptions: Sequence[Assumption] = ()) -> OpenLayout:
    """A layout, and what a step needs, for any lengths."""
    with LOADING:
        from circlet.runtime.exec.frames.layout_code import layout_code

    return OpenLayout(layout_code(layout, needs, assumptions))


def _bound_whole(backend: SpanBackend, spec: Specialization, aliases: Aliases, run: Run,
                 arrays: Mapping[int, Array]) -> OpenStep | None:
    """A step for a subgraph at any lengths, with the buffers of what is not known of its inputs and results."""
    graph = spec.subgraph
    known = () if spec.general is None else spec.general.spec.known
    buffers = [None if each in known else arrays.get(each) for each in range(len(graph.tensors))]
    exported = frozenset(each for each in graph.outputs if each not in known)
    return backend.bind_open(Span(spec, range(len(graph.operators)), aliases, buffers, exported, run, is_whole=True))


def _refuses_tensors(call: Call) -> str | None:
    """Operators keep state in inputs that they overwrite; none may have it as an output. Sparse constants are bytes,
    which no operator expands."""
    for k, each in enumerate(call.inputs):
        if each is not None and each.sparsity is not None:
            return f"input {k} is sparse"
    return "writes a variable tensor" if any(each.is_variable for each in call.outputs) else None


SKIPPED = "none"
"""The name of what computes operators that passes took out."""
NOT_MINE = "another backend's operator"
"""What a backend answers for operators that are never its own."""
