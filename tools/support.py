"""Tells which backend computes each operator of a model, or why none does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.runtime.errors import CircletError, ModelError, Place, UnsupportedError, plural
from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.exec.executor_map import NOT_MINE, ExecutorMap
from circlet.runtime.exec.kernel import Backend, Call
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Opaque, Skip
from circlet.runtime.ir.verify import verify
from circlet.runtime.ops.loop import Loop
from circlet.session import Choice, Session, engine

SURVEYED = 1000
"""Of models with more operators it is told what is expected of each: writing code takes a millisecond for each of them,
as measured with 10 000."""


@dataclass(frozen=True)
class Verdict:
    """What becomes of one operator."""

    backend: str | None
    """Which backend computes it, several joined by `+`; `none` where other operators do its work, or nothing needs
    it; None where none does, or none was asked."""
    reason: str = ""
    """Why no backend does, or why numpy does where the rest is native code."""


@dataclass(frozen=True)
class Support:
    """What becomes of each operator of a model."""

    verdicts: tuple[tuple[Verdict, ...], ...]
    """By subgraph and operator."""
    problem: str | None = None
    """Why the model cannot be run."""
    edges: Sequence[CopyEdge] | None = None
    """What crosses the borders of subgraphs; None where it was not asked, or they call each other too deeply."""
    is_malformed: bool = False


def support_of(model: Model, backend: str = "auto") -> Support:
    """What the backends that `backend` names make of a model, whether or not it can be run, or is even well formed.

    Raises:
        InputError: there is no such backend.
        UnsupportedError: it needs a package that is not installed.
    """
    chosen = engine(backend)
    try:
        verify(model)
    except ModelError as error:
        unknown = Verdict(None, "not judged in a malformed model")
        return Support(tuple((unknown,) * len(each.operators) for each in model.subgraphs), str(error),
                       is_malformed=True)
    if sum(len(each.operators) for each in model.subgraphs) > SURVEYED:
        return _expected(model, chosen)
    edges = None
    try:
        session = Session(model, backend).survey()
        with suppress(RecursionError):
            edges = session.copies()
    except CircletError as error:
        return Support(_judged(model, chosen), _problem(error))
    except RecursionError:
        return Support(_judged(model, chosen))
    return Support(tuple(tuple(Verdict(name, session.reasons.get((index, number), "") if name != "none" else "")
                               for number, name in enumerate(session.backend_of(index)))
                         for index in range(len(model.subgraphs))), edges=edges)


def _expected(model: Model, chosen: Choice) -> Support:
    """What is told of a large model without writing code for it."""
    verdicts = _judged(model, chosen)
    refused = {(operator.name, operator.version, verdict.reason)
               for subgraph, own in zip(model.subgraphs, verdicts, strict=True)
               for operator, verdict in zip(subgraph.operators, own, strict=True) if verdict.backend is None}
    return Support(verdicts, f"{plural(len(refused), 'kind')} of operators cannot be run" if refused else None)


def _problem(error: CircletError) -> str:
    """What there is to say beside the verdicts."""
    text = str(error)
    return text.partition("\n")[0].removesuffix(":") if isinstance(error, UnsupportedError) else text


def _judged(model: Model, chosen: Choice) -> tuple[tuple[Verdict, ...], ...]:
    """What is expected of each operator by itself."""
    made = chosen.backends(ExecutorMap(Model(()), lambda _: (), elide=True))
    calls = [[Call.of(subgraph, operator, Place(index, subgraph.name, number, operator.name))
              for number, operator in enumerate(subgraph.operators)] for index, subgraph in enumerate(model.subgraphs)]
    return tuple(tuple(_verdict(call, made, chosen) for call in each) for each in calls)


def _verdict(call: Call, backends: Sequence[Backend], chosen: Choice) -> Verdict:
    if isinstance(call.op, Skip):
        return Verdict("none")
    if isinstance(call.op, Loop):
        return Verdict(ControlflowBackend.name)  # as the While that a pass makes of it
    reasons = []
    for backend in backends:
        reason = backend.refuses(call)
        if reason is None:
            name = backend.computes_with(call)
            return Verdict(name, _without_code(call) if chosen.name == "native" and name == "cpu" else "")
        reasons.append(reason)
    own = call.op.reason if isinstance(call.op, Opaque) else ""
    others = "; ".join(each for each in dict.fromkeys(reasons) if each != NOT_MINE)
    return Verdict(None, own or others or "not implemented")


def _without_code(call: Call) -> str:
    """Why there is no native code for a call that numpy computes."""
    from circlet.backends.native.rules.rule import rule_of

    found = rule_of(call)
    return found if isinstance(found, str) else ""
