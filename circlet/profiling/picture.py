"""The call tree of a profile as a picture for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from circlet.profiling.sheets import described, time_text
from circlet.profiling.timed_runs import TimedRuns
from circlet.runtime.exec.observe.regions import Kind, Node

WIDTH, ROW = 900, 20
LEAST = 1.0
"""Narrower regions are left out."""
LETTER = 7.0
"""The width of one, nearly."""
COLOURS = {Kind.RUN: "#d8dee4", Kind.SUBGRAPH: "#a9cbf0", Kind.OPERATOR: "#cfd6dd", Kind.COPIES: "#eab8b3"}


def picture(runs: TimedRuns) -> str:
    """An SVG: regions, as wide as their times, those that run below each other; their numbers where one points."""
    boxes = list(_boxes(runs, runs.root, 0.0, float(WIDTH), 0))
    height = ROW * (1 + max((depth for depth, _ in boxes), default=0))
    return (f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'font-family="sans-serif" font-size="12">{"".join(text for _, text in boxes)}</svg>')


def _boxes(runs: TimedRuns, node: Node, left: float, width: float, depth: int) -> Iterator[tuple[int, str]]:
    """Each region with how deep it lies."""
    if width < LEAST:
        return
    yield depth, _box(runs, node, left, width, depth)
    for each in sorted(node.children.values(), key=lambda child: -child.total):
        share = each.total / node.total if node.total else 0.0
        yield from _boxes(runs, each, left, width * share, depth + 1)
        left += width * share


def _box(runs: TimedRuns, node: Node, left: float, width: float, depth: int) -> str:
    label = described(runs, node)
    about = (f"{runs.path(node)}: {time_text(runs.per_run(node.total))}, own {time_text(runs.per_run(node.own))}, "
             f"count {runs.per_run(node.count):g}")
    room = int(width / LETTER) - 1
    text = label if len(label) <= room else ""
    return (f'<g><title>{escape(about)}</title><rect x="{left:.2f}" y="{depth * ROW}" '
            f'width="{max(width - 1, 0.5):.2f}" height="{ROW - 1}" fill="{COLOURS[node.region.kind]}"/>'
            f'<text x="{left + 4:.2f}" y="{depth * ROW + 14}" fill="#1f2328">{escape(text)}</text></g>')
