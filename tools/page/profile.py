"""The page of a profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from circlet.profiling.sheets import sampled_note, short, summary
from circlet.profiling.tables import LoopRow, OperatorRow, SubgraphRow, Tables
from circlet.profiling.timed_runs import TimedRuns
from circlet.runtime.exec.observe.regions import Kind, Region
from circlet.runtime.records import replace
from circlet.tools.page.flame import NANO, flame_part, memory_part, turns_part
from circlet.tools.page.graph import Note, Notes, graph_part
from circlet.tools.page.page import Part, Tab, document
from circlet.tools.page.parts import Cell, Column, Link, facts_part, table_part, text_part

SUBGRAPHS = [Column("subgraph"), Column("count", "count"), Column("time", "seconds", bar=True),
             Column("share", "share"), Column("own", "seconds"), Column("overhead", "seconds", bar=True),
             Column("conditions", "seconds"), Column("copies", "count"), Column("bytes copied", "bytes"),
             Column("elided", "count"), Column("bytes elided", "bytes"), Column("arena", "bytes"),
             Column("in use at most", "bytes")]
OPERATORS = [Column("operator"), Column("own", "seconds", bar=True), Column("share", "share"), Column("count", "count"),
             Column("each", "seconds"), Column("total", "seconds"), Column("FLOPs", "count"), Column("bytes", "bytes"),
             Column("FLOP/s", "count"), Column("bytes/s", "bytes"), Column("of peak", "share"),
             Column("computed by"), Column("made of"),
             Column("result")]
LOOPS = [Column("loop"), Column("time", "seconds", bar=True), Column("share", "share"), Column("begun", "count"),
         Column("turns", "count"), Column("fewest", "count"), Column("median", "count"), Column("most", "count"),
         Column("condition", "seconds"), Column("a turn", "seconds"),
         Column("p10", "seconds"),
         Column("p50", "seconds"), Column("p90", "seconds"), Column("longest", "seconds"), Column("first", "seconds"),
         Column("others", "seconds"), Column("timed", "count")]
STARTUP = [Column("stage"), Column("time", "seconds", bar=True), Column("detail")]
COPIES = [Column("operator"), Column("edge"), Column("bytes", "bytes"), Column("in loop"), Column("action"),
          Column("reason")]


def profile_page(tables: Tables, title: str, facts: Sequence[tuple[str, str]],
                 startup: Sequence[tuple[str, float, str]] = ()) -> str:
    """A document that shows a profile. Times are those of one run, the mean of all.

    Args:
        tables: the profile.
        title: of the page.
        facts: what else is to be said of it: names and values.
        startup: what came before the runs: what it was, seconds, more about it.
    """
    runs = tables.runs
    note = sampled_note(runs)
    head = [*facts, ("runs", summary(runs)), *([("sampled", note)] if note else []),
            *([("peak", tables.peak.text)] if tables.peak is not None else [])]
    return document(title, [
        Tab("Time", [facts_part(head), flame_part(runs, "Call tree"), *_loops(tables)]),
        Tab("Operators", [table_part(OPERATORS, map(_Cells(tables).operator, tables.operators), "Operators")]),
        Tab("Subgraphs", [table_part(SUBGRAPHS, map(_Cells(tables).subgraph, tables.subgraphs), "Subgraphs")]),
        Tab("Graph", [graph_part(runs.model, _notes(tables), _entries(tables), "share of the time of a run")]),
        Tab("Copies", [_copies(tables)]),
        Tab("Memory", [memory_part(runs, tables.plans, "Arenas"), text_part(ARENAS)]),
        *([Tab("Start", [table_part(STARTUP, startup, "Before the runs")])] if startup else []),
    ], summary(runs))


ARENAS = ("Each rectangle is a buffer: it lies at its place in the arena, and lives from the operator that first "
          "writes it to the last that reads it. The line is what is in use. The plan is that of a subgraph whose "
          "caller lends it nothing; inputs, constants and variables lie elsewhere. Compiled code keeps single numbers "
          "in registers.")


class _Cells:
    """Cells of rows, of the mean run."""

    def __init__(self, tables: Tables) -> None:
        self._runs = tables.runs
        self._whole = tables.runs.root.total or 1.0

    def _time(self, time: float | None) -> float | None:
        return None if time is None else round(self._runs.per_run(time), 1) * NANO

    def subgraph(self, row: SubgraphRow) -> list[Cell]:
        per_run, elided = self._runs.per_run, row.elided
        return [Link(f"@{row.index} {short(row.name)}", row.index), per_run(row.invocations), self._time(row.total),
                row.total / self._whole, self._time(row.own), self._time(row.overhead), self._time(row.conditions),
                per_run(row.copies), per_run(row.copied_bytes), None if elided is None else per_run(elided.values),
                None if elided is None else per_run(elided.size), row.arena, row.peak]

    def operator(self, row: OperatorRow) -> list[Cell]:
        each, work = row.own / max(row.count, 1) * NANO, row.work
        rate = 0.0 if work is None or not each else 1 / each
        return [Link(row.place, row.subgraph, row.index), self._time(row.own), row.own / self._whole,
                self._runs.per_run(row.count), each, self._time(row.total),
                None if work is None else work.flops, None if work is None else work.bytes,
                rate * work.flops if work and work.flops and rate else None,
                rate * work.bytes if work and work.bytes and rate else None, row.of_peak, row.backend,
                " ".join(f"[{k}]" for k in row.parts), ", ".join(row.outputs)]

    def loop(self, row: LoopRow) -> list[Cell]:
        region, times = row.node.region, row.times
        spread: list[Cell] = [None] * 7 if times is None else [
            *(None if each is None else each * NANO for each in (times.mean, times.p10, times.median, times.p90,
                                                                 times.longest, times.first, times.rest))]
        return [Link(row.path, region.subgraph, region.operator), self._time(row.total), row.total / self._whole,
                self._runs.per_run(row.activations), self._runs.per_run(row.turns), row.fewest, row.typical, row.most,
                self._time(row.condition), *spread, 0 if times is None else times.timed]


def _loops(tables: Tables) -> list[Part]:
    rows = [_Cells(tables).loop(each) for each in tables.loops]
    turns = turns_part(tables.loops, "How long turns took")
    return [*([table_part(LOOPS, rows, "Loops")] if rows else []), *([] if turns is None else [turns])]


def _notes(tables: Tables) -> Notes:
    """What the graph says of operators: the share of the run with what they invoke, as heat."""
    whole, cells = tables.runs.root.total or 1.0, _Cells(tables)
    found = dict(_merged(tables.runs))
    for row in tables.operators:
        names = [each.title for each in OPERATORS[1:]]
        texts = [_text(column, cell) for column, cell in zip(OPERATORS[1:], cells.operator(row)[1:], strict=True)]
        share = row.total / whole
        place = row.subgraph, row.index
        found[place] = replace(found.get(place, Note()), heat=share, label=f"{100 * share:.1f} %",
                               rows=[pair for pair in zip(names, texts, strict=True) if pair[1]])
    return found


def _merged(runs: TimedRuns) -> Iterator[tuple[tuple[int, int], Note]]:
    """What operators are called that others were merged into, those too that did not run."""
    for index, subgraph in enumerate(runs.model.subgraphs):
        for number, operator in enumerate(subgraph.operators):
            parts = [(each, source) for each in operator.op.parts() if (source := runs.source(index, each)) is not None]
            if parts:
                yield (index, number), Note(parts=parts, name=runs.name(Region(Kind.OPERATOR, index, number)))


def _text(column: Column, cell: Cell) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    assert not isinstance(cell, Link)
    if column.unit == "share":
        return f"{100 * cell:.1f} %"
    return f"{cell:.3g} s" if column.unit == "seconds" else f"{cell:,.6g}"


def _entries(tables: Tables) -> list[int]:
    """The subgraphs that runs begin with."""
    return [each.region.subgraph for each in tables.runs.root.children.values()] or [0]


def _copies(tables: Tables) -> Part:
    """The copy plan, or that there is none."""
    rows = list(_edges(tables))
    return table_part(COPIES, rows, "Copy plan") if rows else text_part("No values cross the border of a subgraph.")


def _edges(tables: Tables) -> Iterator[list[Cell]]:
    for position, edges in groupby(tables.edges, lambda each: each.position):
        name = tables.runs.name(Region(Kind.OPERATOR, *position))
        for each in edges:
            yield [Link(f"@{each.subgraph}[{each.operator}] {name}", *position), each.edge, each.bytes,
                   "yes" if each.per_iteration else "", each.action.value, each.reason]
