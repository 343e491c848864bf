"""What was found out of where the time of runs went."""

from __future__ import annotations

from functools import cached_property

from circlet.runtime.exec.observe.recorder import Event, Recorder
from circlet.runtime.exec.observe.regions import Kind, Node, Region
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.model import Model, Operator
from circlet.runtime.records import dataclass


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


class Profile:
    """Where the time of runs went. Times are in nanoseconds."""

    def __init__(self, model: Model, session: Session) -> None:
        """
        Args:
            model: as passes left it; regions are of its subgraphs and operators.
            session: that ran it.
        """
        self.model = model
        self.session = session
        self.tracks: list[Track] = []

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
    def walls(self) -> list[int]:
        """How long each run took, thread by thread, without what profiling itself took."""
        return [wall for each in self.tracks for wall in each.recorder.walls]

    def operator(self, region: Region) -> Operator:
        """The operator of a region."""
        return self.model.subgraphs[region.subgraph].operators[region.operator]

    def role(self, node: Node) -> str:
        """What the operator above a subgraph's node calls the subgraph: `body`, `then`; nothing for what runs begin
        with."""
        above = node.parent
        if node.region.kind is not Kind.SUBGRAPH or above is None or above.region.kind is not Kind.OPERATOR:
            return ""
        calls = self.operator(above.region).op.calls()
        return next((each.role for each in calls if each.subgraph == node.region.subgraph), "")
