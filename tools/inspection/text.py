"""What there is to say of a model, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill

from circlet.runtime.ir.model import Model, Operator
from circlet.runtime.ir.text import to_text, type_text
from circlet.tools.console import Document, Rendered
from circlet.tools.inspection.constants import Position, tensor_bytes, unused_of
from circlet.tools.inspection.difference import Difference
from circlet.tools.inspection.inspection import Inspection
from circlet.tools.support import Verdict
from circlet.tools.tables import Cell, Marked, Table, count_text, operator_text, plain, plural, subgraph_text, table

SHOWN_CALLERS = 3
SHOWN_PROBLEMS = 20
SHOWN_PLACES = 3
SHOWN_DIFFERENCES = 100
LINE = 100
UNSUPPORTED = "unsupported"


def model_document(found: Inspection, subgraph: int | None) -> Document:
    """The model in numbers, what is likely wrong, then its text."""
    parts: list[str | Rendered] = [_head(found), subgraph_table(found)]
    if any(found.support.verdicts[index] for index in found.shown):
        parts.append(operator_table(found))
    hosted = host_table(found)
    if hosted.rows:
        parts.append(hosted)
    if found.support.problem is not None:
        parts.append(found.support.problem)
    if found.problems:
        parts.append(_problems_text(found))
    return [*parts, to_text(found.model, subgraph).rstrip("\n")]


def _head(found: Inspection) -> str:
    model = found.model
    counts = (plural(found.size, "byte"), plural(len(model.subgraphs), "subgraph"),
              plural(sum(len(each.operators) for each in model.subgraphs), "operator"),
              plural(len(model.signatures), "signature"))
    return "\n".join([f"{found.path}: {model.format}, {', '.join(counts)}",
                      *(f"{name}: {text}" for name, text in facts(found))])


def facts(found: Inspection) -> Iterator[tuple[str, str]]:
    """What the first of the subgraphs costs that are shown, by name; for a whole model that is a run."""
    yield "weights", plural(found.constants.bytes, "byte")
    if not found.costs:
        return
    index = found.shown[0]
    cost = found.costs[index]
    work = cost.estimate.total
    unknown = cost.estimate.unknown
    yield "work", (
        f"about {count_text(work.flops)} FLOP, {plural(work.read, 'byte')} read and {work.written:,} written"
        + (", of loops one turn" if _has_loops(found.model) else "")
        + (f"; {plural(unknown, 'operator')} without an estimate" if unknown else ""))
    if cost.peak is not None:
        at = "" if cost.peak.operator is None else f", at {operator_text(found.model, index, cost.peak.operator)}"
        yield "memory at its peak", f"{plural(cost.peak.bytes, 'byte')}{at}"


def _has_loops(model: Model) -> bool:
    return any(call.role == "body" for each in model.subgraphs for one in each.operators for call in one.op.calls())


def subgraph_table(found: Inspection) -> Table:
    """A row for each subgraph; numbers are those of one invocation."""
    rows: list[list[Cell]] = []
    for index in found.shown:
        subgraph = found.model.subgraphs[index]
        costs: list[Cell] = []
        if found.costs:
            peak = found.costs[index].peak
            costs = [found.costs[index].estimate.total.flops, "?" if peak is None else peak.bytes]
        rows.append([subgraph_text(found.model, index), len(subgraph.operators), len(subgraph.tensors),
                     sum(map(tensor_bytes, subgraph.tensors)), *costs, callers_text(found, index)])
    costly = ("FLOP", "peak bytes") if found.costs else ()
    return table(("subgraph", "operators", "tensors", "constant bytes", *costly, "called by"), rows)


def callers_text(found: Inspection, index: int) -> str:
    """What invokes a subgraph."""
    signatures = [f"signature {plain(each.key)}" for each in found.model.signatures if each.subgraph == index]
    callers = [f"{operator_text(found.model, each.subgraph, each.operator)} {each.role}"
               for each in found.callers[index]]
    return _some([*signatures, *callers], SHOWN_CALLERS)


def _some(texts: Sequence[str], most: int) -> str:
    more = [f"{len(texts) - most} more"] if len(texts) > most else []
    return ", ".join([*texts[:most], *more])


def operator_table(found: Inspection) -> Table:
    """How many operators of each kind there are, and what computes them."""
    kinds = Counter((kind_text(operator), verdict_text(verdict)) for index in found.shown
                    for operator, verdict in judged(found, index))
    rows: list[tuple[Cell, ...]] = [
        (kind, number, Marked(verdict, "red") if verdict.startswith(UNSUPPORTED) else verdict)
        for (kind, verdict), number in sorted(kinds.items())]
    return table(("operator", "count", "computed by"), rows)


def judged(found: Inspection, index: int) -> Iterable[tuple[Operator, Verdict]]:
    """The operators of a subgraph, and what becomes of them."""
    return zip(found.model.subgraphs[index].operators, found.support.verdicts[index], strict=True)


def kind_text(operator: Operator) -> str:
    """An operator's name and version."""
    return plain(operator.name) + (f" v{operator.version}" if operator.version != 1 else "")


def verdict_text(verdict: Verdict) -> str:
    """What computes an operator, or why nothing does."""
    if verdict.backend is None:
        return f"{UNSUPPORTED}: {verdict.reason}"
    return "none: merged into others or not needed" if verdict.backend == "none" else verdict.backend


def host_table(found: Inspection) -> Table:
    """The operators that numpy computes where the rest is native code, by kind and reason."""
    places: dict[tuple[str, str], list[str]] = {}
    for index, number, verdict in found.hosted:
        kind = kind_text(found.model.subgraphs[index].operators[number])
        places.setdefault((kind, verdict.reason), []).append(f"@{index}[{number}]")
    return table(("not native", "at", "reason"),
                 [(kind, _some(each, SHOWN_PLACES), plain(reason)) for (kind, reason), each in sorted(places.items())])


def _problems_text(found: Inspection) -> str:
    lines = ["likely problems"]
    for each in found.problems[:SHOWN_PROBLEMS]:
        lines.append(fill(f"{each.place(found.model)}: {each.text}", LINE, initial_indent="  ",
                          subsequent_indent="    ", break_on_hyphens=False))
        lines.append(fill(f"remedy: {each.remedy}", LINE, initial_indent="    ", subsequent_indent="    ",
                          break_on_hyphens=False))
    left = len(found.problems) - SHOWN_PROBLEMS
    return "\n".join([*lines, *([f"  {left:,} more, which --json lists"] if left > 0 else [])])


def tensors_document(found: Inspection) -> Document:
    """Tensors that nothing reads, and constants that are there more than once."""
    unused = [(_tensor_text(found.model, (index, each.tensor)), type_text(subgraph.tensors[each.tensor]), each.reason)
              for index in found.shown for subgraph in [found.model.subgraphs[index]] for each in unused_of(subgraph)]
    wanted = {*found.shown}
    same: list[tuple[Cell, ...]] = [
        (each.bytes, len(each.tensors), "one buffer" if each.is_shared else "equal, each its own",
         _some([_tensor_text(found.model, one) for one in each.tensors], SHOWN_PLACES))
        for each in found.constants.same if wanted.intersection(index for index, _ in each.tensors)]
    parts: list[str | Rendered] = []
    parts.append(table(("unused tensor", "type", "reason"), unused) if unused else "no unused tensors")
    parts.append(table(("bytes", "constants", "are", "which"), same) if same else "no constants are there twice")
    return parts


def _tensor_text(model: Model, position: Position) -> str:
    index, number = position
    name = model.subgraphs[index].tensors[number].name
    return f"@{index} %{number}" + (f" {plain(name)}" if name else "")


def differences_document(one: str, other: str, found: Sequence[Difference]) -> Document:
    """What a second model has otherwise than a first."""
    if not found:
        return [f"no differences between {one} and {other}"]
    kinds = Counter(each.kind for each in found)
    counts = ", ".join(plural(number, kind) for kind, number in kinds.items())
    rows = [(each.kind, each.place, each.text) for each in found[:SHOWN_DIFFERENCES]]
    left = len(found) - SHOWN_DIFFERENCES
    return [f"{one} and {other} differ: {counts}", table(("what", "where", "difference"), rows),
            *([f"{left:,} more, which --json lists"] if left > 0 else [])]
