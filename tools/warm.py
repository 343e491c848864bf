"""Compiles models into the folder of compiled functions, ahead of the programs that run them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import click
import numpy as np

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.native.backend import NativeBackend
from circlet.backends.native.load import cache
from circlet.backends.native.load.manifest import Manifest
from circlet.backends.native.parts import OpenLengths
from circlet.backends.native.plans.keeper import Keeper
from circlet.runtime.errors import ExecutionError, InputError, RunError, suggestion
from circlet.runtime.exec.engine import Engine
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Backend, Span
from circlet.runtime.exec.limits import Limits
from circlet.runtime.exec.session import Session
from circlet.runtime.exec.values.entry_points import has_state
from circlet.runtime.exec.values.inputs import Entry, entry_of
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Shape
from circlet.schema.formats import OPTIONS
from circlet.session import engine
from circlet.tools.arguments import COMPUTING, OUTPUT, ModelOptions, chosen_signature, load, reading_parameters, shape
from circlet.tools.console import Document, note, show
from circlet.tools.results import Value
from circlet.tools.tables import plain, plural
from circlet.tools.usage import Argument, Command, Option
from circlet.tools.values import tensors_of, zeros

OPEN = (8, 64, 512)
"""The lengths that runs have where the model leaves them open: choices beyond 0 and 1, which get code of their own; the
code is for all others. The next is tried where windows, or halves of halves, do not fit into one: those of an image,
then those of sound."""
MOST_ELEMENTS = 1 << 22
"""Of the inputs of a run with more than the least of these lengths: a choice, a run that takes no longer than
compiling."""
_SHORT = Limits(max_iterations=100)
"""Of the run on zeros. A choice: code is made before the first iteration, or in the first few."""
_HOST = "(host call: "
"""What a function's outline says before the reason why numpy computes an operator."""


@dataclass(frozen=True)
class WarmOptions:
    """What is to be compiled."""

    models: Sequence[str]
    signature: str | None
    shapes: Mapping[str, Shape]
    quiet: bool
    json: bool
    reading: Mapping[str, str]


@dataclass(frozen=True)
class Function:
    """A function that is on the disk now."""

    subgraph: str
    operators: range
    was_kept: bool
    """Whether it was there before."""
    any_lengths: bool
    """Whether it is for any open lengths."""
    lent: bool
    """Whether it is for inputs that are to stay as they are, as those of interpreters are."""


@dataclass(frozen=True)
class Warmed:
    """What became of a model."""

    model: str
    functions: Sequence[Function]
    left: Sequence[str]
    """What numpy computes, and what is not for all lengths, and why, a line each."""
    stopped: Sequence[str]
    """Why runs on zeros ended before their end, which more code may lie behind."""
    seconds: float


class _Record:
    """What a session's native backend says while it binds functions."""

    def __init__(self, model: Model) -> None:
        self._keeper = Keeper(lambda: model)
        self._before = {each.key for each in cache.entries()}
        self.functions: dict[str, Function] = {}
        self.is_lending = False
        """Whether what is bound now reads inputs of the caller's."""
        self.left: dict[str, None] = {}

    def bound(self, executed: Model, span: Span, key: str, manifest: Manifest) -> None:
        """A function was bound."""
        self._keeper.add(executed, span, key, manifest)
        if key not in self.functions:
            name = span.spec.subgraph.name
            self.functions[key] = Function(name, span.operators, key in self._before,
                                           any(isinstance(each, OpenLengths) for each in manifest.origins),
                                           self.is_lending)
            for line in manifest.outline:
                if _HOST in line:
                    self.left[f"left to numpy: {plain(name)} {line.strip()}"] = None

    def refused(self, span: Span, reason: str) -> None:
        """A span is left to numpy, or to code for the lengths at hand."""
        self.left[f"{_place(span.spec.subgraph.name, span.operators)}: {reason}"] = None


def _place(subgraph: str, operators: range) -> str:
    return f"{plain(subgraph)}, operators [{operators.start}] to [{operators.stop - 1}]"


def execute(options: WarmOptions) -> Document | None:
    """Compile models into the folder of compiled functions, so that programs that run them need not.

    Each entry point is run on zeros, and bound as interpreters do. Lengths that a model leaves open need not be given:
    code is made for all, and, where that is other code, for one image or sequence at a time and for lengths of one.
    """
    if cache.folder() is None:
        raise InputError(f"nothing is kept: {cache.VARIABLE} is empty")
    found = [_warmed(path, options) for path in options.models]
    _import()
    if options.json:
        return {"models": [_json(each) for each in found]}
    return None if options.quiet else tuple("\n".join(_text(each)) for each in found)


def _import() -> None:
    """Has a process import circlet as the programs will, which keeps the bytecode that they read."""
    subprocess.run([sys.executable, "-c", "import circlet"], check=False, capture_output=True)


def _warmed(path: str, options: WarmOptions) -> Warmed:
    """Compiles a model."""
    if not (options.quiet or options.json) and sys.stderr.isatty():
        note(f"compiling {plain(path)}")
    begin = time.monotonic()
    model = load(ModelOptions(path, options.json, options.reading))
    record = _Record(model)

    def backends(executors: ExecutorMap) -> Sequence[Backend]:
        return ControlflowBackend(executors), NativeBackend(executors, heard=record.bound, refused=record.refused)

    session = Session(model, Engine(backends, engine("native").pipeline), _SHORT)
    stopped = []
    for entry in _entries(session, options):
        problem = _bind(session, record, entry, options.shapes)
        if problem is not None:
            stopped.append(f"a run of {plain(entry.graph.name)} on zeros: {problem}")
    return Warmed(path, list(record.functions.values()), list(record.left), stopped, time.monotonic() - begin)


def _bind(session: Session, record: _Record, entry: Entry, shapes: Mapping[str, Shape]) -> RunError | None:
    """Compiles an entry point for the first lengths of which some fit the model; gives why the run with all of these
    ended, or with the first of all, if none fit."""
    tensors = tensors_of(session.model, entry, entry.inputs)
    problem: RunError | None = None
    tried: Sequence[Mapping[str, Shape]] = ()
    for length in OPEN:
        wanted = _shapes(tensors, shapes, length)
        if problem is not None and (wanted == tried or sum(map(prod, wanted[0].values())) > MOST_ELEMENTS):
            break
        found = [_ended(session, record, entry, {name: _zeros(tensor, each[name]) for name, tensor in tensors.items()})
                 for each in wanted]
        if not all(isinstance(each, ExecutionError) for each in found):
            _bind_larger(session, record, entry, shapes, length)
            return found[0]
        problem, tried = problem or found[0], wanted
    return problem


def _bind_larger(session: Session, record: _Record, entry: Entry, shapes: Mapping[str, Shape], length: int) -> None:
    """Compiles what is for larger lengths than those at which an entry point was run: what halves an image again and
    again may be other code where that comes to 1."""
    tensors = tensors_of(session.model, entry, entry.inputs)
    for larger in [each for each in OPEN if each > length][:1]:
        *wanted, _ = _shapes(tensors, shapes, larger)
        for each in wanted[-1:]:
            if sum(map(prod, each.values())) <= MOST_ELEMENTS:
                _ended(session, record, entry, {name: _zeros(tensor, each[name]) for name, tensor in tensors.items()})


def _ended(session: Session, record: _Record, entry: Entry, inputs: Mapping[str, Value]) -> RunError | None:
    """Why a run ended before its end, if it did; what it runs is compiled, for inputs that are to stay, too."""
    try:
        record.is_lending = False
        session.reset_state()
        session.run_entry(entry, inputs)
        if has_state(session.model):
            with suppress(RunError):  # on what the first run left, which may ask for other lengths
                session.run_entry(entry, inputs)
        record.is_lending = True
        session.bind(entry.subgraph, entry.arrays(inputs), is_resizable=True)
    except RunError as error:
        return error
    return None


def _entries(session: Session, options: WarmOptions) -> Iterator[Entry]:
    """The entry points that are asked for."""
    model, signatures = session.model, session.model.signatures
    if options.signature is not None:
        chosen = chosen_signature(model, options.signature)
        assert chosen is not None, "a key names a signature"
        yield entry_of(model, chosen.subgraph, chosen)
        return
    for index in session.entries:
        yield entry_of(model, index, next((each for each in signatures if each.subgraph == index), None))


def _shapes(tensors: Mapping[str, Tensor], shapes: Mapping[str, Shape], length: int) -> Sequence[Mapping[str, Shape]]:
    """The shapes of inputs for runs of an entry point, with other lengths each: one where they are open, then the least
    that programs have most often, for the first axis and for all.

    Raises:
        InputError: a shape is given that no input has.
    """
    wrong = next((each for each in shapes if each not in tensors), None)
    if wrong is not None:
        raise InputError(f"no input {wrong!r}; the entry point takes {', '.join(tensors) or 'none'}"
                         f"{suggestion(wrong, tensors)}")
    sizes = ({name: shapes.get(name, _filled(tensor.signature, *lengths)) for name, tensor in tensors.items()}
             for lengths in ((length, length), (1, length), (1, 1)))
    return list(dict((tuple(each.items()), each) for each in sizes).values())


def _filled(signature: Shape, first: int, others: int) -> Shape:
    """A shape with lengths in place of the open ones."""
    return tuple((others if axis else first) if each < 0 else each for axis, each in enumerate(signature))


def _zeros(tensor: Tensor, shape: Shape) -> Value:
    """Zeros of a shape."""
    if tensor.dtype is DType.VARIANT:
        return zeros(tensor)
    return np.full(shape, b"" if tensor.dtype is DType.STRING else 0, tensor.dtype.element)


def _text(found: Warmed) -> Iterator[str]:
    kept = sum(each.was_kept for each in found.functions)
    yield (f"{found.model}: {plural(len(found.functions) - kept, 'function')} compiled, {kept} kept before, "
           f"in {found.seconds:.1f} s")
    for each in found.functions:
        use = (", for any lengths" if each.any_lengths else "") + (", for interpreters" if each.lent else "")
        yield f"  {'kept' if each.was_kept else 'compiled'}: {_place(each.subgraph, each.operators)}{use}"
    for line in found.left:
        yield f"  {line}"
    for line in found.stopped:
        yield f"  stopped: {line}"


def _json(found: Warmed) -> dict[str, Any]:
    return {
        "model": found.model,
        "functions": [{"subgraph": each.subgraph, "operators": [each.operators.start, each.operators.stop],
                       "kept": each.was_kept, "any_lengths": each.any_lengths,
                       "lent": each.lent} for each in found.functions],
        "left": list(found.left),
        "stopped": list(found.stopped),
        "seconds": found.seconds,
    }


def _callback(shapes: Sequence[tuple[str, Shape]], **values: Any) -> None:
    reading = {name: values.pop(name) for name in OPTIONS}
    document = execute(WarmOptions(shapes=dict(shapes), reading=reading, **values))
    if document is not None:
        show(document)


COMMAND = Command("warm", help=execute.__doc__, callback=_callback, params=[
    Argument("models", ".tflite, .circle, .onnx or OpenVINO .xml files", metavar="MODEL...", nargs=-1, required=True,
             type=click.Path()),
    Option("--signature", group=COMPUTING, metavar="KEY", help="of this signature alone (default: all entry points)"),
    Option("--shape", "shapes", group=COMPUTING, metavar="NAME=LENGTH,...", multiple=True, type=shape,
           help="of an input; needed only where code cannot be for all lengths"),
    Option("--quiet", group=OUTPUT, is_flag=True, help="print nothing but errors"),
    Option("--json", group=OUTPUT, is_flag=True, help="print one line of JSON, errors too"),
    *reading_parameters(),
])
"""`circlet warm`."""
