"""Shows where the time of a model's runs goes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

import circlet
from circlet.profiling.profiler import MOST_EVENTS
from circlet.profiling.sheets import Sheet, sheets, summary
from circlet.runtime.exec.values.inputs import Entry
from circlet.runtime.ir.types import Shape
from circlet.schema.formats import OPTIONS
from circlet.tools.arguments import (
    OUTPUT,
    SessionOptions,
    amount,
    assignment,
    chosen_signature,
    count,
    load,
    session_of,
    session_parameters,
    shape,
)
from circlet.tools.console import Document, show
from circlet.tools.measuring.inputs import inputs_of
from circlet.tools.measuring.work import entry_named
from circlet.tools.progress import Progress
from circlet.tools.results import Value, json_shape, type_text
from circlet.tools.tables import plain, table
from circlet.tools.usage import Command, Option
from circlet.tools.values import tensors_of

INPUTS, MEASURING = "Inputs", "Measuring"


@dataclass(frozen=True)
class ProfileOptions(SessionOptions):
    """What is to be profiled."""

    inputs: Sequence[tuple[str, str]]
    shapes: Mapping[str, Shape]
    seed: int
    signature: str | None
    runs: int
    warmup: int
    trace: str | None
    html: str | None
    quiet: bool


@dataclass(frozen=True, eq=False)
class Profiled:
    """Runs of a model, and where their time went."""

    options: ProfileOptions
    session: circlet.Session
    entry: Entry
    inputs: Mapping[str, Value]
    random: frozenset[str]
    """The inputs that have values by chance."""
    profile: circlet.Profile

    @property
    def files(self) -> list[str]:
        """What was written beside."""
        return [each for each in (self.options.trace, self.options.html) if each is not None]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What was run, and on what."""
        tensors = tensors_of(self.session.model, self.entry, self.entry.inputs)
        chance = [name for name in self.inputs if name in self.random]
        texts = ", ".join(f"{plain(name)} {type_text(tensors[name], self.inputs[name])}" for name in chance)
        return [("model", plain(self.options.model)), ("computed by", self.session.backend),
                *([("inputs by chance", texts)] if chance else [])]


@dataclass(frozen=True)
class Titled:
    """A table with a title over it and, where there is something to add, a line below."""

    sheet: Sheet

    def render(self, width: int | None, colour: bool) -> str:
        title = click.style(self.sheet.title, bold=True) if colour else self.sheet.title
        lines = table(self.sheet.headings, self.sheet.rows).render(width, colour)
        return "\n".join([title, lines, *([self.sheet.note] if self.sheet.note else [])])


def execute(options: ProfileOptions) -> Document:
    """Show where the time of a model's runs goes: by call path, by loop, by subgraph and by operator.

    Inputs that are not given have values by chance.
    """
    model = load(options)
    signature = chosen_signature(model, options.signature)
    entry = entry_named(model, signature)
    inputs, random = inputs_of(model, entry, options.inputs, options.shapes, options.seed)
    with Progress(not (options.quiet or options.json)) as progress, session_of(model, options) as session:
        profile = _measured(session, entry, inputs, options, progress)
        found = Profiled(options, session, entry, inputs, random, profile)
        _write(found)
        return _json(found) if options.json else _text(found)


def _measured(session: circlet.Session, entry: Entry, inputs: Mapping[str, Value], options: ProfileOptions,
              progress: Progress) -> circlet.Profile:
    """A profile of runs, after others that bind memory and make code."""
    total = options.warmup + options.runs
    with circlet.profile(session):
        for number in range(options.warmup):
            progress.show(f"warming up, run {number + 1} of {options.warmup}", number / total)
            session.run_entry(entry, inputs)
    with circlet.profile(session, MOST_EVENTS if options.trace else 0) as found:
        for number in range(options.runs):
            progress.show(f"run {number + 1} of {options.runs}", (options.warmup + number) / total)
            session.run_entry(entry, inputs)
    return found


def _write(found: Profiled) -> None:
    """Writes the files that are asked for."""
    options = found.options
    if options.trace is not None:
        with open(options.trace, "w", encoding="utf-8") as stream:
            json.dump(found.profile.to_trace(), stream, allow_nan=False, separators=(",", ":"))
    if options.html is not None:
        from circlet.tools.page.profile import profile_page  # takes a while to import

        page = profile_page(found.profile.tables, os.path.basename(options.model), found.facts)
        with open(options.html, "w", encoding="utf-8") as stream:
            stream.write(page)


def _text(found: Profiled) -> Document:
    return [_head(found), *map(Titled, sheets(found.profile.tables)), *(f"saved {each}" for each in found.files)]


def _head(found: Profiled) -> str:
    (_, model), (_, backend), *more = found.facts
    return "\n".join([f"{model} on {backend}, {summary(found.profile)}",
                      *(f"{name}: {text}" for name, text in more)])


def _json(found: Profiled) -> dict[str, Any]:
    options = found.options
    return {
        "model": options.model,
        "subgraph": found.entry.subgraph,
        "backend": found.session.backend,
        "copy_elision": options.copy_elision,
        "seed": options.seed,
        "inputs": [{"name": name, "shape": json_shape(value), "random": name in found.random}
                   for name, value in found.inputs.items()],
        "warmup": options.warmup,
        "files": list(found.files),
        "profile": found.profile.to_json(),
    }


def _callback(shapes: Sequence[tuple[str, Shape]], **values: Any) -> None:
    reading = {name: values.pop(name) for name in OPTIONS}
    show(execute(ProfileOptions(shapes=dict(shapes), reading=reading, **values)))


COMMAND = Command("profile", help=execute.__doc__, callback=_callback, params=[
    Option("-i", "--input", "inputs", group=INPUTS, type=assignment, multiple=True, metavar="NAME=VALUE",
           help="an input, as `circlet run` takes it; others have values by chance"),
    Option("--shape", "shapes", group=INPUTS, metavar="NAME=LENGTH,...", multiple=True, type=shape,
           help="of an input by chance (default: as declared, open lengths 1)"),
    Option("--seed", group=INPUTS, type=amount, default=0, metavar="N", help="what chance follows from (default: 0)"),
    Option("--signature", group=INPUTS, metavar="KEY", help="the entry point to run (default: subgraph 0)"),
    Option("--runs", group=MEASURING, type=count, default=10, metavar="N", help="that are timed (default: 10)"),
    Option("--warmup", group=MEASURING, type=amount, default=2, metavar="N",
           help="runs before these, which bind memory and make code (default: 2)"),
    Option("--trace", group=OUTPUT, metavar="FILE.json", type=click.Path(),
           help="write what Perfetto and chrome://tracing show"),
    Option("--html", group=OUTPUT, metavar="FILE.html", type=click.Path(),
           help="write a page: flame chart, tables, graph, copies, memory"),
    Option("--quiet", group=OUTPUT, is_flag=True, help="show no progress"),
    *session_parameters(),
])
"""`circlet profile`."""
