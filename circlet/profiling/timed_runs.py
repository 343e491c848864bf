"""Runs that were timed, and the names of what was."""

from __future__ import annotations

from functools import cached_property

from circlet.runtime.exec.observe.recorder import Event, Recorder
from circlet.runtime.exec.observe.regions import Kind, Node, Region
from circlet.runtime.ir.model import Model, Operator
from circlet.runtime.ir.types import Shape
from circlet.runtime.records import dataclass
from circlet.session import Session

SHOWN_PARTS = 3
"""Of the operators that were merged into one, in its name."""


@dataclass(frozen=True, eq=False)
class Track:
    """What one thread ran."""

    thread: int
    recorder: Recorder

    @property
    def events(self) -> list[Event]:
        """Single regions, in the order in which they ended; the first `most_events` of them."""
        return self.recorder.events

    @property
    def dropped(self) -> int:
        """How many more there were."""
        return self.recorder.dropped


class TimedRuns:
    """Runs of a session that were timed. Times are in nanoseconds."""

    def __init__(self, model: Model, session: Session) -> None:
        """
        Args:
            model: as passes left it; regions are of its subgraphs and operators.
            session: that ran it.
        """
        self.model = model
        self.session = session
        self.tracks: list[Track] = []
        self.shapes: dict[int, tuple[Shape, ...]] = {}
        """The shapes of the inputs of the subgraphs that runs began with, those of the latest one."""

    def add(self, track: Track) -> None:
        """Adds what a thread ran."""
        self.tracks.append(track)

    @cached_property
    def root(self) -> Node:
        """All runs, of all threads."""
        found = Node(Region(Kind.RUN))
        for each in self.tracks:
            found.add(each.recorder.root)
        return found

    @property
    def walls(self) -> list[float]:
        """How long each run took, thread by thread, without what profiling itself took."""
        found: list[float] = []
        for each in self.tracks:
            recorder = each.recorder
            cost = recorder.native_cost / max(sum(recorder.readings), 1)
            found += [max(wall - cost * readings, 0.0)
                      for wall, readings in zip(recorder.walls, recorder.readings, strict=True)]
        return found

    def per_run(self, amount: float) -> float:
        """What the mean run has of what all have."""
        return amount / max(self.root.count, 1)

    def operator(self, region: Region) -> Operator:
        """The operator of a region."""
        return self.model.subgraphs[region.subgraph].operators[region.operator]

    def source(self, subgraph: int, operator: int) -> Operator | None:
        """The operator as the model had it before passes; None for what these put in."""
        found = self.session.model.subgraphs
        if subgraph < len(found) and operator < len(found[subgraph].operators):
            return found[subgraph].operators[operator]
        return None

    def name(self, region: Region) -> str:
        """The name of a region's operator; of one that others were merged into theirs, e.g. `FULLY_CONNECTED+ADD`."""
        operator = self.operator(region)
        parts = [self.source(region.subgraph, each) for each in operator.op.parts()]
        names = [each.name for each in parts if each is not None]
        more = [f"{len(names) - SHOWN_PARTS} more"] if len(names) > SHOWN_PARTS else []
        return "+".join([*names[:SHOWN_PARTS], *more]) or operator.name

    def label(self, node: Node) -> str:
        """A region with its name: `[3] WHILE`, `@4 body`, `run`."""
        kind = node.region.kind
        name = self.name(node.region) if kind is Kind.OPERATOR else self.role(node)
        return f"{node.region.text} {name}".rstrip()

    def path(self, node: Node) -> str:
        """The labels of the regions from the first subgraph to this one, e.g. `@0 / [3] WHILE / @4 body`."""
        above = node.parent
        if above is None or above.parent is None:
            return self.label(node)
        return f"{self.path(above)} / {self.label(node)}"

    def role(self, node: Node) -> str:
        """What the operator above a subgraph's node calls the subgraph: `body`, `then`; nothing for what runs begin
        with."""
        above = node.parent
        if node.region.kind is not Kind.SUBGRAPH or above is None or above.region.kind is not Kind.OPERATOR:
            return ""
        calls = self.operator(above.region).op.calls()
        return next((each.role for each in calls if each.subgraph == node.region.subgraph), "")
