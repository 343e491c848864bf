"""What there is to say of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from circlet.runtime.errors import CircletError
from circlet.runtime.exec.copies import copy_edges, fitting_shapes
from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.ir.model import Model
from circlet.tools.inspection.constants import Constants, constants_of
from circlet.tools.inspection.costs import Cost, Runnable, costs_of
from circlet.tools.inspection.loops import copies, shapes, unread
from circlet.tools.inspection.peers import wrong_elsewhere
from circlet.tools.inspection.problem import Problem
from circlet.tools.support import Support, Verdict, support_of


@dataclass(frozen=True)
class Caller:
    """An operator that invokes a subgraph."""

    subgraph: int
    operator: int
    role: str


@dataclass(frozen=True, eq=False)
class Inspection:
    """What there is to say of a model."""

    path: str
    size: int
    """Of the file, in bytes."""
    model: Model
    shown: Sequence[int]
    """The subgraphs that are asked for."""
    support: Support
    callers: Sequence[Sequence[Caller]]
    """By subgraph."""
    constants: Constants
    costs: Sequence[Cost]
    """By subgraph; nothing of a malformed model, or where subgraphs call each other too deeply."""
    problems: Sequence[Problem]

    @property
    def hosted(self) -> Iterator[tuple[int, int, Verdict]]:
        """The operators that numpy computes where the rest is native code: subgraph, operator, why."""
        for index in self.shown:
            for number, verdict in enumerate(self.support.verdicts[index]):
                if verdict.backend is not None and verdict.reason:
                    yield index, number, verdict


def inspection_of(path: str, size: int, model: Model, shown: Sequence[int], backend: str) -> Inspection:
    """All of it.

    Args:
        path: of the file.
        size: of the file, in bytes.
        model: may be malformed.
        shown: the subgraphs that are asked for.
        backend: what computes it.

    Raises:
        InputError: there is no such backend.
        UnsupportedError: it needs a package that is not installed.
    """
    support = support_of(model, backend)
    runnable = _runnable(model, backend, support)
    costs: Sequence[Cost] = []
    problems: list[Problem] = []
    if not support.is_malformed:
        with suppress(RecursionError):
            costs = costs_of(model, runnable)
        with suppress(RecursionError):
            problems.extend(_problems(model, runnable, support))
    wanted = {*shown}
    return Inspection(path, size, model, shown, support, callers_of(model), constants_of(model), costs,
                      [each for each in problems if each.subgraph in wanted])


def _runnable(model: Model, backend: str, support: Support) -> Runnable | None:
    if support.problem is not None:
        return None
    try:
        return Runnable(model, backend)
    except (CircletError, RecursionError):
        return None


def _problems(model: Model, runnable: Runnable | None, support: Support) -> Iterator[Problem]:
    yield from wrong_elsewhere(model)
    if runnable is not None:
        entries = session_entries(model)
        yield from shapes(model, runnable, entries)
        yield from copies(model, _edges(runnable, entries) if support.edges is None else support.edges)
    yield from unread(model)


def _edges(runnable: Runnable, entries: Sequence[int]) -> Sequence[CopyEdge]:
    return copy_edges(runnable.executors, fitting_shapes(runnable.executors, entries))


def session_entries(model: Model) -> Sequence[int]:
    """The subgraphs that runs begin with."""
    return sorted({0, *(each.subgraph for each in model.signatures)})


def callers_of(model: Model) -> list[list[Caller]]:
    """What invokes each subgraph."""
    callers: list[list[Caller]] = [[] for _ in model.subgraphs]
    for index, subgraph in enumerate(model.subgraphs):
        for number, operator in enumerate(subgraph.operators):
            for call in operator.op.calls():
                if 0 <= call.subgraph < len(callers):
                    callers[call.subgraph].append(Caller(index, number, call.role))
    return callers
