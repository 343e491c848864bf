"""Runs a model and shows its outputs, which subgraphs ran how often, and what was copied between them."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from textwrap import indent
from typing import Any

import circlet
from circlet.runtime.errors import InputError
from circlet.runtime.exec.inputs import Entry, entry_of
from circlet.runtime.ir.held import value_text
from circlet.runtime.ir.model import Model, Signature, Tensor
from circlet.tools.arguments import add_session_arguments, amount, count, duration, load, session_of
from circlet.tools.console import note
from circlet.tools.results import (
    Value,
    json_quantization,
    json_shape,
    json_values,
    save_arrays,
    type_text,
    values_text,
)
from circlet.tools.tables import duration_text, plain, plural, subgraph_text, table
from circlet.tools.values import assignment, read_inputs, tensors_of, zeros


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `circlet run`."""
    add_session_arguments(parser)
    parser.add_argument("-i", "--input", dest="inputs", type=assignment, action="append", default=[],
                        metavar="NAME=VALUE",
                        help="an input as a literal, e.g. n=27 or x=[[1.5,2],[3,4]], or from a file, x=@FILE.npy or "
                        "x=@FILE.npz:KEY; once for each input. Without any, all are zeros")
    parser.add_argument("--signature", metavar="KEY", help="the entry point to run (default: subgraph 0)")
    parser.add_argument("--repeat", type=count, default=0, metavar="N",
                        help="then run N times more and show the time of a run")
    parser.add_argument("--save-outputs", metavar="DIR", help="write each output to DIR/NAME.npy")
    parser.add_argument("--max-iterations", type=amount, metavar="N", help="stop a run that needs more loop iterations")
    parser.add_argument("--deadline", type=duration, metavar="S", help="stop a run that takes more seconds")


@dataclass(frozen=True, eq=False)
class Run:
    """A run of a model, and what it came to."""

    options: argparse.Namespace
    model: Model
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
    def tensors(self) -> dict[str, Tensor]:
        """The outputs as the model declares them."""
        return tensors_of(self.model, self.entry, self.entry.outputs)


def execute(options: argparse.Namespace) -> str:
    """Runs the model; returns what to print."""
    model = load(options)
    session = session_of(model, options, circlet.Limits(options.max_iterations, options.deadline))
    signature = _signature(session, options.signature)
    entry = entry_of(model, signature.subgraph if signature else 0, signature)
    inputs = read_inputs(model, entry, options.inputs)
    is_filled = bool(entry.inputs) and not inputs
    if is_filled:
        inputs = _fill(model, entry)
    counter = circlet.Counter()
    outputs = session.run_entry(entry, inputs, counter)
    samples = _measure(session, entry, inputs, options.repeat)
    files = save_arrays(options.save_outputs, outputs) if options.save_outputs else {}
    run = Run(options, model, signature, entry, inputs, is_filled, outputs, counter, samples, files)
    return json.dumps(_json(run), allow_nan=False) if options.json else _text(run)


def _signature(session: circlet.Session, key: str | None) -> Signature | None:
    """The signature of that key; without one, the only signature of subgraph 0, as `Session.run` has it."""
    if key is not None:
        return session.signature(key).signature
    named = [each for each in session.model.signatures if each.subgraph == 0]
    return named[0] if len(named) == 1 else None


def _fill(model: Model, entry: Entry) -> dict[str, Value]:
    tensors = tensors_of(model, entry, entry.inputs)
    try:
        arrays = {name: zeros(tensor) for name, tensor in tensors.items()}
    except ValueError as error:
        raise InputError(f"the inputs cannot be filled with zeros: {error}") from None
    described = ", ".join(f"{plain(name)} {type_text(tensors[name], array)}" for name, array in arrays.items())
    note(f"no --input given, filled with zeros: {described}")
    return arrays


def _measure(session: circlet.Session, entry: Entry, inputs: Mapping[str, Value], repeat: int) -> list[float]:
    """The seconds of each of `repeat` runs, after one that binds buffers."""
    samples = []
    for _ in range(repeat + 1 if repeat else 0):
        start = time.perf_counter()
        session.run_entry(entry, inputs)
        samples.append(time.perf_counter() - start)
    return samples[1:]


def _text(run: Run) -> str:
    rows = [(subgraph_text(run.model, index), run.counter.invocations[index])
            for index in range(len(run.model.subgraphs))]
    parts = (_outputs_text(run), table(("subgraph", "invocations"), rows), "\n".join(_summary(run)))
    return "\n\n".join(parts)


def _outputs_text(run: Run) -> str:
    """A row for each output; values that take several lines stand below it."""
    if not run.outputs:
        return "no outputs"
    texts = {name: values_text(array) for name, array in run.outputs.items()}
    rows = [(plain(name), type_text(run.tensors[name], run.outputs[name]), "" if "\n" in text else text)
            for name, text in texts.items()]
    heading, *lines = table(("output", "type", "value"), rows).splitlines()
    blocks = (indent(text, "  ") if "\n" in text else None for text in texts.values())
    return "\n".join([heading, *chain.from_iterable(filter(None, pair) for pair in zip(lines, blocks, strict=True))])


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
        "backend": run.options.backend,
        "copy_elision": run.options.copy_elision,
        "inputs": [{**_json_type(name, declared[name], array), "zeros": run.is_filled}
                   for name, array in run.inputs.items()],
        "outputs": [{**_json_type(name, run.tensors[name], array), "values": json_values(array),
                     "file": run.files.get(name)} for name, array in run.outputs.items()],
        "subgraphs": [{"index": index, "name": subgraph.name, "invocations": run.counter.invocations[index]}
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
