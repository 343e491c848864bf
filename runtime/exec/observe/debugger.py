"""Stops runs at breakpoints, and goes on as it is told."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from circlet.runtime.errors import InputError, suggestion
from circlet.runtime.exec.observe.breakpoints import Breakpoint
from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.exec.observe.moment import Invocation, Moment
from circlet.runtime.exec.observe.non_finite import NonFinite, first_non_finite
from circlet.runtime.ir.model import Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass


class Resume(Enum):
    """How a run goes on after a stop."""

    CONTINUE = "continue"
    """To the next breakpoint."""
    STEP = "step"
    """To the next operator, in whatever subgraph it is."""
    NEXT = "next"
    """To the next operator of the same invocation, or of those around it."""
    ITERATION = "iteration"
    """To the first operator of the next iteration of the innermost loop, or to what follows the loop."""
    OUT = "out"
    """To the end of the operator that invoked the subgraph."""


class Level:
    """An invocation that has begun and not ended, and what is known of its tensors."""

    def __init__(self, graph: Subgraph, invocation: Invocation | None) -> None:
        self.graph = graph
        self.invocation = invocation
        """None for the entry point."""
        self.values: dict[int, Array] = {}
        """Copies, by tensor."""
        self.has_run = False
        """Whether any of its operators has run."""

    def keep(self, moment: Moment) -> None:
        """Copies what an operator reads that is not known yet, and what it has written."""
        tensors, outputs = self.graph.tensors, frozenset(moment.operator.outputs if moment.outputs else ())
        for tensor, value in moment.values.items():
            is_known = tensor in self.values or tensors[tensor].is_constant
            if tensor in outputs or tensors[tensor].is_variable or not is_known:
                self.values[tensor] = value.copy()


@dataclass(frozen=True, eq=False)
class Stop:
    """A run that waits, right after an operator."""

    moment: Moment
    reason: str
    levels: tuple[Level, ...]
    """The entry point first, the subgraph of the operator last."""

    def find(self, name: str) -> tuple[Tensor, Array]:
        """A tensor by name, or by its index in the operator's subgraph, and its value as stored: in the subgraph of the
        operator, or else in the next one around it that has one of this name.

        Raises:
            InputError: there is none, or it is not computed yet.
        """
        pending = None
        for level in reversed(self.levels):
            for index, tensor in enumerate(level.graph.tensors):
                if name != tensor.name and not (level is self.levels[-1] and name == str(index)):
                    continue
                value = tensor.data if tensor.data is not None else level.values.get(index)
                if value is not None:
                    return tensor, value
                pending = level
        if pending is not None:
            raise InputError(f"tensor {name!r} of subgraph {pending.graph.name!r} has no value yet")
        known = {each.name for level in self.levels for each in level.graph.tensors}
        raise InputError(f"no tensor {name!r} here{suggestion(name, known)}")


class Debugger(Listener):
    """Stops a run right after operators: those of breakpoints, those that give NaN or infinity, and those to which it
    is told to go. It keeps copies of what the invocations in progress have computed. Each run needs a new one."""

    def __init__(self, breakpoints: Iterable[Breakpoint] = (), stop_at: Collection[NonFinite] = (),
                 begin: Resume = Resume.CONTINUE) -> None:
        """
        Args:
            breakpoints: more may be added to the list while a run waits.
            stop_at: stops a run at operators that give such values.
            begin: where the first stop is.
        """
        self.breakpoints = list(breakpoints)
        self.stop_at = frozenset(stop_at)
        self._resume = begin
        self._since: Moment | None = None
        self._levels: list[Level] = []

    def stopped(self, stop: Stop) -> Resume:
        """Decides how the run goes on; to be overridden. What it raises ends the run."""
        return Resume.CONTINUE

    def will_compute(self, moment: Moment) -> None:
        depth, invocation = len(moment.calls), moment.calls[-1] if moment.calls else None
        del self._levels[depth + 1:]
        if len(self._levels) <= depth or self._levels[depth].invocation is not invocation:
            self._levels[depth:] = [Level(moment.graph, invocation)]
        self._levels[depth].keep(moment)

    def did_compute(self, moment: Moment) -> None:
        depth = len(moment.calls)
        del self._levels[depth + 1:]
        level = self._levels[depth]
        level.keep(moment)
        reason = self._reason(moment, not level.has_run)
        level.has_run = True
        if reason is not None:
            self._since = moment
            self._resume = self.stopped(Stop(moment, reason, tuple(self._levels)))

    def _reason(self, moment: Moment, is_first: bool) -> str | None:
        """Why a run stops after an operator; None where it goes on."""
        found = first_non_finite(moment, self.stop_at) if self.stop_at else None
        if found is not None:
            return str(found)
        for each in self.breakpoints:
            if each.matches(moment, is_first):
                return f"breakpoint {each}"
        return self._resume.value if self._arrives(moment, is_first) else None

    def _arrives(self, moment: Moment, is_first: bool) -> bool:
        """Whether the run has come to where it was told to go."""
        depth, since = len(moment.calls), self._since
        if self._resume in (Resume.CONTINUE, Resume.STEP) or since is None:
            return self._resume is not Resume.CONTINUE
        if self._resume is Resume.NEXT:
            return depth <= len(since.calls)
        if self._resume is Resume.OUT:
            return depth < len(since.calls)
        loop = since.loop
        return depth <= loop or (is_first and depth == loop + 1 and moment.calls[loop].role == since.calls[loop].role)
