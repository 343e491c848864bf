"""What becomes of a model as native code: what each function computes, in LLVM's language, in the machine's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.runtime.errors import RunError
from circlet.runtime.exec.bound import BoundRun
from circlet.runtime.exec.copies import fitting_shapes
from circlet.runtime.exec.engine import Engine
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Backend
from circlet.runtime.exec.limits import Limits
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType, Shape
from circlet.session import engine
from circlet.tools.arguments import SessionOptions
from circlet.tools.tables import plural, subgraph_text

if TYPE_CHECKING:
    from circlet.backends.native.backend import Listing, NativeBackend


_SHORT = Limits(max_iterations=100, deadline=1.0)
"""For runs that show what shapes come to be; writing code may take longer."""


@dataclass(frozen=True)
class NativeOptions(SessionOptions):
    """What is to be shown of native code."""

    native: bool
    llvm: bool
    asm: bool

    @property
    def shows_native(self) -> bool:
        """Whether anything is."""
        return self.native or self.llvm or self.asm


def native_text(model: Model, entries: Sequence[int], options: NativeOptions) -> Sequence[str]:
    """The functions of entry points."""
    executed, found = _functions(model, entries, options.copy_elision)
    return [_text(executed, each, options) for each in found] or ["nothing becomes native code"]


def json_native(model: Model, entries: Sequence[int], options: NativeOptions) -> dict[str, Any]:
    """The same as objects; `llvm` and `asm` where they are asked for."""
    return {"functions": [
        {"subgraph": each.subgraph, "operators": list(each.operators), "arena_bytes": each.arena_bytes,
         "outline": list(each.outline), **dict(_code(each, options))}
        for each in _functions(model, entries, options.copy_elision)[1]
    ]}


def _functions(model: Model, entries: Sequence[int], copy_elision: bool) -> tuple[Model, Sequence[Listing]]:
    """The model as passes leave it, and the functions that runs of its subgraphs need at their declared shapes.

    Lengths that these leave open are 1, or the least power of 2 that fits. Where shapes depend on data, a short run on
    zeros tells what is needed.

    Raises:
        UnsupportedError: the model cannot be run, or LLVM is not installed.
        ExecutionError: the shapes do not fit.
    """
    session, backend, executors = _session(model, copy_elision, compiles=False)
    shapes = fitting_shapes(executors, entries)
    if any(None in (bound.shapes or ()) for bound in _bound(session, shapes)):
        session, backend, _ = _session(model, copy_elision, compiles=True)
        found = _bound(session, shapes)
        session.limits = _SHORT
        for bound in found:
            if None in (bound.shapes or ()):
                with suppress(RunError):
                    session.run_bound(bound)
    return session.executed, [each for each in backend.listings if each.outline]


def _session(model: Model, copy_elision: bool, compiles: bool
             ) -> tuple[Session, NativeBackend, ExecutorMap]:
    """A session that keeps what is to be shown, and what it is bound with; it can be run if it `compiles`."""
    pipeline = engine("native").pipeline
    from circlet.backends.native.backend import NativeBackend, Options

    made: list[tuple[NativeBackend, ExecutorMap]] = []

    def backends(executors: ExecutorMap) -> Sequence[Backend]:
        native = NativeBackend(executors, Options(keep_text=True, compiles=compiles))
        made.append((native, executors))
        return ControlflowBackend(executors), native

    return Session(model, Engine(backends, pipeline, copy_elision)), *made[0]


def _bound(session: Session, shapes: Mapping[int, Sequence[Shape]]) -> Sequence[BoundRun]:
    """The entries, bound to zeros of shapes."""
    found = []
    for entry, given in shapes.items():
        graph = session.model.subgraphs[entry]
        types = [graph.tensors[each].dtype for each in graph.inputs]
        found.append(session.bind(entry, [np.full(shape, b"" if dtype is DType.STRING else 0, dtype.numpy)
                                          for shape, dtype in zip(given, types, strict=True)]))
    return found


def _text(model: Model, listing: Listing, options: NativeOptions) -> str:
    numbers = listing.operators
    place = f"{subgraph_text(model, listing.subgraph)}, operators [{numbers.start}] to [{numbers.stop - 1}]"
    if not listing.module:
        return f"{place}: {' '.join(listing.outline)}"
    head = f"{place}: one function, {plural(listing.arena_bytes, 'byte')} of memory beside inputs and outputs"
    return "\n".join([head, *(listing.outline if options.native else ()),
                      *(text for _, text in _code(listing, options))])


def _code(listing: Listing, options: NativeOptions) -> Iterator[tuple[str, str]]:
    if not listing.module:
        return
    from circlet.backends.native.load.llvm import assembly, host, optimized_text

    if options.llvm:
        yield "llvm", "\n".join(optimized_text(each, host()) for each in listing.pieces)
    if options.asm:
        yield "asm", "\n".join(assembly(each, host()) for each in listing.pieces)
