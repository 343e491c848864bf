"""Writes a model in another format, with operators that the format has and other programs run."""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click

import circlet
from circlet.runtime.errors import InputError
from circlet.runtime.ir.model import Model
from circlet.schema.files import dump_model, save_model
from circlet.schema.formats import WRITTEN
from circlet.tools.arguments import OUTPUT, ModelOptions, command, load, model_parameters
from circlet.tools.console import Document
from circlet.tools.tables import plural, table
from circlet.tools.usage import Argument, Choice, Option

STDOUT = "-"


@dataclass(frozen=True)
class ConvertOptions(ModelOptions):
    """A model that is to be written, and where to."""

    output: str
    to: str | None


def execute(options: ConvertOptions) -> Document | None:
    """Write a model as .tflite or .circle, and say which operators changed.

    A model that is written to the standard output is all that goes there.
    """
    if options.output == STDOUT:
        _to_stdout(options)
        return None
    target = options.to or Path(options.output).suffix.removeprefix(".").lower()
    model = load(options)
    converted = circlet.convert(model)
    save_model(converted, options.output, target)
    size = os.path.getsize(options.output)
    before, after = _operators(model), _operators(converted)
    if options.json:
        return {"model": options.model, "output": options.output, "bytes": size,
                "subgraphs": len(converted.subgraphs), "operators": dict(sorted(after.items()))}
    rows = [(name, before[name], after[name]) for name in sorted({*before, *after}) if before[name] != after[name]]
    head = (f"{options.output}: {plural(size, 'byte')}, {plural(len(converted.subgraphs), 'subgraph')}, "
            f"{plural(sum(after.values()), 'operator')}")
    return head, table(("operator", "before", "after"), rows) if rows else "the operators are the same"


def _to_stdout(options: ConvertOptions) -> None:
    if options.to is None:
        raise click.UsageError("a model for the standard output needs a format; expected --to "
                               + " or --to ".join(WRITTEN))
    if options.json:
        raise click.UsageError("--json and a model cannot both be written to the standard output; expected one of them")
    if sys.stdout.isatty():
        raise InputError("a model is no text for a terminal; expected a file or a pipe as the standard output")
    sys.stdout.buffer.write(dump_model(circlet.convert(load(options)), options.to))


def _operators(model: Model) -> Counter[str]:
    return Counter(operator.name for subgraph in model.subgraphs for operator in subgraph.operators)


COMMAND = command("convert", ConvertOptions, execute, [
    *model_parameters(),
    Argument("output", "the file to write; - is the standard output", type=click.Path(allow_dash=True)),
    Option("--to", group=OUTPUT, type=Choice(list(WRITTEN)),
           help="the format (default: that of the file's ending)"),
])
"""`circlet convert`."""
