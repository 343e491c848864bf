"""Runs a model twice on the same inputs, and tells the first operator that differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import circlet
from circlet.runtime.errors import CircletError, InputError, UnsupportedError
from circlet.runtime.exec.values.inputs import entry_of
from circlet.runtime.ir.model import Model, Signature
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.passes.manager import Pipeline
from circlet.schema.files import load_model
from circlet.tools.arguments import (
    COMPUTING,
    LIMITS,
    OUTPUT,
    ModelOptions,
    amount,
    assignment,
    chosen_signature,
    command,
    duration,
    model_parameters,
)
from circlet.tools.comparing.beside import Beside, Recording, of_main, onnxruntime_values, openvino_values
from circlet.tools.comparing.found import Findings, First
from circlet.tools.comparing.inputs import extremes
from circlet.tools.comparing.merged import MergedReplay
from circlet.tools.comparing.replay import Replay, litert
from circlet.tools.comparing.statistics import Statistics, Tolerance, statistics
from circlet.tools.console import Document, show
from circlet.tools.debug import INPUTS, PASSES
from circlet.tools.debugging.view import place_text
from circlet.tools.measuring.inputs import inputs_of
from circlet.tools.measuring.peers import PEERS, RefusedError, ready
from circlet.tools.measuring.work import Work, work_of
from circlet.tools.progress import Progress
from circlet.tools.results import Value
from circlet.tools.tables import Cell, Marked, Table, plain, plural, table
from circlet.tools.usage import Choice, Option
from circlet.tools.values import read_inputs, tensors_of, zero_inputs

BACKENDS = ("native", "cpu")
OTHERS = ("litert", "onnxruntime", "openvino")
DIFFERENT = 1
"""The exit code where something differs."""
SHOWN = 20
"""How many tensors that differ are listed as text."""
VALUES: Mapping[str, Callable[[Work], dict[str, Any]]] = {
    "onnxruntime": onnxruntime_values, "openvino": openvino_values}
"""What gives the tensors of the main graph."""


@dataclass(frozen=True)
class CompareOptions(ModelOptions):
    """What is to be compared, and with what."""

    against: str
    inputs: Sequence[tuple[str, str]]
    signature: str | None
    fill: str
    seed: int
    rtol: float | None
    atol: float | None
    steps: int
    max_iterations: int | None
    deadline: float | None
    quiet: bool

    @property
    def tolerance(self) -> Tolerance:
        return Tolerance(self.rtol, self.atol, self.steps)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a comparison came to."""

    options: CompareOptions
    how: str
    """What could be compared."""
    outputs: Mapping[str, Statistics]
    findings: Findings

    @property
    def differs(self) -> bool:
        return self.findings.first is not None or any(each.differs for each in self.outputs.values())


def execute(options: CompareOptions) -> Document:
    """Run a model twice on the same inputs, and tell the first operator that differs.

    On one side are numpy's kernels, which are what circlet's bits are measured by; on the other side what --against
    says. The exit code is 1 where something differs by more than is overlooked.

    Inputs that are not given by --input are filled by --fill.
    """
    plain_names = Pipeline("imported", ())  # layouts and names of tensors as in the file
    model = load_model(options.model, options=options.reading, pipeline=plain_names)
    signature = chosen_signature(model, options.signature)
    inputs = _inputs(options, model, signature)
    with Progress(not (options.quiet or options.json)) as progress:
        findings = Findings(options.tolerance, lambda text: progress.show(text, 0.0))
        how, outputs = _compared(options, model, signature, inputs, findings)
    comparison = Comparison(options, how, outputs, findings)
    document = _json(comparison) if options.json else _text(comparison)
    if comparison.differs:
        show(document)
        raise click.exceptions.Exit(DIFFERENT)
    return document


def _inputs(options: CompareOptions, model: Model, signature: Signature | None) -> dict[str, Value]:
    entry = entry_of(model, signature.subgraph if signature else 0, signature)
    given = read_inputs(model, entry, options.inputs)
    if len(given) == len(entry.inputs):
        return {name: given[name] for name, _ in entry.inputs}
    if options.fill == "random":
        return inputs_of(model, entry, options.inputs, {}, options.seed)[0]
    chance = np.random.default_rng(options.seed)
    filled = (zero_inputs(model, entry) if options.fill == "zeros" else
              {name: extremes(tensor, chance) for name, tensor in tensors_of(model, entry, entry.inputs).items()})
    return {**filled, **given}


def _compared(options: CompareOptions, model: Model, signature: Signature | None, inputs: Mapping[str, Value],
              findings: Findings) -> tuple[str, dict[str, Statistics]]:
    """Runs both sides; gives what could be compared, and how the outputs differ."""
    against = options.against
    limits = circlet.Limits(options.max_iterations, options.deadline)

    def run(given: Model, listener: circlet.Listener | None = None, backend: str = "cpu") -> dict[str, Value]:
        session = circlet.Session(given, backend, limits=limits, passes=PASSES if backend == "cpu" else None)
        found = chosen_signature(given, options.signature)
        entry = entry_of(given, found.subgraph if found else 0, found)
        return session.run_entry(entry, inputs if given is model else _renamed(entry.inputs, inputs), listener)

    if against in BACKENDS:
        expected = run(model, MergedReplay(model, findings))
        found = run(model, backend="native")
        how = ("each operator computed alone by the native backend, and those that it merges together, on the inputs "
               "that they had with numpy")
        return how, _outputs(options, model, signature, found, expected)
    if against in OTHERS:
        work = _work(options, model, signature, inputs)
        found = dict(_peer(against, work)())
        if against == "litert":
            expected = run(model, Replay(litert, findings))
            how = "each operator computed alone by LiteRT, on the inputs that it had with numpy"
        else:
            expected = run(model, Beside(of_main(model, VALUES[against](work)), findings))
            how = "tensors of the main graph by name; bodies of loops and branches by what they give alone"
        return how, _outputs(options, model, signature, found, expected)
    other = load_model(against, options=options.reading, pipeline=Pipeline("imported", ()))
    recording = Recording()
    found = run(other, recording)
    expected = run(model, Beside(recording.find, findings))
    return "tensors of the same name in subgraphs of the same name, in the same iterations", _outputs(
        options, model, signature, found, expected)


def _renamed(named: Sequence[tuple[str, int]], inputs: Mapping[str, Value]) -> dict[str, Value]:
    """The inputs by another model's names; in order where these are others."""
    names = [name for name, _ in named]
    if len(names) != len(inputs):
        raise InputError(f"the other model takes {plural(len(names), 'input')}, this one {len(inputs)}")
    return {name: inputs.get(name, value) for name, value in zip(names, inputs.values(), strict=True)}


def _work(options: CompareOptions, model: Model, signature: Signature | None, inputs: Mapping[str, Value]) -> Work:
    work = work_of(Path(options.model), model, inputs, signature, reading=options.reading)
    try:
        ready(PEERS[options.against], work)
    except RefusedError as error:
        raise UnsupportedError(f"{PEERS[options.against].name}: {error}") from None
    return work


def _peer(name: str, work: Work) -> Callable[[], Mapping[str, Value]]:
    """The model made ready in another runtime.

    Raises:
        UnsupportedError: it cannot run it.
    """
    def run() -> Mapping[str, Value]:
        try:
            return PEERS[name].load(work)()
        except CircletError:
            raise
        except Exception as error:  # a runtime raises what it likes
            raise UnsupportedError(f"{PEERS[name].name} cannot run the model: {error}") from error

    return run


def _outputs(options: CompareOptions, model: Model, signature: Signature | None, found: Mapping[str, Value],
             expected: Mapping[str, Value]) -> dict[str, Statistics]:
    entry = entry_of(model, signature.subgraph if signature else 0, signature)
    tensors = tensors_of(model, entry, entry.outputs)
    if len(found) != len(expected):
        raise InputError(f"the other side gives {plural(len(found), 'output')}, this one {len(expected)}")
    pairs = {name: (found.get(name, other), value)
             for (name, value), other in zip(expected.items(), found.values(), strict=True)}
    return {name: _statistics(tensors[name], *pair, options.tolerance) for name, pair in pairs.items()}


def _statistics(tensor: Tensor, found: Value, expected: Value, tolerance: Tolerance) -> Statistics:
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return sum((_statistics(tensor, *pair, tolerance) for pair in zip(found, expected, strict=True)), Statistics())
    if isinstance(found, np.ndarray) and isinstance(expected, np.ndarray):
        return statistics(tensor, found, expected, tolerance)
    same = found is None and expected is None
    return Statistics() if same else Statistics(fault="a value of another kind")


HEADINGS = ("largest", "relative", "mean", "ULPs", "steps", "different", "NaN or inf", "worst at")


def _row(each: Statistics) -> tuple[Cell, ...]:
    worst = "" if each.worst is None else str(list(each.worst))
    if each.fault is not None:
        return (Marked(each.fault, "red"), *[""] * (len(HEADINGS) - 1))
    numbers = (f"{each.max_abs:.3g}", f"{each.max_rel:.3g}", f"{each.mean_abs:.3g}")
    counts = ("" if each.max_ulps is None else f"{each.max_ulps:,}",
              "" if each.max_steps is None else f"{each.max_steps:,}")
    return (*numbers, *counts, f"{each.different:,} of {each.compared:,}", f"{each.non_finite:,}", worst)


def _text(comparison: Comparison) -> Document:
    findings = comparison.findings
    outputs = table(("output", *HEADINGS), [(plain(name), *_row(each)) for name, each in comparison.outputs.items()])
    return [*([outputs] if comparison.outputs else []), *_tensors(findings), "\n".join(_summary(comparison))]


def _tensors(findings: Findings) -> Iterator[Table]:
    rows = [(f"@{key[0]}[{findings.operators[key].place.operator}] "
             f"{plain(findings.operators[key].place.operator_name)}", plain(tensor.name), *_row(each))
            for key, (tensor, each) in findings.tensors.items() if each.different or each.fault]
    if rows:
        yield table(("operator", "tensor", *HEADINGS), rows[:SHOWN])


def _summary(comparison: Comparison) -> Iterator[str]:
    findings = comparison.findings
    yield f"compared: {comparison.how}: {plural(findings.compared, 'time')}, {plural(len(findings.tensors), 'tensor')}"
    if findings.skipped:
        reasons = "; ".join(dict.fromkeys(findings.skipped.values()))
        yield f"not compared: {plural(len(findings.skipped), 'operator')}: {reasons}"
    if findings.first is not None:
        first = findings.first
        merged = f", as it is merged: {first.merged}" if first.merged else ""
        yield (f"the first operator that differs is {place_text(first.moment)}, tensor {plain(first.tensor.name)}"
               f"{merged}")
    elif comparison.differs:
        yield "outputs differ, and no operator that could be compared does"
    else:
        equal = all(not each.different for _, each in findings.tensors.values()) and not any(
            each.different for each in comparison.outputs.values())
        yield "all equal" if equal else "all within what is overlooked"


def _json(comparison: Comparison) -> dict[str, Any]:
    findings = comparison.findings
    return {
        "model": comparison.options.model,
        "against": comparison.options.against,
        "compared": comparison.how,
        "differs": comparison.differs,
        "first": None if findings.first is None else _json_first(findings.first),
        "outputs": [{"name": name, **_json_statistics(each)} for name, each in comparison.outputs.items()],
        "tensors": [{"subgraph": key[0], "operator": findings.operators[key].place.operator,
                     "operator_name": findings.operators[key].place.operator_name, "tensor": tensor.name,
                     **_json_statistics(each)} for key, (tensor, each) in findings.tensors.items()],
        "skipped": [{"subgraph": key[0], "operator": key[1], "reason": reason}
                    for key, reason in findings.skipped.items()],
    }


def _json_first(first: First) -> dict[str, Any]:
    place = first.moment.place
    return {"subgraph": place.subgraph, "subgraph_name": place.subgraph_name, "operator": place.operator,
            "operator_name": place.operator_name, "tensor": first.tensor.name, "merged": first.merged or None,
            "iterations": [each.iteration for each in first.moment.calls if each.iteration is not None],
            **_json_statistics(first.found)}


def _json_statistics(each: Statistics) -> dict[str, Any]:
    return {"compared": each.compared, "different": each.different, "beyond_tolerance": each.beyond,
            "non_finite": each.non_finite, "max_abs": each.max_abs, "max_rel": each.max_rel, "mean_abs": each.mean_abs,
            "max_ulps": each.max_ulps, "max_steps": each.max_steps,
            "worst": None if each.worst is None else list(each.worst), "fault": each.fault}


COMMAND = command("compare", CompareOptions, execute, [
    Option("--against", default="native", metavar="WHAT", group=COMPUTING,
           help=f"{', '.join((*BACKENDS, *OTHERS))} or another model's file (default: native; cpu is the same)"),
    Option("-i", "--input", "inputs", group=INPUTS, type=assignment, multiple=True, metavar="NAME=VALUE",
           help="an input, as for circlet run"),
    Option("--fill", group=INPUTS, type=Choice(("random", "extremes", "zeros")), default="random",
           help="what other inputs are (default: random): extremes are the ends of what types hold, NaN and infinity"),
    Option("--seed", group=INPUTS, type=amount, default=0, metavar="N", help="of random and extremes (default: 0)"),
    Option("--signature", group=INPUTS, metavar="KEY", help="the entry point to run (default: subgraph 0)"),
    Option("--rtol", group=COMPUTING, type=duration, metavar="R",
           help="overlook differences of floats up to R of the value (default: 1e-4; 1e-2 for 16 bits)"),
    Option("--atol", group=COMPUTING, type=duration, metavar="A",
           help="and up to A beside (default: 1e-5; 1e-3 for 16 bits)"),
    Option("--steps", group=COMPUTING, type=amount, default=0, metavar="N",
           help="overlook differences of quantised integers up to N steps (default: 0)"),
    Option("--max-iterations", group=LIMITS, type=amount, metavar="N",
           help="stop a run that needs more loop iterations"),
    Option("--deadline", group=LIMITS, type=duration, metavar="S", help="stop a run that takes more seconds"),
    Option("--quiet", group=OUTPUT, is_flag=True, help="show no progress"),
    *model_parameters(),
])
"""`circlet compare`."""
