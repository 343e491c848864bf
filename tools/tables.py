"""Text for people: aligned tables, names, durations and counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TypeAlias

from circlet.runtime.ir.model import Model

Cell: TypeAlias = "str | int"

UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Lines of aligned columns; integers, and their column's other cells, stand to the right."""
    lines = [headings, *rows]
    numeric = {column for row in lines[1:] for column, cell in enumerate(row) if isinstance(cell, int)}
    texts = [[cell if isinstance(cell, str) else f"{cell:,}" for cell in row] for row in lines]
    widths = [max(map(len, column)) for column in zip_longest(*texts, fillvalue="")]
    return "\n".join(
        "  ".join(text.rjust(width) if column in numeric else text.ljust(width)
                  for column, (text, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in texts)


def plain(name: str) -> str:
    """A name from a file, with characters that would confuse a terminal as escapes."""
    return name if name and name.isprintable() else repr(name)


def plural(number: int, noun: str) -> str:
    """A number of things, e.g. `1,024 bytes`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration_text(seconds: float) -> str:
    """A duration in three digits and a fitting unit."""
    for unit, scale in UNITS:
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 1000 * scale else f"{seconds / scale:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def subgraph_text(model: Model, index: int) -> str:
    """A subgraph as the printer of models refers to it, and its name."""
    return f"@{index} {plain(model.subgraphs[index].name)}"


def operator_text(model: Model, subgraph: int, operator: int) -> str:
    """An operator as the printer of models refers to it, e.g. `@4[3] IF`."""
    return f"@{subgraph}[{operator}] {plain(model.subgraphs[subgraph].operators[operator].name)}"
