"""A small picture of a subgraph, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from circlet.runtime.ir.display.drawing import BOX_HEIGHT, Box, Drawing, Graph, draw

WIDTH, HEIGHT = 720, 640
"""Pixels at the most."""
LEAST_SCALE = 0.45
"""At which text of 12 pixels can just be read."""
MOST_OPERATORS = 100
"""Of a subgraph that may be drawn so large; others are not tried."""


def picture(subgraph: Graph) -> str:
    """The operators of a subgraph as SVG, in the colours of the page around it; nothing where it could not be read."""
    if not 0 < len(subgraph.operators) <= MOST_OPERATORS:
        return ""
    drawing = draw(subgraph)
    scale = min(1.0, WIDTH / drawing.width, HEIGHT / drawing.height)
    if scale < LEAST_SCALE:
        return ""
    shapes = "".join([*_lines(drawing), *map(_box, drawing.boxes)])
    view = f"-2 -2 {drawing.width + 4:.0f} {drawing.height + 4:.0f}"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{scale * drawing.width:.0f}" viewBox="{view}" '
            f'font-family="sans-serif" font-size="12" fill="currentColor">{shapes}</svg>')


def _lines(drawing: Drawing) -> Iterator[str]:
    half = BOX_HEIGHT / 2
    for line in drawing.lines:
        source, target = drawing.boxes[line.source], drawing.boxes[line.target]
        points = [(source.x, source.y + half), *line.bends, (target.x, target.y - half)]
        text = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        yield f'<polyline points="{text}" fill="none" stroke="currentColor" stroke-opacity="0.5"/>'


def _box(box: Box) -> str:
    left, top = box.x - box.width / 2, box.y - BOX_HEIGHT / 2
    radius = 5 if box.kind == "operator" else BOX_HEIGHT / 2
    return (f'<rect x="{left:.0f}" y="{top:.0f}" width="{box.width:.0f}" height="{BOX_HEIGHT:.0f}" rx="{radius:.0f}" '
            'fill="none" stroke="currentColor" stroke-opacity="0.6"/>'
            f'<text x="{box.x:.0f}" y="{box.y - 4:.0f}" text-anchor="middle" font-weight="600">'
            f'{escape(_fitted(box.title, box.width / 8))}</text>'
            f'<text x="{box.x:.0f}" y="{box.y + 13:.0f}" text-anchor="middle" fill-opacity="0.7" font-size="11">'
            f'{escape(_fitted(box.subtitle, box.width / 6.4))}</text>')


def _fitted(text: str, length: float) -> str:
    return text if len(text) <= length else f"{text[:int(length) - 1]}…"
