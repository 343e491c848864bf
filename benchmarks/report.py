"""Prints what was measured: a table for people, JSON for machines, a chart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Result, difference
from circlet.tools.measuring.charts import svg
from circlet.tools.measuring.environment import environment
from circlet.tools.measuring.sampling import Measured
from circlet.tools.tables import duration_text

HEADINGS = ("case", "iterations", "runtime", "median", "minimum", "per iteration", "reference / this")


def table(results: Sequence[Result]) -> str:
    """One line a runtime, grouped by case; notes on disagreement and failure below."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    notes: list[str] = []
    for result in results:
        for number, each in enumerate(result.benched.found):
            rows.append(_row(result, each, named=number == 0))
            notes += [f"{result.case}, {each.peer}: {note}" for note in _notes(each)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    left = {0, 2}
    lines = ["  ".join(cell.ljust(width) if column in left else cell.rjust(width)
                       for column, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join([*lines, "", *notes] if notes else lines)


def _row(result: Result, found: Measured, named: bool) -> tuple[str, ...]:
    case, iterations = (result.case, f"{result.iterations or ''}") if named else ("", "")
    if not found.samples:
        return case, iterations, found.peer, "failed", "", "", ""
    each, reference = result.per_iteration(found), result.reference
    ratio = "" if reference is None else f"{reference.median / found.median:.2f}"
    peer = f"{found.peer} (differs)" if difference(found) else found.peer
    return (case, iterations, peer, duration_text(found.median), duration_text(found.minimum),
            "" if each is None else duration_text(each), ratio)


def _notes(found: Measured) -> list[str]:
    notes = {"did not run": found.failure, "outputs differ from the first runtime's": difference(found)}
    return [f"{what}: {why}" for what, why in notes.items() if why is not None]


def write_json(path: Path, results: Sequence[Result]) -> None:
    """Everything that was measured, as `circlet bench --json` has it of each case."""
    cases = [{"case": each.case, "iterations": each.iterations, **each.benched.to_json()} for each in results]
    path.write_text(json.dumps({"environment": environment(), "cases": cases}, indent=1) + "\n", encoding="utf-8")


def write_chart(path: Path, results: Sequence[Result]) -> None:
    """Medians of each case, as `circlet bench --chart` draws them."""
    path.write_text(svg([each.benched.chart(each.case) for each in results]), encoding="utf-8")
