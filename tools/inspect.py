"""Shows what a model holds, what computes it, and how values pass between its subgraphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.text import to_text
from circlet.runtime.ir.verify import verify
from circlet.tools.arguments import Content, command, read, session_of, session_parameters, subgraph_index
from circlet.tools.console import Document, Rendered
from circlet.tools.copies import copies_text, json_copies
from circlet.tools.native import NativeOptions, json_native, native_text
from circlet.tools.passes import PassOptions, json_passes, passes_text
from circlet.tools.results import json_quantization
from circlet.tools.support import Support, Verdict, support_of
from circlet.tools.tables import Cell, Marked, Table, operator_text, plain, plural, subgraph_text, table
from circlet.tools.usage import Option

SHOWN = "What is shown"
SHOWN_CALLERS = 3
UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class InspectOptions(NativeOptions, PassOptions):
    """What is to be shown of a model."""

    subgraph: str | None
    copies: bool


@dataclass(frozen=True)
class Caller:
    """An operator that invokes a subgraph."""

    subgraph: int
    operator: int
    role: str


@dataclass(frozen=True, eq=False)
class Inspection:
    """What there is to say of a model."""

    path: str
    size: int
    """Of the file, in bytes."""
    model: Model
    shown: Sequence[int]
    """The subgraphs that are asked for."""
    support: Support
    callers: Sequence[Sequence[Caller]]
    """By subgraph."""


def execute(options: InspectOptions) -> Document:
    """Show what a model holds, what computes it, and what passes between its subgraphs.

    Models that cannot be run are shown too, and why they cannot.
    """
    content = read(options)
    model = content.model
    subgraph = None if options.subgraph is None else subgraph_index(model, options.subgraph)
    if options.shows_native or options.copies or options.shows_passes:
        verify(model)
        return _work(content, subgraph, options)
    shown = range(len(model.subgraphs)) if subgraph is None else (subgraph,)
    found = Inspection(content.name, content.size, model, shown, support_of(model, options.backend), _callers(model))
    return _json(found) if options.json else _text(found, subgraph)


def _work(content: Content, subgraph: int | None, options: InspectOptions) -> Document:
    """What a session makes of a model."""
    model = content.model
    if options.shows_native:
        entries = session_entries(model) if subgraph is None else (subgraph,)
        return json_native(model, entries, options) if options.json else native_text(model, entries, options)
    if options.copies:
        return _copies(model, subgraph, options)
    return json_passes(content, options, subgraph) if options.json else [passes_text(content, options, subgraph)]


def session_entries(model: Model) -> Sequence[int]:
    """The subgraphs that runs begin with."""
    return sorted({0, *(each.subgraph for each in model.signatures)})


def _copies(model: Model, subgraph: int | None, options: InspectOptions) -> Document:
    session = session_of(model, options)
    edges = [each for each in session.copies() if subgraph in (None, each.subgraph)]
    return {"copies": json_copies(edges)} if options.json else copies_text(session.executed, edges)


def _callers(model: Model) -> list[list[Caller]]:
    callers: list[list[Caller]] = [[] for _ in model.subgraphs]
    for index, subgraph in enumerate(model.subgraphs):
        for number, operator in enumerate(subgraph.operators):
            for call in operator.op.calls():
                if 0 <= call.subgraph < len(callers):
                    callers[call.subgraph].append(Caller(index, number, call.role))
    return callers


def _constant_bytes(subgraph: Subgraph) -> int:
    return sum(_tensor_bytes(each) for each in subgraph.tensors)


def _tensor_bytes(tensor: Tensor) -> int:
    if tensor.data is None:
        return 0
    return sum(map(len, tensor.data.reshape(-1))) if tensor.data.dtype.hasobject else tensor.data.nbytes


def _text(found: Inspection, subgraph: int | None) -> Document:
    problem = found.support.problem
    parts: list[str | Rendered] = [_head(found), _subgraph_table(found)]
    if any(found.support.verdicts[index] for index in found.shown):
        parts.append(_operator_table(found))
    if problem is not None:
        parts.append(problem)
    return [*parts, to_text(found.model, subgraph).rstrip("\n")]


def _head(found: Inspection) -> str:
    model = found.model
    counts = (plural(found.size, "byte"), plural(len(model.subgraphs), "subgraph"),
              plural(sum(len(each.operators) for each in model.subgraphs), "operator"),
              plural(len(model.signatures), "signature"))
    return f"{found.path}: {model.format}, {', '.join(counts)}"


def _subgraph_table(found: Inspection) -> Table:
    rows = []
    for index in found.shown:
        subgraph = found.model.subgraphs[index]
        rows.append((subgraph_text(found.model, index), len(subgraph.operators), len(subgraph.tensors),
                     _constant_bytes(subgraph), _callers_text(found, index)))
    return table(("subgraph", "operators", "tensors", "constant bytes", "called by"), rows)


def _callers_text(found: Inspection, index: int) -> str:
    signatures = [f"signature {plain(each.key)}" for each in found.model.signatures if each.subgraph == index]
    callers = [f"{operator_text(found.model, each.subgraph, each.operator)} {each.role}"
               for each in found.callers[index]]
    texts = [*signatures, *callers]
    more = [f"{len(texts) - SHOWN_CALLERS} more"] if len(texts) > SHOWN_CALLERS else []
    return ", ".join([*texts[:SHOWN_CALLERS], *more])


def _operator_table(found: Inspection) -> Table:
    """How many operators of each kind there are, and what computes them."""
    kinds = Counter((_kind(operator), _verdict_text(verdict)) for index in found.shown
                    for operator, verdict in _judged(found, index))
    rows: list[tuple[Cell, ...]] = [
        (kind, number, Marked(verdict, "red") if verdict.startswith(UNSUPPORTED) else verdict)
        for (kind, verdict), number in sorted(kinds.items())]
    return table(("operator", "count", "computed by"), rows)


def _judged(found: Inspection, index: int) -> Iterable[tuple[Operator, Verdict]]:
    return zip(found.model.subgraphs[index].operators, found.support.verdicts[index], strict=True)


def _kind(operator: Operator) -> str:
    return plain(operator.name) + (f" v{operator.version}" if operator.version != 1 else "")


def _verdict_text(verdict: Verdict) -> str:
    if verdict.backend is None:
        return f"{UNSUPPORTED}: {verdict.reason}"
    return "none: merged into others or not needed" if verdict.backend == "none" else verdict.backend


def _json(found: Inspection) -> dict[str, Any]:
    model = found.model
    return {
        "model": found.path,
        "format": model.format,
        "version": model.version,
        "description": model.description,
        "bytes": found.size,
        "problem": found.support.problem,
        "signatures": [{"key": each.key, "subgraph": each.subgraph, "inputs": dict(each.inputs),
                        "outputs": dict(each.outputs)} for each in model.signatures],
        "subgraphs": [_json_subgraph(found, index) for index in found.shown],
    }


def _json_subgraph(found: Inspection, index: int) -> dict[str, Any]:
    subgraph = found.model.subgraphs[index]
    return {
        "index": index,
        "name": subgraph.name,
        "inputs": list(subgraph.inputs),
        "outputs": list(subgraph.outputs),
        "constant_bytes": _constant_bytes(subgraph),
        "called_by": [{"subgraph": each.subgraph, "operator": each.operator, "role": each.role}
                      for each in found.callers[index]],
        "tensors": [_json_tensor(number, each) for number, each in enumerate(subgraph.tensors)],
        "operators": [_json_operator(number, *each) for number, each in enumerate(_judged(found, index))],
    }


def _json_tensor(number: int, tensor: Tensor) -> dict[str, Any]:
    kind = "constant" if tensor.is_constant else "variable" if tensor.is_variable else "value"
    return {"index": number, "name": tensor.name, "dtype": tensor.dtype.value, "kind": kind,
            "shape": list(tensor.signature) if tensor.has_rank or tensor.shape else None,
            "quantization": json_quantization(tensor.quantization)}


def _json_operator(number: int, operator: Operator, verdict: Verdict) -> dict[str, Any]:
    return {"index": number, "name": operator.name, "version": operator.version, "inputs": list(operator.inputs),
            "outputs": list(operator.outputs), "backend": verdict.backend, "reason": verdict.reason or None}


COMMAND = command("inspect", InspectOptions, execute, [
    Option("--subgraph", group=SHOWN, metavar="NAME|INDEX", help="show one subgraph alone"),
    Option("--copies", group=SHOWN, is_flag=True,
           help="show instead how each value crosses the border of a subgraph, and why"),
    Option("--native", group=SHOWN, is_flag=True,
           help="show instead what the entry points, or the subgraph, become as native code"),
    Option("--llvm", group=SHOWN, is_flag=True, help="the same as LLVM's optimised assembly language"),
    Option("--asm", group=SHOWN, is_flag=True, help="the same as assembly language of this machine"),
    Option("--passes", group=SHOWN, is_flag=True, help="show instead what each pass changes before a run"),
    Option("--after", group=SHOWN, metavar="PASS", help="show instead the model as a pass leaves it"),
    *session_parameters(),
])
"""`circlet inspect`."""
