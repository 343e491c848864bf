"""What becomes of a model as native code: what each function computes, in LLVM's language, in the machine's."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.runtime.errors import RunError
from circlet.runtime.exec.executor import ExecutorMap
from circlet.runtime.exec.kernel import Backend
from circlet.runtime.exec.limits import Limits
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.session import engine
from circlet.tools.tables import plural, subgraph_text

if TYPE_CHECKING:
    from circlet.backends.native.backend import Listing


_SHORT = Limits(max_iterations=100, deadline=1.0)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the ways to show native code."""
    parser.add_argument("--native", action="store_true",
                        help="show what the entry points, or subgraph K, become as native code")
    parser.add_argument("--llvm", action="store_true", help="the same as LLVM's optimised assembly language")
    parser.add_argument("--asm", action="store_true", help="the same as assembly language of this machine")


def is_asked_for(options: Namespace) -> bool:
    """Whether native code is to be shown."""
    return bool(options.native or options.llvm or options.asm)


def native_text(model: Model, options: Namespace) -> str:
    """The functions of the entry points, or of the subgraph that is asked for."""
    executed, found = _functions(model, _entries(model, options), options.copy_elision)
    return "\n\n".join(_text(executed, each, options) for each in found) or "nothing becomes native code"


def json_native(model: Model, options: Namespace) -> list[dict[str, Any]]:
    """The same as objects; `llvm` and `asm` where they are asked for."""
    return [
        {"subgraph": each.subgraph, "operators": list(each.operators), "arena_bytes": each.arena_bytes,
         "outline": list(each.outline), **dict(_code(each, options))}
        for each in _functions(model, _entries(model, options), options.copy_elision)[1]
    ]


def _entries(model: Model, options: Namespace) -> Sequence[int]:
    if options.subgraph is not None:
        return (options.subgraph,)
    return sorted({0, *(each.subgraph for each in model.signatures)})


def _functions(model: Model, entries: Sequence[int], copy_elision: bool) -> tuple[Model, Sequence[Listing]]:
    """The model as passes leave it, and the functions that runs of its subgraphs need at their declared shapes.

    Lengths that these leave open are 1. Where shapes depend on data, a short run on zeros tells what is needed.

    Raises:
        UnsupportedError: the model cannot be run, or LLVM is not installed.
        ExecutionError: the shapes do not fit.
    """
    passes = engine("native").passes
    from circlet.backends.native.backend import NativeBackend, Options

    made: list[NativeBackend] = []
    executed: list[Model] = []

    def backends(executors: ExecutorMap) -> Sequence[Backend]:
        executed.append(executors.model)
        made.append(NativeBackend(executors, Options(keep_text=True)))
        return ControlflowBackend(executors), *made

    session = Session(model, backends, copy_elision, _SHORT, passes)
    for entry in entries:
        tensors = [model.subgraphs[entry].tensors[each] for each in model.subgraphs[entry].inputs]
        inputs = [np.full([abs(size) for size in each.signature], b"" if each.dtype is DType.STRING else 0,
                          each.dtype.numpy) for each in tensors]
        bound = session.bind(entry, inputs)
        if None in bound.shapes:
            with suppress(RunError):
                session.run_bound(bound)
    return executed[0], [each for backend in made for each in backend.listings if each.outline]


def _text(model: Model, listing: Listing, options: Namespace) -> str:
    numbers = listing.operators
    head = (f"{subgraph_text(model, listing.subgraph)}, operators [{numbers.start}] to [{numbers.stop - 1}]: "
            f"one function, {plural(listing.arena_bytes, 'byte')} of memory beside inputs and outputs")
    return "\n".join([head, *(listing.outline if options.native else ()),
                      *(text for _, text in _code(listing, options))])


def _code(listing: Listing, options: Namespace) -> Iterator[tuple[str, str]]:
    from circlet.backends.native.target import assembly, host, optimized_text

    if options.llvm:
        yield "llvm", optimized_text(listing.module, host())
    if options.asm:
        yield "asm", assembly(listing.module, host())
