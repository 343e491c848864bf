"""The copies between subgraphs, those made and those elided: as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any

from circlet.runtime.exec.crossing import CopyEdge
from circlet.runtime.ir.model import Model
from circlet.runtime.passes.analyses.transfer import Action
from circlet.tools.console import Rendered
from circlet.tools.tables import Cell, Marked, operator_text, plural, table

LINE = 100


def json_copies(edges: Sequence[CopyEdge]) -> list[dict[str, Any]]:
    """One object for each edge, with the fields of `CopyEdge`; the action by its value."""
    return [
        {"subgraph": each.subgraph, "operator": each.operator, "edge": each.edge, "bytes": each.bytes,
         "per_iteration": each.per_iteration, "action": each.action.value, "reason": each.reason}
        for each in edges
    ]


def copies_text(model: Model, edges: Sequence[CopyEdge]) -> Sequence[str | Rendered]:
    """All edges, their totals by action, and the copies that are left in loops."""
    if not edges:
        return ("no values cross the border of a subgraph",)
    listing = table(("operator", "edge", "bytes", "in loop", "action", "reason"), _rows(model, edges))
    totals = table(("action", "edges", "bytes", "in loops", "bytes in loops"),
                   [_total(action, edges) for action in Action if any(each.action is action for each in edges)])
    return listing, totals, _remaining(model, edges)


def _rows(model: Model, edges: Sequence[CopyEdge]) -> Iterator[tuple[Cell, ...]]:
    """A row for each edge; the operator stands in the first of its rows."""
    before = ""
    for each in edges:
        operator = operator_text(model, each.subgraph, each.operator)
        yield ("" if operator == before else operator, each.edge, _bytes(each), "yes" if each.per_iteration else "",
               Marked(each.action.value, "yellow") if each.action is Action.COPY else each.action.value, each.reason)
        before = operator


def _bytes(edge: CopyEdge) -> Cell:
    return "?" if edge.bytes is None else edge.bytes


def _total(action: Action, edges: Sequence[CopyEdge]) -> tuple[Cell, ...]:
    own = [each for each in edges if each.action is action]
    turning = [each for each in own if each.per_iteration]
    return action.value, len(own), _sum(own), len(turning), _sum(turning)


def _sum(edges: Sequence[CopyEdge]) -> int | str:
    known = sum(each.bytes or 0 for each in edges)
    if all(each.bytes is not None for each in edges):
        return known
    return f"{known:,} + ?" if known else "?"


def _remaining(model: Model, edges: Sequence[CopyEdge]) -> str:
    left = [each for each in edges if each.per_iteration and each.action is Action.COPY]
    if not left:
        return "no copies are left in loops"
    places: dict[str, dict[str, None]] = {}
    for each in left:
        places.setdefault(operator_text(model, each.subgraph, each.operator), {})[each.edge] = None
    total = _sum(left)
    size = f"{total} bytes" if isinstance(total, str) else plural(total, "byte")
    number = f"{len(left):,} {'copy' if len(left) == 1 else 'copies'}"
    return "\n".join([f"left in loops: {number}, {size}",
                      *(fill(f"{place}: {', '.join(labels)}", LINE, initial_indent="  ", subsequent_indent="    ")
                        for place, labels in places.items())])
