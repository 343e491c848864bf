"""What commands that measure have in common: which entry point of a model is run, and on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from circlet.runtime.errors import InputError
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Shape
from circlet.schema.formats import OPTIONS
from circlet.tools.arguments import (
    OUTPUT,
    STDIN,
    ModelOptions,
    amount,
    assignment,
    chosen_signature,
    count,
    duration,
    load,
    reading_parameters,
    shape,
)
from circlet.tools.measuring.inputs import inputs_of
from circlet.tools.measuring.work import Work, entry_named, work_of
from circlet.tools.tables import plain
from circlet.tools.usage import Option

INPUTS, MEASURING = "Inputs", "Measuring"
"""Groups of options."""


@dataclass(frozen=True)
class WorkOptions:
    """A run that is to be measured."""

    inputs: Sequence[tuple[str, str]]
    shapes: Mapping[str, Shape]
    seed: int
    signature: str | None
    runs: int | None
    seconds: float
    chart: str | None
    quiet: bool
    json: bool
    reading: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Given:
    """A run of a model.

    Attributes:
        model: as it was read.
        work: the run.
        random: the inputs that have values by chance.
    """

    model: Model
    work: Work
    random: frozenset[str]

    @property
    def note(self) -> str | None:
        """Which inputs have values by chance, if any have."""
        return f"inputs by chance: {', '.join(map(plain, sorted(self.random)))}" if self.random else None


def given(path: str, options: WorkOptions) -> Given:
    """A model with its inputs.

    Raises:
        InputError: there is no such model, entry point or input, or nothing that other runtimes can read.
    """
    if path == STDIN:
        raise InputError("each runtime reads the model anew: expected a file, found -")
    model = load(ModelOptions(path, options.json, options.reading))
    signature = chosen_signature(model, options.signature)
    values, random = inputs_of(model, entry_named(model, signature), options.inputs, options.shapes, options.seed)
    reading = {name: word for name, word in options.reading.items() if word != OPTIONS[name].choices[0]}
    return Given(model, work_of(Path(path), model, values, signature, reading=reading), random)


Chosen = TypeVar("Chosen", bound=WorkOptions)


def chosen(kind: type[Chosen], shapes: Sequence[tuple[str, Shape]], values: Mapping[str, Any]) -> Chosen:
    """Options of a kind, of what a command line gives."""
    reading = {name: values[name] for name in OPTIONS}
    rest = {name: value for name, value in values.items() if name not in OPTIONS}
    return kind(shapes=dict(shapes), reading=reading, **rest)


def measuring_parameters(drawn: str) -> list[click.Parameter]:
    """The parameters that say how much is measured, and what is made of it.

    Args:
        drawn: what the chart shows.
    """
    return [
        Option("--runs", group=MEASURING, type=count, metavar="N",
               help="samples of each runtime (default: as many as --seconds allows)"),
        Option("--seconds", group=MEASURING, type=duration, default=5.0, metavar="S",
               help="that all runtimes together are measured for, but for three samples of each (default: 5)"),
        Option("--chart", group=OUTPUT, metavar="FILE.svg", type=click.Path(), help=f"draw {drawn}"),
        Option("--quiet", group=OUTPUT, is_flag=True, help="show no progress"),
        Option("--json", group=OUTPUT, is_flag=True, help="print one line of JSON, errors too"),
        *reading_parameters(),
    ]


def input_parameters() -> list[click.Parameter]:
    """The parameters that say what a model is run on."""
    return [
        Option("-i", "--input", "inputs", group=INPUTS, type=assignment, multiple=True, metavar="NAME=VALUE",
               help="an input, as `circlet run` takes it; others have values by chance"),
        Option("--shape", "shapes", group=INPUTS, metavar="NAME=LENGTH,...", multiple=True, type=shape,
               help="of an input by chance (default: as declared, open lengths 1)"),
        Option("--seed", group=INPUTS, type=amount, default=0, metavar="N",
               help="what chance follows from (default: 0)"),
        Option("--signature", group=INPUTS, metavar="KEY", help="the entry point to run (default: subgraph 0)"),
    ]
