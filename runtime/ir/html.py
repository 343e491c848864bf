"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in HTML; texts are escaped."""
    lines = [_row("th", headings), *(_row("td", row) for row in rows)]
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


def _row(kind: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(str(each))}</{kind}>' for each in cells)}</tr>"
