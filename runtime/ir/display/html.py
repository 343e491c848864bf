"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LEFT, RIGHT = "text-align:left;white-space:pre-wrap", "text-align:right"
"""The styles of texts, with the spaces that indent them, and of numbers; some notebooks put all to the right."""


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in HTML; texts are escaped. Columns of numbers end to the right, others begin to the left."""
    found = [[str(each).rstrip() for each in row] for row in rows]
    is_text = [not all(map(_is_number, column)) for column in zip(*found, strict=True)] or [True] * len(headings)
    lines = [_row("th", headings, is_text), *(_row("td", row, is_text) for row in found)]
    return f"<table><caption>{_escaped(caption)}</caption>{''.join(lines)}</table>"


def _is_number(text: str) -> bool:
    """Whether a text is a number, perhaps with a unit, or nothing."""
    return text.strip(" -")[:1].isdecimal() or not text.strip()


def _row(kind: str, cells: Sequence[str], is_text: Sequence[bool]) -> str:
    styled = (f'<{kind} style="{LEFT if is_left else RIGHT}">{_escaped(each)}</{kind}>'
              for each, is_left in zip(cells, is_text, strict=True))
    return f"<tr>{''.join(styled)}</tr>"


def _escaped(text: str) -> str:
    from html import escape  # takes a while to import, and is seldom needed

    return escape(text)
