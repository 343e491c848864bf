"""Runs a model operator by operator, and stops where it is asked to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

import circlet
from circlet.runtime.errors import InputError, suggestion
from circlet.runtime.exec.observe.breakpoints import Breakpoint, breakpoint_at, computed_tensors
from circlet.runtime.exec.observe.debugger import Debugger
from circlet.runtime.exec.observe.non_finite import NonFinite
from circlet.runtime.exec.values.inputs import Entry, entry_of
from circlet.runtime.ir.model import Model
from circlet.tools.arguments import (
    LIMITS,
    OUTPUT,
    STDIN,
    ModelOptions,
    amount,
    assignment,
    chosen_signature,
    command,
    duration,
    load,
    model_parameters,
)
from circlet.tools.console import Document, write
from circlet.tools.debugging.prompt import Prompt, Read
from circlet.tools.debugging.reports import EndOfRun, Reports
from circlet.tools.results import Value, json_values, type_text, values_text
from circlet.tools.tables import plain, table
from circlet.tools.usage import Choice, Option
from circlet.tools.values import read_inputs, tensors_of, zero_inputs

INPUTS, STOPS = "Inputs", "Stops"
PASSES = ("lower_loops", "unpack_filters")
"""What a model cannot run without; others would take operators out that are to be looked at."""
READY = "(circlet) "


@dataclass(frozen=True)
class DebugOptions(ModelOptions):
    """A run that is to be looked into."""

    inputs: Sequence[tuple[str, str]]
    signature: str | None
    breakpoints: Sequence[str]
    stop_at: Sequence[str]
    printed: Sequence[str]
    dumped: Sequence[tuple[str, str]]
    commands: Sequence[str]
    max_iterations: int | None
    deadline: float | None

    @property
    def is_attended(self) -> bool:
        """Whether commands say what happens at a stop."""
        return not (self.printed or self.dumped or self.stop_at) or bool(self.commands)


def execute(options: DebugOptions) -> Document | None:
    """Run a model operator by operator with numpy, and stop after those that are asked for.

    At a stop tensors are printed with --print, written with --dump, or commands are read: of --command, else of the
    standard input; `help` lists them. Without any --break the run stops after its first operator, or where the tensors
    of --print and --dump are computed.

    Without any --input all inputs are zeros.
    """
    _expect_one_use_of_stdin(options)
    model = load(options)
    limits = circlet.Limits(options.max_iterations, options.deadline)
    session = circlet.Session(model, "cpu", limits=limits, passes=PASSES)
    signature = chosen_signature(model, options.signature)
    entry = entry_of(model, signature.subgraph if signature else 0, signature)
    debugger = _debugger(options, model)
    inputs = read_inputs(model, entry, options.inputs)
    inputs = inputs or (zero_inputs(model, entry) if entry.inputs else {})
    outputs: dict[str, Value] | None = None
    with suppress(EndOfRun):
        outputs = session.run_entry(entry, inputs, debugger)
    if options.json:
        assert isinstance(debugger, Reports), "JSON is of runs that nobody attends"
        return _json(options, debugger, outputs)
    return _ending(model, entry, outputs, debugger)


def _expect_one_use_of_stdin(options: DebugOptions) -> None:
    uses = [options.model == STDIN, *(value == f"@{STDIN}" for _, value in options.inputs)]
    if sum(uses) > 1 or (any(uses) and options.is_attended and not options.commands):
        raise InputError("the standard input can be read once; expected one - at most, or commands")
    if options.json and options.is_attended:
        raise click.UsageError("--json is for runs that nobody attends: give --print, --dump or --stop-at, and no "
                               "--command")


def _debugger(options: DebugOptions, model: Model) -> Debugger:
    breakpoints = [breakpoint_at(model, each) for each in options.breakpoints]
    stop_at = [NonFinite(each) for each in options.stop_at]
    if options.is_attended:
        return Prompt(model, breakpoints, stop_at, _reader(options), write)
    names = [*options.printed, *(name for name, _ in options.dumped)]
    for name in names:
        _expect_tensor(model, name)
    if not breakpoints and not stop_at:
        computed = computed_tensors(model)
        breakpoints = [Breakpoint(tensor=each) for each in dict.fromkeys(names) if each in computed]
    return Reports(breakpoints, stop_at, options.printed, dict(options.dumped),
                   (lambda text: None) if options.json else write)


def _expect_tensor(model: Model, name: str) -> None:
    names = {tensor.name for subgraph in model.subgraphs for tensor in subgraph.tensors}
    if name not in names:
        raise InputError(f"no tensor {name!r} in the model{suggestion(name, names)}")


def _reader(options: DebugOptions) -> Read:
    """Where commands come from."""
    if options.commands:
        given: Iterator[str] = (line for each in options.commands for line in each.split(";"))
        return lambda: next(given, None)
    if not sys.stdin.isatty():
        return lambda: sys.stdin.readline() or None
    with suppress(ImportError):
        import readline  # noqa: F401  # makes `input` remember lines
    return _asked


def _asked() -> str | None:
    try:
        return input(READY)
    except EOFError:
        return None


def _ending(model: Model, entry: Entry, outputs: dict[str, Value] | None, debugger: Debugger) -> Document:
    unheard = isinstance(debugger, Reports) and not debugger.stops
    if not unheard:
        write("")
    if outputs is None:
        return ("the run was ended",)
    tensors = tensors_of(model, entry, entry.outputs)
    rows = [(plain(name), type_text(tensors[name], value), values_text(value)) for name, value in outputs.items()]
    return (*(["the run stopped nowhere"] if unheard else []), table(("output", "type", "value"), rows))


def _json(options: DebugOptions, reports: Reports, outputs: dict[str, Value] | None) -> dict[str, Any]:
    return {
        "model": options.model,
        "stops": reports.stops,
        "outputs": None if outputs is None else [{"name": name, "values": json_values(value)}
                                                 for name, value in outputs.items()],
    }


COMMAND = command("debug", DebugOptions, execute, [
    Option("-i", "--input", "inputs", group=INPUTS, type=assignment, multiple=True, metavar="NAME=VALUE",
           help="an input, as for circlet run"),
    Option("--signature", group=INPUTS, metavar="KEY", help="the entry point to run (default: subgraph 0)"),
    Option("-b", "--break", "breakpoints", group=STOPS, multiple=True, metavar="WHERE",
           help="stop after an operator (body:3, or ADD), after a tensor is computed (its name), at the beginning of a "
           "subgraph (its name or @INDEX), or of an iteration (iteration=N); with @iteration=N in that one alone, e.g. "
           "body:3@iteration=100"),
    Option("--stop-at", group=STOPS, type=Choice([each.value for each in NonFinite]), multiple=True,
           help="stop after the first operator that gives NaN or infinity"),
    Option("--command", "commands", group=STOPS, multiple=True, metavar="COMMAND",
           help="what to do at stops, in order, instead of asking; several with ; between them"),
    Option("--print", "printed", group=OUTPUT, multiple=True, metavar="TENSOR", help="print a tensor at each stop"),
    Option("--dump", "dumped", group=OUTPUT, type=assignment, multiple=True, metavar="TENSOR=FILE",
           help="write a tensor to FILE.npy at each stop, from the second on to FILE.2.npy and so on"),
    Option("--max-iterations", group=LIMITS, type=amount, metavar="N",
           help="stop a run that needs more loop iterations"),
    Option("--deadline", group=LIMITS, type=duration, metavar="S", help="stop a run that takes more seconds"),
    *model_parameters(),
])
"""`circlet debug`."""
