"""Measures runs of models, in circlet and beside it in other runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from circlet.runtime.ir.types import Shape
from circlet.session import BACKENDS, engine
from circlet.tools.arguments import COMPUTING, amount, counts, words
from circlet.tools.console import Document, Rendered, show
from circlet.tools.measuring.benched import Benched, bench
from circlet.tools.measuring.charts import svg
from circlet.tools.measuring.environment import environment
from circlet.tools.measuring.options import (
    MEASURING,
    Given,
    WorkOptions,
    chosen,
    given,
    input_parameters,
    measuring_parameters,
)
from circlet.tools.measuring.peers import PEERS, circlet_peer, readers
from circlet.tools.measuring.sampling import Effort, Measured
from circlet.tools.measuring.work import Work
from circlet.tools.progress import Progress
from circlet.tools.tables import Cell, Marked, duration_text, plain, table
from circlet.tools.usage import Argument, Command, Option

HEADINGS = ("runtime", "first result", "median", "p10", "p90", "minimum", "times circlet", "results")


@dataclass(frozen=True)
class BenchOptions(WorkOptions):
    """What is to be measured."""

    models: Sequence[str]
    against: Sequence[str] | None
    backend: Sequence[str]
    threads: Sequence[int]
    warmup: int

    @property
    def effort(self) -> Effort:
        return Effort(self.runs, self.seconds, self.warmup)


def execute(options: BenchOptions) -> Document:
    """Measure runs of models in circlet and, beside it, in other runtimes, on the same inputs.

    Results are compared before anything is measured. Runtimes then take turns, so that a disturbance hits all of them.
    """
    found: list[tuple[Given, Benched]] = []
    with Progress(not (options.quiet or options.json)) as progress:
        for path in options.models:
            model = given(path, options)
            for threads in options.threads:
                work = replace(model.work, threads=threads)
                found.append((model, _benched(work, options, progress)))
    if options.chart is not None:
        Path(options.chart).write_text(svg([each.chart(each.title) for _, each in found]), encoding="utf-8")
    return _json(found, options) if options.json else [part for each in found for part in _text(*each)]


def _benched(work: Work, options: BenchOptions, progress: Progress) -> Benched:
    """What all runtimes take for a work."""
    backends = dict.fromkeys(engine(each).name for each in options.backend)
    peers = [*map(circlet_peer, backends), *readers(options.against, work.path.suffix)]
    return bench(work, peers, options.effort, lambda text, done: progress.show(f"{work.path.name}: {text}", done))


def _text(given: Given, benched: Benched) -> list[str | Rendered]:
    rows = [_row(benched, each) for each in benched.found if each.samples]
    notes = [f"{each.peer} did not run: {each.failure}" for each in benched.found if each.failure is not None]
    notes += [given.note] if given.note else []
    parts: list[str | Rendered] = [plain(benched.title)]
    if rows:
        parts += [table(HEADINGS, rows), benched.chart("median of a run")]
    return [*parts, "\n".join(notes)] if notes else parts


def _row(benched: Benched, each: Measured) -> tuple[Cell, ...]:
    ratio, compared = benched.ratio(each), each.agreement
    assert compared is not None, "what has samples has results"
    times = [each.first or 0.0, each.median, *each.spread, each.minimum]
    is_first = each is next(one for one in benched.found if one.samples)
    result = "" if is_first else compared.brief if compared.agrees else Marked(f"differ: {compared.text}", "red")
    return (each.peer, *map(duration_text, times), "" if ratio is None else f"{ratio:.2f}", result)


def _json(found: Sequence[tuple[Given, Benched]], options: BenchOptions) -> dict[str, Any]:
    return {"environment": environment(), "seed": options.seed, "warmup": options.warmup,
            "models": [each.to_json(given.random) for given, each in found]}


def _callback(shapes: Sequence[tuple[str, Shape]], **values: Any) -> None:
    show(execute(chosen(BenchOptions, shapes, values)))


COMMAND = Command("bench", help=execute.__doc__, callback=_callback, params=[
    Argument("models", ".tflite, .circle, .onnx or OpenVINO .xml files", metavar="MODEL...", nargs=-1, required=True,
             type=click.Path()),
    *input_parameters(),
    Option("--against", group=COMPUTING, type=words(PEERS), metavar="NAMES",
           help=f"other runtimes, of {', '.join(PEERS)}, with commas between them, or none (default: all that are "
           "installed and read this kind of file)"),
    Option("--backend", group=COMPUTING, type=words(("auto", *BACKENDS)), default="auto", metavar="NAMES",
           help=f"what circlet computes with, of auto, {', '.join(BACKENDS)}, with commas between them "
           "(default: auto)"),
    Option("--threads", group=COMPUTING, type=counts, default="1", metavar="N,...",
           help="that a run may use; each number is measured (default: 1)"),
    Option("--warmup", group=MEASURING, type=amount, default=3, metavar="N",
           help="runs of each runtime before any is measured, after the first (default: 3)"),
    *measuring_parameters("the medians"),
])
"""`circlet bench`."""
