"""Prints what was measured: a table for people, JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.measure import Result
from circlet.tools.measuring.environment import environment
from circlet.tools.tables import duration_text

HEADINGS = ("case", "iterations", "runtime", "median", "minimum", "per iteration", "reference / this")


def table(results: Sequence[Result]) -> str:
    """One line a runtime, grouped by case; notes on disagreement and failure below."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    notes: list[str] = []
    for case, group in groupby(results, key=lambda each: each.case):
        members = list(group)
        reference = next((each for each in members if each.is_reference and each.measured.samples), None)
        for number, each in enumerate(members):
            rows.append(_row(each, reference, named=number == 0))
            notes += [f"{case}, {each.measured.peer}: {note}" for note in _notes(each)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    left = {0, 2}
    lines = ["  ".join(cell.ljust(width) if column in left else cell.rjust(width)
                       for column, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join([*lines, "", *notes] if notes else lines)


def _row(result: Result, reference: Result | None, named: bool) -> tuple[str, ...]:
    case, iterations = (result.case, f"{result.iterations or ''}") if named else ("", "")
    found = result.measured
    if not found.samples:
        return case, iterations, found.peer, "failed", "", "", ""
    each = result.per_iteration
    ratio = "" if reference is None else f"{reference.measured.median / found.median:.2f}"
    peer = f"{found.peer} (differs)" if result.difference else found.peer
    return (case, iterations, peer, duration_text(found.median), duration_text(found.minimum),
            "" if each is None else duration_text(each), ratio)


def _notes(result: Result) -> list[str]:
    found = {"did not run": result.measured.failure, "outputs differ from the first runtime's": result.difference}
    return [f"{what}: {why}" for what, why in found.items() if why is not None]


def write_json(path: Path, results: Sequence[Result]) -> None:
    """Everything that was measured, in seconds."""
    path.write_text(json.dumps({"environment": environment(), "results": list(map(_json, results))}, indent=1) + "\n",
                    encoding="utf-8")


def _json(result: Result) -> dict[str, object]:
    found = result.measured
    return {
        "case": result.case, "peer": found.peer, "iterations": result.iterations, "samples": list(found.samples),
        "median": found.median if found.samples else None, "minimum": found.minimum if found.samples else None,
        "difference": result.difference, "failure": found.failure,
    }
