"""Measures what invoking subgraphs costs in a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

import circlet
from circlet.runtime.errors import CircletError
from circlet.runtime.ir.types import Shape
from circlet.session import engine
from circlet.tools.console import Document, Rendered, show
from circlet.tools.measuring.charts import Bar, Chart, svg
from circlet.tools.measuring.empty import CLOCK, Probe, distinct
from circlet.tools.measuring.environment import environment
from circlet.tools.measuring.options import (
    Given,
    WorkOptions,
    chosen,
    given,
    input_parameters,
    measuring_parameters,
)
from circlet.tools.measuring.peers import PEERS, Peer, RefusedError, circlet_peer
from circlet.tools.measuring.sampling import Effort, Measured, measure
from circlet.tools.measuring.sites import Passed, Site, Surveyor
from circlet.tools.progress import Progress
from circlet.tools.tables import Cell, duration_text, operator_text, plain, plural, table
from circlet.tools.usage import Argument, Command

HOW = """A turn is what an empty loop takes longer for each turn more: it counts down to zero, and passes on values of
the types that pass in the model. A call is what a turn takes longer if values go through one more subgraph.
Invoking is what the turns and calls of a run take so."""
LEAST = 1e-10
"""Seconds that can be told from none: a third of a cycle."""
ROUNDS = 9
"""How often runs of empty loops are timed; the least time counts."""


@dataclass(frozen=True)
class OverheadOptions(WorkOptions):
    """What is to be measured."""

    model: str


@dataclass(frozen=True)
class Variant:
    """A way to run the model; `settings` are circlet's backend and whether it elides copies."""

    peer: Peer
    settings: tuple[str, bool] | None = None


@dataclass(frozen=True, eq=False)
class Costs:
    """What was measured of a variant.

    Attributes:
        measured: runs of the model.
        counter: what a run invoked and copied; None where the runtime does not say.
        empty: seconds of a turn or a call, by what passes; without those that could not be measured.
    """

    variant: Variant
    measured: Measured
    counter: circlet.Counter | None
    empty: Mapping[Passed, float]

    def invoking(self, sites: Sequence[Site]) -> float | None:
        """Seconds of a run that go into turns and calls, as far as these are known."""
        known = [each.count * self.empty[each.passed] for each in sites if each.passed in self.empty]
        return sum(known) if known and self.measured.samples else None


def execute(options: OverheadOptions) -> Document:
    """Measure what invoking subgraphs costs in a model: with copies and with their elision, in numpy and in native
    code, and in LiteRT where it is installed.

    It is isolated by loops and subgraphs that do nothing but pass on values of the same types.
    """
    model = given(options.model, options)
    with Progress(not (options.quiet or options.json)) as progress:
        progress.show("finding what is invoked", 0.0)
        sites = _sites(model)
        variants = _variants()
        empty, refused = _empty(distinct([each.passed for each in sites]), variants, progress)
        effort = Effort(options.runs, options.seconds, clock=CLOCK)
        found = measure(model.work, [each.peer for each in variants], effort,
                        lambda text, done: progress.show(f"{model.work.path.name}: {text}", done))
    costs = [Costs(variant, each, _counted(model, variant), empty[variant.peer.name])
             for variant, each in zip(variants, found, strict=True)]
    if options.chart is not None:
        Path(options.chart).write_text(svg(_charts(model, sites, costs)), encoding="utf-8")
    return _json(model, sites, costs, refused) if options.json else _text(model, sites, costs, refused)


def _sites(model: Given) -> list[Site]:
    """Where a run invokes subgraphs, by a run of numpy's kernels."""
    surveyor = Surveyor()
    _run(model, circlet.Session(model.model, "cpu"), surveyor)
    return [surveyor.sites[key] for key in sorted(surveyor.sites)]


def _run(model: Given, session: circlet.Session, listener: circlet.Listener) -> None:
    signature = model.work.signature
    if signature is None:
        session.run(dict(model.work.inputs), listener=listener)
    else:
        session.signature(signature).run(dict(model.work.inputs), listener=listener)


def _variants() -> list[Variant]:
    """numpy and native code, with copies and with their elision; LiteRT if it is installed."""
    own = [Variant(circlet_peer(backend, elides), (backend, elides))
           for backend in ("cpu", "native") for elides in (False, True)]
    return own + [Variant(each) for each in (PEERS["litert"],) if each.is_installed]


def _counted(model: Given, variant: Variant) -> circlet.Counter | None:
    """What a run of circlet invokes and copies."""
    if variant.settings is None:
        return None
    backend, elides = variant.settings
    counter = circlet.Counter()
    with suppress(CircletError):
        _run(model, circlet.Session(model.model, engine(backend).name, copy_elision=elides), counter)
        return counter
    return None


def _empty(kinds: Sequence[Passed], variants: Sequence[Variant],
           progress: Progress) -> tuple[dict[str, dict[Passed, float]], dict[Passed, str]]:
    """What turns and calls take in each variant, and why some cannot be measured."""
    found: dict[str, dict[Passed, float]] = {each.peer.name: {} for each in variants}
    refused: dict[Passed, str] = {}
    for number, passed in enumerate(kinds):
        with TemporaryDirectory() as folder:
            try:
                probe = Probe(passed, Path(folder), ROUNDS)
            except (RefusedError, CircletError) as error:
                refused[passed] = str(error)
                continue
            for position, variant in enumerate(variants):
                progress.show(f"empty {passed.kind}: {variant.peer.name}",
                              (number + position / len(variants)) / len(kinds))
                # A runtime raises what it likes of models that it cannot run.
                with suppress(Exception):
                    found[variant.peer.name][passed] = probe.seconds(variant.peer)
    return found, refused


def _text(model: Given, sites: Sequence[Site], costs: Sequence[Costs],
          refused: Mapping[Passed, str]) -> list[str | Rendered]:
    parts: list[str | Rendered] = [plain(str(model.work.path)), _runs_table(sites, costs)]
    if sites:
        parts += [_sites_table(model, sites, costs), HOW]
    parts += [each for each in _charts(model, sites, costs) if each.bars]
    notes = [f"{each.measured.peer} did not run: {each.measured.failure}" for each in costs if each.measured.failure]
    notes += [f"not measured: {each.text}: {reason}" for each, reason in refused.items()]
    notes += [f"{each.measured.peer} differs: {each.measured.agreement.text}" for each in costs
              if each.measured.agreement is not None and not each.measured.agreement.agrees]
    notes += [] if sites else ["the run invokes no subgraphs"]
    notes += [model.note] if model.note else []
    return [*parts, "\n".join(notes)] if notes else parts


def _runs_table(sites: Sequence[Site], costs: Sequence[Costs]) -> Rendered:
    rows = []
    for each in costs:
        if not each.measured.samples:
            continue
        invoking, counter = each.invoking(sites), each.counter
        counts: tuple[Cell, ...] = ("", "") if counter is None else (
            f"{counter.copies:,}", f"{counter.copied_bytes:,}")
        rows.append((each.measured.peer, duration_text(each.measured.median), *map(duration_text, each.measured.spread),
                     duration_text(each.measured.minimum), *counts, "" if invoking is None else duration_text(invoking),
                     "" if invoking is None else f"{invoking / each.measured.minimum:.1%}"))
    return table(("variant", "run", "p10", "p90", "minimum", "copies", "bytes", "invoking", "of minimum"), rows)


def _sites_table(model: Given, sites: Sequence[Site], costs: Sequence[Costs]) -> Rendered:
    names = [each.measured.peer for each in costs]
    rows = []
    for site in sites:
        times = [_cost_text(each.empty[site.passed]) if site.passed in each.empty else "" for each in costs]
        noun = "call" if site.body is None else "turn"
        rows.append((operator_text(model.model, site.subgraph, site.operator), plural(site.count, noun),
                     site.passed.text, *times))
    return table(("operator", "in a run", "passes", *names), rows)


def _cost_text(seconds: float) -> str:
    return duration_text(seconds) if seconds >= LEAST else f"< {duration_text(LEAST)}"


def _charts(model: Given, sites: Sequence[Site], costs: Sequence[Costs]) -> list[Chart]:
    """Runs, and turns and calls of each kind."""
    runs = [Bar(each.measured.peer, each.measured.median, *each.measured.spread)
            for each in costs if each.measured.samples]
    charts = [Chart(f"{model.work.path.name}: median of a run", runs)]
    for passed in distinct([each.passed for each in sites]):
        bars = [Bar(each.measured.peer, each.empty[passed]) for each in costs if passed in each.empty]
        noun = "a turn of an empty loop" if passed.kind == "loop" else f"an empty {passed.kind}"
        charts.append(Chart(f"{noun}, passing {passed.text}", bars))
    return charts


def _json(model: Given, sites: Sequence[Site], costs: Sequence[Costs],
          refused: Mapping[Passed, str]) -> dict[str, Any]:
    return {
        "environment": environment(),
        "model": str(model.work.path),
        "signature": model.work.signature,
        "random": sorted(model.random),
        "variants": [_json_variant(each, sites) for each in costs],
        "sites": [{
            "subgraph": each.subgraph, "operator": each.operator, "name": each.name, "kind": each.passed.kind,
            "count": each.count, "passes": [{"dtype": dtype.value, "shape": list(shape)}
                                            for dtype, shape in each.passed.types],
            "refused": refused.get(each.passed),
            "seconds": {one.measured.peer: one.empty.get(each.passed) for one in costs},
        } for each in sites],
    }


def _json_variant(each: Costs, sites: Sequence[Site]) -> dict[str, Any]:
    found: dict[str, Any] = {"variant": each.measured.peer, "failure": each.measured.failure}
    if not each.measured.samples:
        return found
    low, high = each.measured.spread
    agreement, counter = each.measured.agreement, each.counter
    return {
        **found, "median": each.measured.median, "p10": low, "p90": high, "minimum": each.measured.minimum,
        "agrees": agreement is not None and agreement.agrees,
        "copies": None if counter is None else counter.copies,
        "copied_bytes": None if counter is None else counter.copied_bytes,
        "invoking_seconds": each.invoking(sites),
    }


def _callback(shapes: Sequence[tuple[str, Shape]], **values: Any) -> None:
    show(execute(chosen(OverheadOptions, shapes, values)))


COMMAND = Command("overhead", help=execute.__doc__, callback=_callback, params=[
    Argument("model", "a .tflite, .circle, .onnx or OpenVINO .xml file", type=click.Path()),
    *input_parameters(),
    *measuring_parameters("runs, turns and calls"),
])
"""`circlet overhead`."""
