"""Times what comes before a model's runs: reading it, passes, code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Backend, Span
from circlet.runtime.exec.session import Session
from circlet.runtime.exec.values.inputs import Entry
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.verify import verify
from circlet.runtime.passes.manager import Pass, Pipeline
from circlet.schema.files import load_model
from circlet.session import Choice, engine
from circlet.tools.arguments import STDIN, SessionOptions
from circlet.tools.results import Value
from circlet.tools.tables import Table, duration_text, plain, plural, table

if TYPE_CHECKING:
    from circlet.backends.native.load.units import Unit  # needs LLVM, which not every platform has

IDLE = "nothing to do"
LONGEST = 3
"""Object files that a line names."""


@dataclass(frozen=True)
class Stage:
    """Something that comes before runs."""

    name: str
    seconds: float
    detail: str = ""
    units: Sequence[Unit] = ()
    """The object files that a function is joined of."""


class Stopwatch:
    """Times one stage after another."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._last = time.perf_counter()

    def restart(self) -> None:
        """What was done since the last lap is none."""
        self._last = time.perf_counter()

    def lap(self, name: str, detail: str = "") -> None:
        """What was done since the last lap is a stage."""
        now = time.perf_counter()
        self.stages.append(Stage(name, now - self._last, detail))
        self._last = now


class _Code:
    """What the native backend says of its functions."""

    def __init__(self) -> None:
        self.compiled: dict[str, Stage] = {}
        self.kept: dict[str, Stage] = {}

    def made(self, span: Span, key: str, seconds: float, units: Sequence[Unit]) -> None:
        """A function was compiled."""
        self.compiled[key] = Stage(f"compile {_place(span)}", seconds, _units_text(units), tuple(units))

    def bound(self, executed: Model, span: Span, key: str, manifest: object) -> None:
        """A function was bound."""
        if key not in self.compiled:
            self.kept[key] = Stage(f"take {_place(span)}", 0.0, "was kept on the disk")


def _place(span: Span) -> str:
    first, last = span.operators.start, span.operators.stop - 1
    return f"@{span.spec.index} {plain(span.spec.subgraph.name)}, operators [{first}] to [{last}]"


def _units_text(units: Sequence[Unit]) -> str:
    """How many object files there are, and which took longest."""
    made = sorted((each for each in units if not each.is_kept), key=lambda each: -each.seconds)
    kept = f", {len(units) - len(made)} of them kept on the disk before" if len(made) < len(units) else ""
    longest = ", ".join(f"{plain(each.name)} {duration_text(each.seconds)}" for each in made[:LONGEST])
    return f"{plural(len(units), 'unit')}{kept}{f'; longest: {longest}' if longest else ''}"


def load_timed(options: SessionOptions, watch: Stopwatch) -> Model:
    """The model that options describe, verified."""
    source = sys.stdin.buffer.read() if options.model == STDIN else options.model
    heard: list[str] = []
    model = load_model(source, options=options.reading, hear=lambda ran, _, __: heard.append(ran.name))
    watch.lap("read", f"{model.format}{''.join(f', pass {each}' for each in heard)}")
    verify(model)
    watch.lap("verify")
    return model


def first_run(model: Model, options: SessionOptions, num_threads: int, entry: Entry, inputs: Mapping[str, Value],
              watch: Stopwatch) -> None:
    """Makes a session and runs it once, as a program does; what is compiled is a part of the first run."""
    chosen = engine(options.backend, num_threads)
    watch.lap("choose the backend", chosen.name)

    def hear(ran: Pass, before: Model, after: Model) -> None:
        watch.lap(f"pass {ran.name}", "" if after is not before else IDLE)

    executed = chosen.pipeline().run(model, hear)
    code = _Code()
    session = Session(executed, replace(chosen, pipeline=_no_passes, copy_elision=options.copy_elision,
                                        backends=_heard(chosen, num_threads, code)))
    with session:
        watch.lap("make executors")
        session.run_entry(entry, inputs)
        watch.lap("first run", _code_text(code))
    watch.stages += [*code.compiled.values(), *code.kept.values()]


def startup_table(stages: Sequence[Stage]) -> Table:
    """Stages in their order; passes that did nothing in one line."""
    idle = [each for each in stages if each.detail == IDLE]
    rows = [(each.name, duration_text(each.seconds), each.detail) for each in stages if each.detail != IDLE]
    if idle:
        rows.append((f"{len(idle)} other passes", duration_text(sum(each.seconds for each in idle)), IDLE))
    return table(("before the runs", "time", ""), rows)


def _no_passes() -> Pipeline:
    return Pipeline("none", ())


def _heard(chosen: Choice, num_threads: int, code: _Code) -> Callable[[ExecutorMap], Sequence[Backend]]:
    if chosen.name != "native":
        return chosen.backends

    def backends(executors: ExecutorMap) -> Sequence[Backend]:
        from circlet.backends.native.backend import NativeBackend  # needs LLVM, which not every platform has

        return ControlflowBackend(executors), NativeBackend(
            executors, num_threads=num_threads, heard=code.bound, compiled=code.made)

    return backends


def _code_text(code: _Code) -> str:
    if not code.compiled and not code.kept:
        return "binds memory"
    return f"binds memory; functions: {len(code.compiled)} compiled, {len(code.kept)} kept on the disk before"
