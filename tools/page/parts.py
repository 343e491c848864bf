"""The parts that pages are made of: tables, facts and paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from circlet.runtime.records import dataclass
from circlet.tools.page.page import FOLDER, Json, Part

Unit: TypeAlias = Literal["", "bytes", "count", "seconds", "share"]
TABLES = FOLDER / "tables.js"


@dataclass(frozen=True)
class Link:
    """A text that leads to an operator, or to a subgraph, in the page's graph."""

    text: str
    subgraph: int
    operator: int | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    unit: Unit = ""
    """How numbers are written: `bytes` as MiB and the like, `count` as 1.2 M, `seconds` as ms, `share` as per cent."""
    bar: bool = False
    """Whether a bar behind each number shows what part of the largest it is."""


Cell: TypeAlias = "str | int | float | Link | None"


def table_part(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], title: str = "") -> Part:
    """A table that sorts by a click on a heading, numbers by their size, and that a search box filters."""
    return Part("table", {
        "title": title,
        "columns": [{"title": each.title, "unit": each.unit, "bar": each.bar} for each in columns],
        "rows": [[_json(cell) for cell in row] for row in rows],
    }, (TABLES,))


def _json(cell: Cell) -> Json:
    if isinstance(cell, Link):
        return {"text": cell.text, "to": [cell.subgraph, cell.operator]}
    return cell


def facts_part(facts: Iterable[tuple[str, str]]) -> Part:
    """Names and values beside each other."""
    return Part("facts", list(facts))


def text_part(text: str, title: str = "") -> Part:
    """Paragraphs, parted by blank lines."""
    return Part("text", {"title": title, "paragraphs": text.split("\n\n")})


def list_part(items: Iterable[tuple[Link | str, Sequence[str]]], title: str = "") -> Part:
    """Findings: a heading each, which may lead to an operator, and paragraphs."""
    return Part("list", {"title": title, "items": [
        {"head": head.text if isinstance(head, Link) else head,
         "to": [head.subgraph, head.operator] if isinstance(head, Link) else None, "paragraphs": list(paragraphs)}
        for head, paragraphs in items]})


def code_part(text: str, title: str = "") -> Part:
    """Text of which every space counts."""
    return Part("code", {"title": title, "text": text})
