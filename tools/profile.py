"""Shows where the time of a model's runs goes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

import circlet
from circlet.profiling.document import document
from circlet.profiling.peak import measured_peak
from circlet.profiling.profiler import MOST_EVENTS
from circlet.profiling.sheets import Sheet, sheets, summary
from circlet.profiling.tables import Tables
from circlet.runtime.exec.values.inputs import Entry
from circlet.runtime.ir.types import Shape
from circlet.schema.formats import OPTIONS
from circlet.tools.arguments import (
    COMPUTING,
    OUTPUT,
    SessionOptions,
    amount,
    chosen_signature,
    count,
    session_of,
    session_parameters,
)
from circlet.tools.console import Document, show
from circlet.tools.measuring.inputs import inputs_of
from circlet.tools.measuring.options import MEASURING, input_parameters
from circlet.tools.measuring.work import entry_named
from circlet.tools.progress import Progress
from circlet.tools.results import Value, json_shape, type_text
from circlet.tools.startup import Stage, Stopwatch, first_run, load_timed, startup_table
from circlet.tools.tables import plain, plural, table
from circlet.tools.usage import Command, Option
from circlet.tools.values import tensors_of

PRINTED = "-"
"""The file that stands for the standard output."""


@dataclass(frozen=True)
class ProfileOptions(SessionOptions):
    """What is to be profiled."""

    inputs: Sequence[tuple[str, str]]
    shapes: Mapping[str, Shape]
    seed: int
    signature: str | None
    runs: int
    warmup: int
    startup: bool
    roofline: bool
    json_file: str | None
    trace: str | None
    html: str | None
    quiet: bool
    threads: int


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
    tables: Tables
    startup: Sequence[Stage]
    """What came before the runs."""

    @property
    def files(self) -> list[str]:
        """What was written beside."""
        options = self.options
        return [each for each in (options.json_file, options.trace, options.html) if each is not None]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What was run, and on what."""
        tensors = tensors_of(self.session.model, self.entry, self.entry.inputs)
        chance = [name for name in self.inputs if name in self.random]
        texts = ", ".join(f"{plain(name)} {type_text(tensors[name], self.inputs[name])}" for name in chance)
        threads = f" with up to {plural(self.options.threads, 'thread')}" if self.options.threads > 1 else ""
        return [("model", plain(self.options.model)), ("computed by", f"{self.session.backend}{threads}"),
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
    watch = Stopwatch()
    model = load_timed(options, watch)
    signature = chosen_signature(model, options.signature)
    entry = entry_named(model, signature)
    inputs, random = inputs_of(model, entry, options.inputs, options.shapes, options.seed)
    with Progress(not (options.quiet or options.json)) as progress, session_of(
            model, options, num_threads=options.threads) as session:
        if options.startup:
            progress.show("first run", 0.0)
            watch.restart()
            first_run(model, options, options.threads, entry, inputs, watch)
        profile = _measured(session, entry, inputs, options, progress)
        progress.show("measuring the machine", 1.0)
        tables = Tables(profile, measured_peak(options.threads) if options.roofline else None)
        found = Profiled(options, session, entry, inputs, random, profile, tables, watch.stages)
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
    if options.json_file is not None:
        with open(options.json_file, "w", encoding="utf-8") as stream:
            json.dump(_json(found), stream, allow_nan=False)
    if options.trace is not None:
        with open(options.trace, "w", encoding="utf-8") as stream:
            json.dump(found.profile.to_trace(), stream, allow_nan=False, separators=(",", ":"))
    if options.html is not None:
        from circlet.tools.page.profile import profile_page  # takes a while to import

        page = profile_page(found.tables, os.path.basename(options.model), found.facts,
                            [(each.name, each.seconds, each.detail) for each in found.startup])
        with open(options.html, "w", encoding="utf-8") as stream:
            stream.write(page)


def _text(found: Profiled) -> Document:
    saved = "\n".join(f"saved {each}" for each in found.files)
    return [_head(found), *map(Titled, sheets(found.tables)), startup_table(found.startup),
            *([saved] if saved else [])]


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
        "threads": options.threads,
        "seed": options.seed,
        "inputs": [{"name": name, "shape": json_shape(value), "random": name in found.random}
                   for name, value in found.inputs.items()],
        "warmup": options.warmup,
        "files": list(found.files),
        "startup": [{"stage": each.name, "seconds": each.seconds, "detail": each.detail or None,
                     "units": [{"name": unit.name, "seconds": unit.seconds, "kept": unit.is_kept}
                               for unit in each.units]} for each in found.startup],
        "profile": document(found.tables),
    }


def _callback(shapes: Sequence[tuple[str, Shape]], json: str | None, **values: Any) -> None:
    reading = {name: values.pop(name) for name in OPTIONS}
    show(execute(ProfileOptions(shapes=dict(shapes), reading=reading, json=json == PRINTED,
                                json_file=None if json == PRINTED else json, **values)))


COMMAND = Command("profile", help=execute.__doc__, callback=_callback, params=[
    *input_parameters(),
    Option("--runs", group=MEASURING, type=count, default=10, metavar="N", help="that are timed (default: 10)"),
    Option("--warmup", group=MEASURING, type=amount, default=2, metavar="N",
           help="runs before these, which bind memory and make code (default: 2)"),
    Option("--no-startup", "startup", group=MEASURING, is_flag=True, default=True, flag_value=False,
           help="do not time what comes before runs, which takes one more session and run"),
    Option("--no-roofline", "roofline", group=MEASURING, is_flag=True, default=True, flag_value=False,
           help="do not measure the best of this machine, which operators are compared with"),
    Option("--json", group=OUTPUT, is_flag=False, flag_value=PRINTED, metavar="[FILE.json]", type=click.Path(),
           help="write the profile as JSON; without a file, print one line of JSON, errors too"),
    Option("--trace", group=OUTPUT, metavar="FILE.json", type=click.Path(),
           help="write what Perfetto and chrome://tracing show"),
    Option("--html", group=OUTPUT, metavar="FILE.html", type=click.Path(),
           help="write a page: flame chart, tables, graph, copies, memory"),
    Option("--quiet", group=OUTPUT, is_flag=True, help="show no progress"),
    Option("--threads", group=COMPUTING, type=count, default=1, metavar="N", help="that a run may use (default: 1)"),
    *(each for each in session_parameters() if each.name != "json"),
])
"""`circlet profile`."""
