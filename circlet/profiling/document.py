"""Profiles as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from circlet.profiling.crossings import Crossed
from circlet.profiling.tables import LoopRow, OperatorRow, SubgraphRow, Tables
from circlet.profiling.timed_runs import TimedRuns
from circlet.profiling.turns import TurnTimes
from circlet.runtime.exec.observe.regions import Node

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
VERSION = 1
"""The keys of a version keep their meaning, and others may be added."""


def document(tables: Tables) -> dict[str, Json]:
    """The profile as an object for `json.dumps`. Times are in nanoseconds, those of all runs together; `operators`,
    `subgraphs` and `loops` have the most time first. `docs/profiling.md` tells of each key."""
    runs = tables.runs
    return {
        "version": VERSION,
        "runs": {"count": len(runs.walls), "walls": [_time(each) for each in runs.walls],
                 "total": _time(runs.root.total), "threads": len(runs.tracks)},
        "peak": None if tables.peak is None else {
            "flops": tables.peak.flops, "int8": tables.peak.int8, "product": tables.peak.product,
            "copies": [{"bytes": size, "bytes_per_second": rate} for size, rate in tables.peak.rates]},
        "subgraphs": [_subgraph(each) for each in tables.subgraphs],
        "operators": [_operator(each) for each in tables.operators],
        "loops": [_loop(each) for each in tables.loops],
        "tree": _node(runs, runs.root),
    }


def _time(time: float) -> float:
    return round(time, 1)


def _subgraph(row: SubgraphRow) -> Json:
    return {
        "index": row.index, "name": row.name, "invocations": row.invocations, "total": _time(row.total),
        "own": _time(row.own), "overhead": _time(row.overhead), "conditions": _time(row.conditions),
        "copies": row.copies, "copied_bytes": row.copied_bytes, "arena_bytes": row.arena, "peak_bytes": row.peak,
        "elided": _crossed(row.elided),
    }


def _crossed(crossed: Crossed | None) -> Json:
    return None if crossed is None else {"values": crossed.values, "bytes": crossed.size}


def _operator(row: OperatorRow) -> Json:
    return {
        "subgraph": row.subgraph, "index": row.index, "name": row.name, "source": row.source or None,
        "outputs": row.outputs, "backend": row.backend or None, "parts": row.parts, "invokes": row.invokes,
        "count": row.count, "total": _time(row.total), "own": _time(row.own), "copies": row.copies,
        "copied_bytes": row.copied_bytes, "sampled": round(row.sampled, 6),
        "work": None if row.work is None else {"flops": row.work.flops, "read_bytes": row.work.read,
                                               "written_bytes": row.work.written},
        "of_peak": None if row.of_peak is None else round(row.of_peak, 4),
    }


def _loop(row: LoopRow) -> Json:
    region = row.node.region
    return {
        "subgraph": region.subgraph, "operator": region.operator, "path": row.path, "activations": row.activations,
        "turns": row.turns, "fewest": row.fewest, "median": row.typical, "most": row.most, "total": _time(row.total),
        "condition": _time(row.condition), "body": _time(row.body), "times": _turns(row.times),
    }


def _turns(times: TurnTimes | None) -> Json:
    if times is None:
        return None
    return {
        "timed": times.timed, "mean": _time(times.mean), "p10": _maybe(times.p10), "p50": _maybe(times.median),
        "p90": _maybe(times.p90), "longest": _maybe(times.longest), "first": _maybe(times.first),
        "rest": _maybe(times.rest), "histogram": [list(each) for each in times.histogram],
    }


def _maybe(time: float | None) -> float | None:
    return None if time is None else _time(time)


def _node(runs: TimedRuns, node: Node) -> Json:
    region = node.region
    return {
        "kind": region.kind.value, "subgraph": region.subgraph if region.subgraph >= 0 else None,
        "operator": region.operator if region.operator >= 0 else None, "label": runs.label(node), "count": node.count,
        "total": _time(node.total), "own": _time(node.own), "copies": node.copies, "copied_bytes": node.copied_bytes,
        "native": node.is_native, "sampled": round(node.sampled, 6),
        "children": [_node(runs, each) for each in node.children.values()],
    }
