"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in HTML; texts are escaped."""
    lines = [_row("th", headings), *(_row("td", row) for row in rows)]
    return f"<table><caption>{_escaped(caption)}</caption>{''.join(lines)}</table>"


def _row(kind: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{_escaped(each)}</{kind}>' for each in cells)}</tr>"


def _escaped(value: object) -> str:
    from html import escape  # takes a while to import, and is seldom needed

    return escape(str(value))
