"""Tells which backend computes each operator of a model, or why none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from circlet.runtime.errors import CircletError, ModelError, Place, UnsupportedError
from circlet.runtime.exec.executor_map import NOT_MINE, ExecutorMap
from circlet.runtime.exec.kernel import Backend, Call
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Opaque, Skip
from circlet.runtime.ir.verify import verify
from circlet.session import Session, engine


@dataclass(frozen=True)
class Verdict:
    """What becomes of one operator."""

    backend: str | None
    """Which backend computes it, several joined by `+`; `none` where other operators do its work, or nothing needs
    it; None where none does, or none was asked."""
    reason: str = ""
    """Why no backend does."""


@dataclass(frozen=True)
class Support:
    """What becomes of each operator of a model."""

    verdicts: tuple[tuple[Verdict, ...], ...]
    """By subgraph and operator."""
    problem: str | None = None
    """Why the model cannot be run."""


def support_of(model: Model, backend: str = "auto") -> Support:
    """What the backends that `backend` names make of a model, whether or not it can be run, or is even well formed.

    Raises:
        InputError: there is no such backend.
        UnsupportedError: it needs a package that is not installed.
    """
    engine(backend)
    try:
        verify(model)
    except ModelError as error:
        unknown = Verdict(None, "not judged in a malformed model")
        return Support(tuple((unknown,) * len(each.operators) for each in model.subgraphs), str(error))
    try:
        session = Session(model, backend).survey()
    except UnsupportedError as error:
        return _judged(model, backend, str(error).partition("\n")[0].removesuffix(":"))
    except CircletError as error:
        return _judged(model, backend, str(error))
    return Support(tuple(tuple(map(Verdict, session.backend_of(index))) for index in range(len(model.subgraphs))))


def _judged(model: Model, backend: str, problem: str) -> Support:
    made = engine(backend).backends(ExecutorMap(Model(()), lambda _: (), elide=True))
    calls = [[Call.of(subgraph, operator, Place(index, subgraph.name, number, operator.name))
              for number, operator in enumerate(subgraph.operators)] for index, subgraph in enumerate(model.subgraphs)]
    return Support(tuple(tuple(_verdict(call, made) for call in each) for each in calls), problem)


def _verdict(call: Call, backends: Sequence[Backend]) -> Verdict:
    if isinstance(call.op, Skip):
        return Verdict("none")
    reasons = []
    for backend in backends:
        reason = backend.refuses(call)
        if reason is None:
            return Verdict(backend.computes_with(call))
        reasons.append(reason)
    own = call.op.reason if isinstance(call.op, Opaque) else ""
    others = "; ".join(each for each in dict.fromkeys(reasons) if each != NOT_MINE)
    return Verdict(None, own or others or "not implemented")
