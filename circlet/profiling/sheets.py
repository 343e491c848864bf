"""Profiles as tables of text, what matters most first: for terminals, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from circlet.profiling.tables import LoopRow, OperatorRow, SubgraphRow, Tables
from circlet.profiling.timed_runs import TimedRuns
from circlet.runtime.exec.observe.regions import Kind, Node
from circlet.runtime.records import dataclass

MOST_OPERATORS = 12
MOST_LOOPS = 12
MOST_SUBGRAPHS = 20
SHOWN_RESULTS = 2
LONGEST_NAME = 40
LEAST_SHARE = 0.01
"""Of the time of a run; regions of the call tree with less are told of in one line together. A choice."""
RESIDUE = 0.01
"""Nanoseconds; less is what rounding leaves."""
UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))


@dataclass(frozen=True)
class Sheet:
    """A table of text. Cells of a column are equally wide, so that numbers end below each other."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""

    @property
    def text(self) -> str:
        """Its lines."""
        cells = [self.headings, *self.rows]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.headings))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                 for row in cells]
        return "\n".join([f"{self.title}:", *lines, *([self.note] if self.note else [])])


def sheets(tables: Tables) -> list[Sheet]:
    """The call tree, then loops, subgraphs and operators; each as far as it matters. Times are those of one run, the
    mean of all."""
    found = [_tree(tables.runs)]
    if tables.loops:
        found.append(_loops(tables))
    return [*found, _subgraphs(tables), _operators(tables)]


def summary(runs: TimedRuns) -> str:
    """How many runs there were, and how long they took."""
    walls = runs.walls
    if not walls:
        return "no runs"
    count = f"{len(walls):,} run{'' if len(walls) == 1 else 's'}"
    if len(walls) == 1:
        return f"{count} of {time_text(walls[0])}"
    return f"{count}: median {time_text(median(walls))}, from {time_text(min(walls))} to {time_text(max(walls))}"


def time_text(time: float) -> str:
    """Nanoseconds in three digits and a fitting unit."""
    for unit, scale in UNITS:
        if time >= scale:
            return f"{time / scale:.3g} {unit}" if time < 999.5 * scale else f"{time / scale:,.0f} {unit}"
    return f"{time if time > RESIDUE else 0:.3g} ns"


def size_text(size: float) -> str:
    """Bytes in three digits and a fitting unit."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"


def short(name: str) -> str:
    """A name from a file with characters that would confuse a terminal as escapes, and of a long one the end."""
    text = name if name.isprintable() else repr(name)
    return text if len(text) <= LONGEST_NAME else f"...{text[3 - LONGEST_NAME:]}"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:.1f} %"


def _time(runs: TimedRuns, time: float) -> str:
    return time_text(runs.per_run(time))


def _per_run(count: float, runs: TimedRuns) -> str:
    each = runs.per_run(count)
    return f"{each:,.0f}" if each == int(each) else f"{each:,.2f}"


def _sheet(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str],
           note: str = "") -> Sheet:
    """A table whose columns stand to the right, but for some."""
    cells = [tuple(headings), *map(tuple, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    aligned = [tuple(cell if heading in left else cell.rjust(width)
                     for cell, heading, width in zip(row, headings, widths, strict=True)) for row in cells]
    return Sheet(title, aligned[0], aligned[1:], note)


def _tree(runs: TimedRuns) -> Sheet:
    whole = runs.root.total
    rows = [(_share(total, whole), _time(runs, total), _time(runs, own), _per_run(count, runs), label)
            for total, own, count, label in _branches(runs, runs.root, 0)]
    return _sheet("where the time goes", ("share", "time", "own", "count", "what was run"), rows, ("what was run",),
                  sampled_note(runs))


def sampled_note(runs: TimedRuns) -> str:
    """What is to be said of times that are of a sample."""
    sampled = [each for each in runs.root.walk() if each.sampled < 1]
    if not sampled:
        return ""
    return "times of loops with short turns are of a sample of these; counts are exact"


def _branches(runs: TimedRuns, node: Node, depth: int) -> Iterator[tuple[float, float, float, str]]:
    yield node.total, node.own, node.count, "  " * depth + described(runs, node)
    below = sorted(node.children.values(), key=lambda each: -each.total)
    shown = [each for each in below if each.total >= LEAST_SHARE * runs.root.total]
    for each in shown:
        yield from _branches(runs, each, depth + 1)
    rest = below[len(shown):]
    if rest:
        label = f"{len(rest)} others" if shown else f"{len(rest)} below"
        yield (sum(each.total for each in rest), sum(each.total for each in rest), sum(each.count for each in rest),
               "  " * (depth + 1) + label)


def described(runs: TimedRuns, node: Node) -> str:
    """A region for the call tree: `@4 body`, `[3] WHILE`, `copies`."""
    region = node.region
    if region.kind is Kind.SUBGRAPH:
        name = "" if runs.role(node) else short(runs.model.subgraphs[region.subgraph].name)
        return f"{runs.label(node)} {name}".rstrip()
    if region.kind is Kind.RUN:
        return "run (own: inputs in, results out, memory)"
    return runs.label(node)


def _loops(tables: Tables) -> Sheet:
    rows = [_loop(tables.runs, each) for each in tables.loops[:MOST_LOOPS]]
    samples = [f"[{row.node.region.operator}] at {row.path}: {row.times.sample_text}"
               for row in tables.loops[:MOST_LOOPS] if row.times is not None and row.times.sample_text]
    return _sheet("loops", ("share", "time", "begun", "turns", "turn", "p10", "median", "p90", "longest", "first",
                            "condition", "loop"), rows, ("loop", "turns"),
                  "\n".join([*samples, *_rest(len(tables.loops), MOST_LOOPS, "loops")]))


def _loop(runs: TimedRuns, row: LoopRow) -> tuple[str, ...]:
    turns = f"{row.most:,}" if row.fewest == row.most else f"{row.fewest:,} / {row.typical:,g} / {row.most:,}"
    times = row.times
    spread = ("",) * 6 if times is None else tuple(
        "" if each is None else time_text(each)
        for each in (times.mean, times.p10, times.median, times.p90, times.longest, times.first))
    return (_share(row.total, runs.root.total), _time(runs, row.total), _per_run(row.activations, runs),
            turns, *spread, _share(row.condition, row.total), row.path)


def _subgraphs(tables: Tables) -> Sheet:
    runs = tables.runs
    rows = [_subgraph(runs, each) for each in tables.subgraphs[:MOST_SUBGRAPHS]]
    return _sheet("subgraphs", ("count", "time", "own", "overhead", "copies", "bytes", "elided", "bytes elided",
                                "arena", "subgraph"), rows, ("subgraph",),
                  "\n".join(_rest(len(tables.subgraphs), MOST_SUBGRAPHS, "subgraphs")))


def _subgraph(runs: TimedRuns, row: SubgraphRow) -> tuple[str, ...]:
    elided = ("?", "?") if row.elided is None else (_per_run(row.elided.values, runs),
                                                    size_text(runs.per_run(row.elided.size)))
    return (_per_run(row.invocations, runs), _time(runs, row.total), _time(runs, row.own),
            _time(runs, row.overhead), _per_run(row.copies, runs), size_text(runs.per_run(row.copied_bytes)), *elided,
            "?" if row.arena is None else size_text(row.arena),
            f"@{row.index} {short(row.name)}")


def _operators(tables: Tables) -> Sheet:
    runs, peak = tables.runs, tables.peak
    compared = () if peak is None else ("of peak",)
    rows = [_operator(runs, each, peak is not None) for each in tables.operators[:MOST_OPERATORS]]
    notes = _rest(len(tables.operators), MOST_OPERATORS, "operators")
    if peak is not None:
        notes.append(f"peak: {peak.text}")
    return _sheet("operators by own time", ("share", "own", "count", "each", *compared, "computed by", "operator",
                                            "result"), rows, ("computed by", "operator", "result"), "\n".join(notes))


def _operator(runs: TimedRuns, row: OperatorRow, is_compared: bool) -> tuple[str, ...]:
    compared = ("" if row.of_peak is None else f"{100 * row.of_peak:,.0f} %",) if is_compared else ()
    return (_share(row.own, runs.root.total), _time(runs, row.own), _per_run(row.count, runs),
            time_text(row.own / max(row.count, 1)), *compared, row.backend, row.place,
            ", ".join(map(short, row.outputs[:SHOWN_RESULTS])))


def _rest(count: int, shown: int, noun: str) -> list[str]:
    return [f"and {count - shown:,} more {noun}"] if count > shown else []
