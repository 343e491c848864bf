"""Prints what was measured: a table for people, JSON for machines."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path

from benchmarks.measure import Result

PACKAGES = ("circlet", "numpy", "ai-edge-litert", "onnxruntime", "openvino", "llvmlite")
HEADINGS = ("case", "iterations", "runtime", "median", "minimum", "per iteration", "reference / this")


def table(results: Sequence[Result]) -> str:
    """One line a runtime, grouped by case; notes on disagreement and failure below."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    notes: list[str] = []
    for case, group in groupby(results, key=lambda each: each.case):
        members = list(group)
        reference = next((each for each in members if each.peer == each.reference and each.samples), None)
        for number, each in enumerate(members):
            rows.append(_row(each, reference, named=number == 0))
            notes += [f"{case}, {each.peer}: {note}" for note in _notes(each)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    left = {0, 2}
    lines = ["  ".join(cell.ljust(width) if column in left else cell.rjust(width)
                       for column, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join([*lines, "", *notes] if notes else lines)


def _row(result: Result, reference: Result | None, named: bool) -> tuple[str, ...]:
    case, iterations = (result.case, f"{result.iterations or ''}") if named else ("", "")
    if not result.samples:
        return case, iterations, result.peer, "failed", "", "", ""
    each = result.per_iteration
    ratio = "" if reference is None else f"{reference.median / result.median:.2f}"
    peer = f"{result.peer} (differs)" if result.difference else result.peer
    return (case, iterations, peer, seconds(result.median), seconds(result.minimum),
            "" if each is None else seconds(each), ratio)


def _notes(result: Result) -> list[str]:
    found = {"did not run": result.failure, "outputs differ from the first runtime's": result.difference}
    return [f"{what}: {why}" for what, why in found.items() if why is not None]


def seconds(value: float) -> str:
    """A duration in three digits and a fitting unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}" if value < 1000 * scale else f"{value / scale:.0f} {unit}"
    return f"{value * 1e9:.3g} ns"


def environment() -> dict[str, str]:
    """The machine and the packages that took part."""
    found = {"python": platform.python_version(), "machine": platform.machine(), "processor": _processor()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def write_json(path: Path, results: Sequence[Result]) -> None:
    """Everything that was measured, in seconds."""
    path.write_text(json.dumps({
        "environment": environment(),
        "results": [
            {
                "case": each.case, "peer": each.peer, "iterations": each.iterations, "samples": list(each.samples),
                "median": each.median if each.samples else None, "minimum": each.minimum if each.samples else None,
                "difference": each.difference, "failure": each.failure,
            }
            for each in results
        ],
    }, indent=1) + "\n", encoding="utf-8")
