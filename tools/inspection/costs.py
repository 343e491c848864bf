"""What runs of a model cost at its declared shapes: operations, bytes, and memory at its peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.errors import CircletError
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.ir.model import ABSENT, Model
from circlet.runtime.ir.types import Shape
from circlet.runtime.passes.analyses.plan_memory import Interval, plan_memory
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.passes.analyses.work import Estimate, Estimator, declared_shapes
from circlet.session import engine


@dataclass(frozen=True)
class Peak:
    """The memory of one invocation of a subgraph, all but constants and variables."""

    bytes: int
    operator: int | None
    """At which that is reached; None where it is before the first one."""


@dataclass(frozen=True)
class Cost:
    """What an invocation of a subgraph costs."""

    estimate: Estimate
    peak: Peak | None
    """None where only a run can tell some shapes."""


class Runnable:
    """A model as sessions run it, but for operators that one loop nest computes, and the executors of its subgraphs."""

    def __init__(self, model: Model, backend: str) -> None:
        """
        Raises:
            CircletError: it cannot be run.
        """
        chosen = engine(backend)
        self._is_native = chosen.name == "native"
        pipeline = chosen.pipeline()
        names = [each.name for each in pipeline.passes if each.name != "fuse_operators"]
        self.model = pipeline.selected(names).run(model)
        self.executors = ExecutorMap(self.model, lambda owner: (ControlflowBackend(owner), CpuBackend()), elide=True)
        self._peaks: dict[tuple[int, tuple[Shape, ...], bool], Peak | None] = {}

    def specialized(self, index: int, shapes: tuple[Shape, ...]) -> Specialization | None:
        """A subgraph at shapes of its inputs; None where they do not fit it."""
        try:
            return self.executors.specializer.at(index, shapes)
        except CircletError:
            return None

    def is_code_for_any_lengths(self, index: int) -> bool:
        """Whether a subgraph becomes native code that goes on where shapes change; not, where open lengths cannot all
        be 1, as that is what is asked for."""
        try:
            spec = self.executors.generalizer.at(index, declared_shapes(self.model.subgraphs[index]))
        except CircletError:
            return False
        return self._is_native and spec.general is not None and spec.general.spec.is_static and not any(
            each.dtype.numpy.hasobject for each in spec.subgraph.tensors)

    def peak(self, index: int, shapes: tuple[Shape, ...], is_lent: bool = False) -> Peak | None:
        """The memory of a subgraph, where subgraphs that it invokes have theirs in the same arena meanwhile, and work
        in the caller's buffers; without that of inputs and outputs where these are lent."""
        key = index, shapes, is_lent
        if key not in self._peaks:
            spec = self.specialized(index, shapes)
            self._peaks[key] = None if spec is None or not spec.is_static else self._planned(spec, is_lent)
        return self._peaks[key]

    def _planned(self, spec: Specialization, is_lent: bool) -> Peak | None:
        aliases = self.executors.planner.aliases(spec, range(len(spec.subgraph.operators)), ())
        variables = {number for number, each in enumerate(spec.subgraph.tensors) if each.is_variable}
        used = {*spec.subgraph.inputs, *(each for one in spec.subgraph.operators for each in one.outputs)}
        lent = {aliases.root(each) for each in (*spec.subgraph.inputs, *spec.subgraph.outputs)} if is_lent else set()
        roots = sorted({aliases.root(each) for each in used - spec.known.keys() - variables} - lent)
        intervals = [Interval(aliases.size(root), aliases.first_write(root),
                              max(aliases.first_write(root), aliases.last_read(root))) for root in roots]
        for number in range(len(spec.subgraph.operators)):
            invoked = self._invoked(spec, number)
            if invoked is None:
                return None
            intervals += [Interval(each, number, number) for each in invoked]
        return _peak(intervals)

    def _invoked(self, spec: Specialization, number: int) -> Sequence[int] | None:
        """The memory that what an operator invokes needs at one time; None where only a run can tell."""
        operator = spec.subgraph.operators[number]
        sizes: list[int] = []
        for callee in operator.op.calls():
            operands = operator.inputs[callee.first:]
            shapes = tuple(() if each == ABSENT else spec.shape(each) for each in operands)
            peak = self.peak(callee.subgraph, shapes, is_lent=True)
            if peak is None:
                return None
            sizes.append(peak.bytes)
        return [max(sizes)] if sizes else []


def _peak(intervals: Sequence[Interval]) -> Peak:
    """Where the top of the arena is used first."""
    arena = plan_memory(tuple(intervals))
    ends = [(offset + each.size, -each.first) for offset, each in zip(arena.offsets, intervals, strict=True)
            if each.size]
    first = -max(ends)[1] if ends else -1
    return Peak(arena.size, first if first >= 0 else None)


def costs_of(model: Model, runnable: Runnable | None) -> Sequence[Cost]:
    """By subgraph of a well-formed model; without what can be run of it, its declared shapes have to do."""
    estimator = (Estimator(model, None) if runnable is None
                 else Estimator(runnable.model, runnable.executors.specializer.at))
    computed = model if runnable is None else runnable.model
    found = []
    for index in range(len(model.subgraphs)):
        shapes = declared_shapes(computed.subgraphs[index])
        found.append(Cost(estimator.at(index, shapes), None if runnable is None else runnable.peak(index, shapes)))
    return found
