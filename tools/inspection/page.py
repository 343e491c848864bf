"""What there is to say of a model, as a page with its graph."""

from __future__ import annotations

from collections.abc import Iterator

from circlet.runtime.ir.text import type_text
from circlet.runtime.passes.analyses.flops import formula
from circlet.runtime.passes.analyses.work import Work
from circlet.tools.inspection.constants import tensor_bytes, unused_of
from circlet.tools.inspection.inspection import Inspection, session_entries
from circlet.tools.inspection.problem import Problem
from circlet.tools.inspection.text import callers_text, facts, kind_text, verdict_text
from circlet.tools.page.graph import Note, graph_part
from circlet.tools.page.page import Part, Tab, document
from circlet.tools.page.parts import Cell, Column, Link, facts_part, list_part, table_part, text_part
from circlet.tools.support import Verdict
from circlet.tools.tables import count_text, plural, subgraph_text

NUMBERS = (Column("FLOP", "count", bar=True), Column("read", "bytes"), Column("written", "bytes"))


def page_text(found: Inspection) -> str:
    """The text of the page."""
    model = found.model
    operators = sum(len(each.operators) for each in model.subgraphs)
    subtitle = f"{model.format}, {plural(len(model.subgraphs), 'subgraph')}, {plural(operators, 'operator')}"
    return document(found.path, [
        Tab("Overview", [*_overview(found)]),
        Tab("Graph", [graph_part(model, _notes(found), session_entries(model) if model.subgraphs else ())]),
        Tab("Operators", [_operators(found)]),
        Tab("Tensors", [_tensors(found)]),
    ], subtitle)


def _overview(found: Inspection) -> Iterator[Part]:
    yield facts_part([("file", plural(found.size, "byte")), *facts(found),
                      *([("description", found.model.description)] if found.model.description else [])])
    if found.support.problem is not None:
        yield text_part(found.support.problem, "Cannot be run")
    if found.problems:
        yield list_part([(_link(found, each), [each.text, f"remedy: {each.remedy}"]) for each in found.problems],
                        "Likely problems")
    yield table_part([Column("subgraph"), Column("operators"), Column("tensors"),
                      Column("constants", "bytes", bar=True), *NUMBERS, Column("peak", "bytes"), Column("called by")],
                     [_subgraph(found, index) for index in found.shown], "Subgraphs")


def _link(found: Inspection, problem: Problem) -> Link:
    return Link(problem.place(found.model), problem.subgraph, problem.operator)


def _subgraph(found: Inspection, index: int) -> list[Cell]:
    subgraph = found.model.subgraphs[index]
    cost = found.costs[index] if found.costs else None
    peak = None if cost is None or cost.peak is None else cost.peak.bytes
    return [Link(subgraph_text(found.model, index), index), len(subgraph.operators), len(subgraph.tensors),
            sum(map(tensor_bytes, subgraph.tensors)), *_numbers(None if cost is None else cost.estimate.total), peak,
            callers_text(found, index)]


def _numbers(work: Work | None) -> list[Cell]:
    return [None] * 3 if work is None else [work.flops, work.read, work.written]


def _works(found: Inspection, index: int) -> Iterator[tuple[int, Work | None, Verdict]]:
    """For each operator of a subgraph its number, what it costs and what computes it."""
    works = found.costs[index].estimate.operators if found.costs else ()
    for number, verdict in enumerate(found.support.verdicts[index]):
        yield number, works[number] if works else None, verdict


def _operators(found: Inspection) -> Part:
    def rows() -> Iterator[list[Cell]]:
        for index in found.shown:
            subgraph = found.model.subgraphs[index]
            for number, work, verdict in _works(found, index):
                operator = subgraph.operators[number]
                results = [subgraph.tensors[each] for each in operator.outputs if 0 <= each < len(subgraph.tensors)]
                yield [Link(f"@{index}[{number}]", index, number), kind_text(operator),
                       ", ".join(each.type_text for each in results), *_numbers(work), verdict_text(verdict),
                       verdict.reason if verdict.backend is not None else ""]

    return table_part([Column("operator"), Column("kind"), Column("results"), *NUMBERS, Column("computed by"),
                       Column("why not native")], rows(), "Operators")


def _tensors(found: Inspection) -> Part:
    def rows() -> Iterator[list[Cell]]:
        for index in found.shown:
            subgraph = found.model.subgraphs[index]
            unused = {each.tensor: each.reason for each in unused_of(subgraph)}
            for number, tensor in enumerate(subgraph.tensors):
                kind = "constant" if tensor.is_constant else "variable" if tensor.is_variable else "value"
                yield [f"@{index} %{number}", tensor.name, type_text(tensor), kind,
                       tensor_bytes(tensor) if tensor.is_constant else None, unused.get(number, "")]

    return table_part([Column("tensor"), Column("name"), Column("type"), Column("kind"),
                       Column("constant", "bytes", bar=True), Column("unused")], rows(), "Tensors")


def _notes(found: Inspection) -> dict[tuple[int, int], Note]:
    warnings: dict[tuple[int, int], list[str]] = {}
    for each in found.problems:
        if each.operator is not None:
            warnings.setdefault((each.subgraph, each.operator), []).append(f"{each.text}. Remedy: {each.remedy}.")
    return {(index, number): _note(found, index, number, work, verdict, warnings.get((index, number), []))
            for index in found.shown for number, work, verdict in _works(found, index)}


def _note(found: Inspection, index: int, number: int, work: Work | None, verdict: Verdict,
          warnings: list[str]) -> Note:
    rows = [("computed by", verdict_text(verdict))]
    if verdict.backend is not None and verdict.reason:
        rows.append(("not native", verdict.reason))
    if work is not None:
        op = found.model.subgraphs[index].operators[number].op
        rows += [("FLOP", f"{work.flops:,}"), ("counted as", formula(type(op))),
                 ("read", plural(work.read, "byte")), ("written", plural(work.written, "byte"))]
    label = "" if work is None or not work.flops else count_text(work.flops)
    return Note(label=label, rows=rows, warning="\n".join(warnings))
