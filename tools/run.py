"""Runs a model and shows its outputs, which subgraphs ran how often, and what was copied between them."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

import circlet
from circlet.runtime.errors import InputError
from circlet.runtime.exec.executor_map import SKIPPED
from circlet.runtime.exec.values.inputs import Entry, entry_of
from circlet.runtime.ir.held import value_text
from circlet.runtime.ir.model import Model, Signature
from circlet.runtime.ir.tensor import Tensor
from circlet.tools.arguments import (
    COMPUTING,
    LIMITS,
    OUTPUT,
    STDIN,
    SessionOptions,
    amount,
    assignment,
    chosen_signature,
    command,
    count,
    duration,
    load,
    session_of,
    session_parameters,
)
from circlet.tools.console import Document
from circlet.tools.results import (
    Value,
    json_quantization,
    json_shape,
    json_values,
    save_arrays,
    type_text,
    values_text,
)
from circlet.tools.tables import Table, duration_text, plain, plural, subgraph_text, table
from circlet.tools.usage import Option
from circlet.tools.values import read_inputs, tensors_of, zero_inputs

INPUTS = "Inputs"


@dataclass(frozen=True)
class RunOptions(SessionOptions):
    """A run that is asked for."""

    inputs: Sequence[tuple[str, str]]
    signature: str | None
    repeat: int | None
    save_outputs: str | None
    max_iterations: int | None
    deadline: float | None
    memory: int | None


@dataclass(frozen=True, eq=False)
class Run:
    """A run of a model, and what it came to."""

    options: RunOptions
    session: circlet.Session
    signature: Signature | None
    entry: Entry
    inputs: Mapping[str, Value]
    is_filled: bool
    """Whether the inputs are zeros for want of others."""
    outputs: Mapping[str, Value]
    counter: circlet.Counter
    samples: Sequence[float]
    """The seconds that further runs took."""
    files: Mapping[str, str]
    """Where outputs were saved, by name."""

    @property
    def model(self) -> Model:
        return self.session.model

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The outputs as the model declares them."""
        return tensors_of(self.model, self.entry, self.entry.outputs)


def execute(options: RunOptions) -> Document:
    """Run a model and show its outputs, which subgraphs ran how often, and what was copied between them.

    Without any --input all inputs are zeros.
    """
    _expect_one_reader(options)
    model = load(options)
    session = session_of(model, options, circlet.Limits(options.max_iterations, options.deadline, options.memory))
    signature = chosen_signature(model, options.signature)
    entry = entry_of(model, signature.subgraph if signature else 0, signature)
    inputs = read_inputs(model, entry, options.inputs)
    is_filled = bool(entry.inputs) and not inputs
    if is_filled:
        inputs = zero_inputs(model, entry)
    counter = circlet.Counter()
    outputs = session.run_entry(entry, inputs, counter)
    samples = _measure(session, entry, inputs, options.repeat or 0)
    files = save_arrays(options.save_outputs, outputs) if options.save_outputs else {}
    run = Run(options, session, signature, entry, inputs, is_filled, outputs, counter, samples, files)
    return _json(run) if options.json else _text(run)


def _expect_one_reader(options: RunOptions) -> None:
    readers = [options.model == STDIN, *(value == f"@{STDIN}" for _, value in options.inputs)]
    if sum(readers) > 1:
        raise InputError("the standard input can be read once; expected one - at most")


def _measure(session: circlet.Session, entry: Entry, inputs: Mapping[str, Value], repeat: int) -> list[float]:
    """The seconds of each of `repeat` runs, after one that binds buffers."""
    samples = []
    for _ in range(repeat + 1 if repeat else 0):
        start = time.perf_counter()
        session.run_entry(entry, inputs)
        samples.append(time.perf_counter() - start)
    return samples[1:]


def _text(run: Run) -> Document:
    rows = [(subgraph_text(run.model, index), run.counter.invocations[index], ", ".join(_backends(run, index)))
            for index in range(len(run.model.subgraphs))]
    return _outputs_table(run), table(("subgraph", "invocations", "computed by"), rows), "\n".join(_summary(run))


def _backends(run: Run, index: int) -> dict[str, int]:
    """How many operators of a subgraph each backend computed."""
    if not run.counter.invocations[index]:
        return {}
    names = Counter(name for name in run.session.backend_of(index) if name != SKIPPED)
    return dict(sorted(names.items()))


def _outputs_table(run: Run) -> Table | str:
    if not run.outputs:
        return "no outputs"
    rows = [(plain(name), type_text(run.tensors[name], value), values_text(value))
            for name, value in run.outputs.items()]
    return table(("output", "type", "value"), rows)


def _summary(run: Run) -> list[str]:
    counter = run.counter
    lines = [f"copied between subgraphs: {plural(counter.copies, 'value')}, {plural(counter.copied_bytes, 'byte')}"]
    if run.samples:
        median, least = map(duration_text, (statistics.median(run.samples), min(run.samples)))
        lines.append(f"time of a run: median {median}, minimum {least}, of {plural(len(run.samples), 'run')}")
    lines += [f"saved {file}" for file in run.files.values()]
    return lines


def _json(run: Run) -> dict[str, Any]:
    declared = tensors_of(run.model, run.entry, run.entry.inputs)
    return {
        "model": run.options.model,
        "signature": None if run.signature is None else run.signature.key,
        "subgraph": run.entry.subgraph,
        "backend": run.session.backend,
        "copy_elision": run.options.copy_elision,
        "inputs": [{**_json_type(name, declared[name], array), "zeros": run.is_filled}
                   for name, array in run.inputs.items()],
        "outputs": [{**_json_type(name, run.tensors[name], array), "values": json_values(array),
                     "file": run.files.get(name)} for name, array in run.outputs.items()],
        "subgraphs": [{"index": index, "name": subgraph.name, "invocations": run.counter.invocations[index],
                       "computed_by": _backends(run, index)}
                      for index, subgraph in enumerate(run.model.subgraphs)],
        "copies": run.counter.copies,
        "copied_bytes": run.counter.copied_bytes,
        "seconds": _json_seconds(run.samples),
    }


def _json_type(name: str, tensor: Tensor, value: Value) -> dict[str, Any]:
    return {"name": name, "dtype": value_text(tensor.held or tensor.dtype), "shape": json_shape(value),
            "quantization": json_quantization(tensor.quantization)}


def _json_seconds(samples: Sequence[float]) -> dict[str, float] | None:
    if not samples:
        return None
    return {"runs": len(samples), "median": statistics.median(samples), "minimum": min(samples)}


COMMAND = command("run", RunOptions, execute, [
    Option("-i", "--input", "inputs", group=INPUTS, type=assignment, multiple=True, metavar="NAME=VALUE",
           help="an input as a literal, e.g. n=27 or x=[[1.5,2],[3,4]], or from a file, x=@FILE.npy, x=@FILE.npz:KEY "
           "or, of the standard input, x=@-; once for each input"),
    Option("--signature", group=INPUTS, metavar="KEY", help="the entry point to run (default: subgraph 0)"),
    Option("--repeat", group=COMPUTING, type=count, metavar="N",
           help="then run N times more and show the time of a run"),
    Option("--max-iterations", group=LIMITS, type=amount, metavar="N",
           help="stop a run that needs more loop iterations"),
    Option("--deadline", group=LIMITS, type=duration, metavar="S", help="stop a run that takes more seconds"),
    Option("--memory", group=LIMITS, type=amount, metavar="BYTES",
           help="stop a run whose buffers take more (default: half of what is free)"),
    Option("--save-outputs", group=OUTPUT, metavar="DIR", type=click.Path(),
           help="write each output to DIR/NAME.npy"),
    *session_parameters(),
])
"""`circlet run`."""
