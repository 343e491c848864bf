"""Times the runs of a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from circlet.profiling.profile import Profile
from circlet.profiling.timed_runs import Track
from circlet.runtime.errors import InputError
from circlet.runtime.exec.observe.recorder import Loops, Recorder
from circlet.runtime.exec.observe.unseen import find_unseen
from circlet.runtime.ir.model import Model
from circlet.runtime.late import LOADING
from circlet.session import Session

if TYPE_CHECKING:
    from circlet.interpreter import Interpreter

MOST_EVENTS = 100_000
"""Events that are kept of each thread, so that a trace of them has some 10 MB; a choice."""


def loops_of(model: Model) -> Loops:
    """The operators of a model that are loops, by subgraph and index, each with its body."""
    found = {}
    for index, subgraph in enumerate(model.subgraphs):
        for number, operator in enumerate(subgraph.operators):
            calls = operator.op.calls()
            if any(each.predicate for each in calls):
                found[index, number] = next(each.subgraph for each in calls if not each.predicate)
    return found


class _Recorders:
    """A recorder for each thread that runs a session."""

    def __init__(self, loops: Loops, most_events: int, reading: tuple[int, int] | None) -> None:
        self._loops = loops
        self._most_events = most_events
        self._reading = reading
        self._lock = Lock()
        self.found: dict[int, Recorder] = {}

    def of_this_thread(self) -> Recorder:
        thread = get_ident()
        found = self.found.get(thread)
        if found is None:
            made = Recorder(self._loops, self._most_events, find_unseen, self._reading)
            with self._lock:
                found = self.found.setdefault(thread, made)
        return found


def _session(of: Session | Interpreter) -> Session:
    if isinstance(of, Session):
        return of
    with LOADING:
        from circlet.interpreter import Interpreter

    if not isinstance(of, Interpreter):
        raise InputError(f"expected a Session or an Interpreter, found {type(of).__name__}")
    return of.session


def _reading(session: Session) -> tuple[int, int] | None:
    """The counter of compiled code, and when that was; None where nothing is compiled."""
    if session.backend != "native":
        return None
    with LOADING:
        from circlet.backends.native.counter import early_reading

    return early_reading()


@contextmanager
def profile(session: Session | Interpreter, events: int = 0) -> Iterator[Profile]:
    """Times the runs of a session, or an interpreter, that begin inside, by any thread.

    The profile is complete behind the block::

        with circlet.profile(session) as p:
            session.run(inputs)
        print(p)

    Compiled code is made anew for this, with readings of the processor's counter at the borders of subgraphs and
    operators: run a session once before what is to be measured. Loops with short turns are timed in a sample of their
    turns. Runs outside of the block cost what they cost without it.

    Args:
        session: whose runs are timed, those of its signatures and of what it bound too.
        events: how many single regions of each thread are kept with their beginnings and ends, for a trace;
            `MOST_EVENTS` are a good number.

    Raises:
        InputError: the session is profiled already, or it is none.
        ClosedError: it is closed.
    """
    session = _session(session)
    model = session.executed
    recorders = _Recorders(loops_of(model), events, _reading(session))
    found = Profile(model, session)
    try:
        with session.recording.into(recorders.of_this_thread):
            yield found
    finally:
        found.shapes.update(session.recording.shapes)
        for thread, each in recorders.found.items():
            each.gather()
            found.add(Track(thread, each))
