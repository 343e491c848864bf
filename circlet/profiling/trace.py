"""Profiles as traces for Perfetto and chrome://tracing, in the Trace Event Format: a slice for each region, on a track
for each thread, and on one more track all runs together, a slice for each call path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from circlet.profiling.timed_runs import TimedRuns, Track
from circlet.runtime.exec.observe.recorder import Event
from circlet.runtime.exec.observe.regions import Kind, Node
from circlet.runtime.records import replace

Slice: TypeAlias = dict[str, Any]
"""One of the format's events."""
RUNS, TOGETHER = 1, 2
"""The processes of the trace: runs as they went, and all of them together."""


_DIFFERENCE = 1000
"""Nanoseconds up to which two clocks differ if nothing comes between their readings: a choice."""


def trace(runs: TimedRuns) -> dict[str, Any]:
    """A trace as an object for `json.dumps`. It holds the events that were kept, and says how many were not; without
    any, it has runs together alone."""
    begin = min((each.begin for track in runs.tracks for each in track.events), default=0.0)
    events = [_named("process_name", TOGETHER, 0, "all runs together, by call path"),
              *_together(runs, runs.root, 0.0)]
    threads = _threads(runs)
    if threads:
        events.append(_named("process_name", RUNS, 0, "runs"))
    for number, (name, found) in enumerate(threads.items(), 1):
        events += [_named("thread_name", RUNS, number, name),
                   *(_slice(runs, each, begin, number) for each in _nested(found))]
    dropped = sum(each.dropped for each in runs.tracks)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "regions_kept": sum(len(each.events) for each in runs.tracks), "regions_not_kept": dropped,
            "clock": "stands still while regions are recorded",
        },
    }


def _threads(runs: TimedRuns) -> dict[str, list[Event]]:
    """The events of each thread that runs, and of each that helps it, by name."""
    found: dict[str, list[Event]] = {}
    for track in runs.tracks:
        for each in sorted(track.events, key=lambda event: event.worker):
            name = f"thread {track.thread}, worker {each.worker}" if each.worker else _track_name(track)
            found.setdefault(name, []).append(each)
    return found


def _nested(events: Iterable[Event]) -> Iterator[Event]:
    """Regions before those within them, none beyond the end of those around it: compiled code and what calls it have
    clocks of their own, which differ by some nanoseconds."""
    around: list[Event] = []
    for each in sorted(events, key=lambda event: (event.begin, -event.end, _depth(event.node))):
        begin, end = each.begin, each.end
        while around and end - around[-1].end > around[-1].end - begin:
            begin = max(begin, around.pop().end)
        if around:
            begin = max(begin, around[-1].begin)
            end = around[-1].end if 0 < end - around[-1].end < _DIFFERENCE else end
        around.append(replace(each, begin=begin, end=max(begin, end)))
        yield around[-1]


def _depth(node: Node) -> int:
    """How many regions are around a region."""
    return 0 if node.parent is None else 1 + _depth(node.parent)


def _track_name(track: Track) -> str:
    name = f"thread {track.thread}"
    kept = len(track.events)
    return f"{name}: the first {kept:,} of {kept + track.dropped:,} regions" if track.dropped else name


def _named(what: str, process: int, thread: int, name: str) -> Slice:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _slice(runs: TimedRuns, event: Event, begin: float, thread: int) -> Slice:
    node = event.node
    name = runs.label(node)
    found: Slice = {"turn": event.turn} if event.turn >= 0 else {}
    since = _micro(event.begin - begin)
    return {"ph": "X", "name": name if event.turn < 0 else f"{name}, turn {event.turn}",
            "cat": node.region.kind.value, "pid": RUNS, "tid": thread, "ts": since,
            "dur": round(_micro(event.end - begin) - since, 3), "args": {**found, **_results(runs, node)}}


def _together(runs: TimedRuns, node: Node, begin: float) -> Iterator[Slice]:
    """A slice for a region, and in it those below one after another."""
    total, since = node.total, _micro(begin)
    found: Slice = {"count": node.count, "own_us": _micro(node.own), "copies": node.copies,
                    "copied_bytes": node.copied_bytes}
    if node.loop is not None:
        found["turns"] = node.loop.turns
    if node.sampled < 1:
        found["sampled"] = round(node.sampled, 6)
    yield {"ph": "X", "name": runs.label(node), "cat": node.region.kind.value, "pid": TOGETHER, "tid": 0,
           "ts": since, "dur": round(_micro(begin + total) - since, 3), "args": {**found, **_results(runs, node)}}
    for each in node.children.values():
        yield from _together(runs, each, begin)
        begin += each.total


def _results(runs: TimedRuns, node: Node) -> Slice:
    """The names of what an operator computes, or of a subgraph."""
    region = node.region
    if region.kind is Kind.SUBGRAPH:
        return {"subgraph": runs.model.subgraphs[region.subgraph].name}
    if region.kind is not Kind.OPERATOR:
        return {}
    tensors = runs.model.subgraphs[region.subgraph].tensors
    return {"results": [tensors[each].name for each in runs.operator(region).outputs]}


def _micro(time: float) -> float:
    return round(time / 1000, 3)
