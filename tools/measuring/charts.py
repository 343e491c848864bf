"""Bar charts: for terminals, and as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import click

from circlet.tools.tables import duration_text

WIDEST, NARROWEST = 60, 8
"""Columns of the longest bar: a choice."""
WIDTH, LABEL, VALUE, ROW, MARGIN = 760, 190, 130, 26, 12
"""Pixels of the drawing: choices."""


@dataclass(frozen=True)
class Bar:
    """A duration, with the range that it varied in if that is known."""

    label: str
    seconds: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Chart:
    """Bars beside each other under a title."""

    title: str
    bars: Sequence[Bar]

    def render(self, width: int | None, colour: bool) -> str:
        """The lines of a chart no wider than `width`; without one it is plain, and the longest bar has 60 columns."""
        labels = max((len(each.label) for each in self.bars), default=0)
        values = [duration_text(each.seconds) for each in self.bars]
        taken = labels + max(map(len, values), default=0) + 4
        room = WIDEST if width is None else max(min(WIDEST, width - taken), NARROWEST)
        longest = max((each.seconds for each in self.bars), default=0.0)
        lines = [click.style(self.title, bold=True) if colour else self.title]
        for each, value in zip(self.bars, values, strict=True):
            text = _text_bar(each.seconds / longest if longest else 0.0, room, width is not None)
            lines.append(f"{each.label:{labels}}  {click.style(text, fg='cyan') if colour else text} {value}")
        return "\n".join(lines)


def _text_bar(part: float, room: int, is_fine: bool) -> str:
    """A bar that takes a part of the room: in eighths of a column on terminals, at least a mark."""
    if not is_fine:
        return "#" * max(round(part * room), 1)
    eighths = max(round(part * room * 8), 1)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def svg(charts: Sequence[Chart]) -> str:
    """Charts below each other as a drawing, each to a scale of its own; whiskers show the range."""
    parts: list[str] = []
    top = MARGIN
    for each in charts:
        parts += _drawn(each, top)
        top += (len(each.bars) + 2) * ROW
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""))


def _drawn(chart: Chart, top: int) -> list[str]:
    """The elements of a chart."""
    longest = max((max(each.seconds, each.high or 0.0) for each in chart.bars), default=0.0)
    scale = (WIDTH - LABEL - VALUE - 2 * MARGIN) / (longest or 1.0)
    left = MARGIN + LABEL
    found = [_text(MARGIN, top + ROW * 0.7, chart.title, 'font-weight="bold"')]
    for number, each in enumerate(chart.bars, start=1):
        y = top + number * ROW
        found.append(_text(MARGIN, y + ROW * 0.65, each.label))
        found.append(f'<rect x="{left}" y="{y + 4}" width="{max(each.seconds * scale, 1):.1f}" height="{ROW - 8}" '
                     f'fill="{"#2b6cb0" if number == 1 else "#a0aec0"}"/>')
        if each.low is not None and each.high is not None:
            low, high, middle = left + each.low * scale, left + each.high * scale, y + ROW / 2
            found.append(f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8" '
                         'stroke="black" fill="none"/>')
        end = left + max(each.seconds, each.high or 0.0) * scale
        found.append(_text(end + 6, y + ROW * 0.65, duration_text(each.seconds)))
    return found


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
