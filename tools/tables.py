"""Text for people: aligned tables, names, durations and counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TypeAlias

from rich import table as rich_table
from rich.console import Console
from rich.text import Text

from circlet.runtime.ir.model import Model


@dataclass(frozen=True)
class Marked:
    """Text that stands out."""

    text: str
    style: str
    """As rich names it."""


Cell: TypeAlias = "str | int | Marked"
GAP = 2
UNBOUNDED = 1 << 20
"""A width that no table has."""

UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


@dataclass(frozen=True)
class Table:
    """Aligned columns; integers, and their column's other cells, stand to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def render(self, width: int | None, colour: bool) -> str:
        """Its lines. Cells that do not fit `width` are continued below; without one, nothing is."""
        grid = rich_table.Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        numeric = {column for row in self.rows for column, cell in enumerate(row) if isinstance(cell, int)}
        for column, heading in enumerate(self.headings):
            grid.add_column(Text(heading), justify="right" if column in numeric else "left", overflow="fold",
                            no_wrap=width is None)
        for row in self.rows:
            grid.add_row(*map(_text, row))
        found = StringIO()
        console = Console(file=found, width=width or UNBOUNDED, force_terminal=colour, no_color=not colour,
                          color_system="standard" if colour else None, highlight=False, _environ={})
        console.print(grid)
        return "\n".join(line.rstrip() for line in found.getvalue().rstrip("\n").split("\n"))


def _text(cell: Cell) -> Text:
    if isinstance(cell, Marked):
        return Text(cell.text, cell.style)
    return Text(cell if isinstance(cell, str) else f"{cell:,}")


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """A table of these rows."""
    return Table(headings, list(rows))


def plain(name: str) -> str:
    """A name from a file, with characters that would confuse a terminal as escapes."""
    return name if name and name.isprintable() else repr(name)


def plural(number: int, noun: str) -> str:
    """A number of things, e.g. `1,024 bytes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def count_text(number: int) -> str:
    """A large number in three digits and a unit, e.g. `1.25 M`."""
    for unit, scale in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}" if number < 1000 * scale else f"{number / scale:,.0f} {unit}"
    return str(number)


def duration_text(seconds: float) -> str:
    """A duration in three digits and a fitting unit."""
    for unit, scale in UNITS:
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 999.5 * scale else f"{seconds / scale:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def subgraph_text(model: Model, index: int) -> str:
    """A subgraph as the printer of models refers to it, and its name."""
    return f"@{index} {plain(model.subgraphs[index].name)}"


def operator_text(model: Model, subgraph: int, operator: int) -> str:
    """An operator as the printer of models refers to it, e.g. `@4[3] IF`."""
    return f"@{subgraph}[{operator}] {plain(model.subgraphs[subgraph].operators[operator].name)}"
