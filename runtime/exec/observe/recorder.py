"""Times what one thread runs."""

from __future__ import annotations

import time
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import NamedTuple, TypeAlias

from circlet.runtime.exec.observe.listener import Listener, Observation
from circlet.runtime.exec.observe.regions import Kind, LoopTimes, Node, Region
from circlet.runtime.exec.step import Step
from circlet.runtime.records import dataclass

_RUN = Region(Kind.RUN)
MOST_FOUND = 64
"""Findings of compiled code that wait until it is known how long a tick is; a choice."""
AGAIN = 20_000_000
"""Nanoseconds from which on it is found out anew what is unseen, as processors do not always work at one speed: a
choice, the time of some scheduler's turns."""
Loops: TypeAlias = Mapping[tuple[int, int], int]
"""The operators that are loops, by subgraph and index, each with the subgraph that is its body."""


@dataclass(frozen=True)
class Event:
    """A region from its beginning to its end, in nanoseconds of the recorder's clock."""

    node: Node
    begin: float
    end: float
    turn: int = -1
    """Of the loop that the region is the body of, from 0; -1 for other regions."""
    worker: int = 0
    """The thread of a team that did a part of the region, from 1 on; 0 for the whole region."""


@dataclass(frozen=True)
class Called:
    """When compiled code was entered."""

    real: int
    clock: int
    """By the recorder's clock."""
    pauses: Sequence[tuple[int, int]]
    """How long that had stood still since, when the code went on behind each operator that it left to numpy."""

    def at(self, since: float) -> float:
        """The recorder's clock so many nanoseconds later."""
        passed = bisect(self.pauses, (self.real + since, inf))
        return self.clock + since - (self.pauses[passed - 1][1] if passed else 0)


@dataclass(frozen=True)
class Reading:
    """An event in a call of compiled code, whose clock is the processor's counter."""

    node: Node
    called: Called
    begin: int
    """Ticks since then."""
    end: int
    turn: int
    worker: int


class Unseen(NamedTuple):
    """Nanoseconds that the recorder takes and that are not between its own readings of the clock, but come before the
    first or after the last one."""

    run: int = 0
    inside: int = 0
    """Of a region, those in it."""
    outside: int = 0
    """Those in the one around it."""
    pause: int = 0
    call: int = 0
    """Of a call of compiled code."""


class Rate:
    """How long a tick of the counter is that compiled code reads."""

    def __init__(self, first: tuple[int, int] | None = None) -> None:
        """
        Args:
            first: an earlier nanosecond, and the value of the counter then.
        """
        self._first = first
        self._last = (0, 0)

    def note(self, time: int, tick: int) -> None:
        """The counter had a value at some nanosecond."""
        if self._first is None:
            self._first = time, tick
        self._last = time, tick

    @property
    def is_known(self) -> bool:
        return self._first is not None and self._last[1] > self._first[1] and self._last[0] > self._first[0]

    @property
    def nanoseconds(self) -> float:
        """Of a tick; 1 where two readings are still to be made."""
        if self._first is None or not self.is_known:
            return 1.0
        return (self._last[0] - self._first[0]) / (self._last[1] - self._first[1])


class Recorder(Listener):
    """Builds the tree of what a thread runs, as it runs it.

    Time is always that of one region, the one entered last. The clock stands still while the recorder works, so that
    what it takes is nobody's: `paused` says how much that was.
    """

    observation = Observation.TIMES

    def __init__(self, loops: Loops, most_events: int = 0, find_unseen: Callable[[], Unseen] | None = None,
                 reading: tuple[int, int] | None = None) -> None:
        """
        Args:
            loops: the operators of which each turn is timed.
            most_events: how many events are kept, but for those around them; later ones are counted only.
            find_unseen: finds out what is unseen; None: nothing is.
            reading: an earlier nanosecond, and the value then of the counter that compiled code reads; without one a
                single call does not tell how long a tick is.
        """
        self.root = Node(_RUN)
        self.top = self.root
        """The region that is timed now."""
        self.rate = Rate(reading)
        self.events: list[Event] = []
        self.dropped = 0
        """How many events there was no room for."""
        self.most_events = most_events
        self.walls: list[int] = []
        """Nanoseconds of each run."""
        self.readings: list[int] = []
        """How often compiled code read the counter in each run, which its wall still has."""
        self.paused = 0
        """Nanoseconds that the recorder itself has taken."""
        self.prepared = 0
        """Nanoseconds in which buffers were bound and code was compiled."""
        self._loops = loops
        self._last = 0
        self._begin = 0
        self._gathering: dict[int, Callable[[], None]] = {}
        self._found: list[Callable[[], None]] = []
        self._readings: list[Reading] = []
        self._kept_until = 0.0
        """When the last event that there was room for was; what began before is around it."""
        self._back: list[tuple[Node, int]] = []
        """The regions to come back to, each with how long the clock had stood still before."""
        self._pauses: list[tuple[int, int]] = []
        """As `Called.pauses`, for the code that runs, as long as there is room for events."""
        self._paused_inside = 0
        """How long the clock has stood still in its operators."""
        self.native_cost = 0.0
        """Nanoseconds that all readings in compiled code have taken."""
        self._read = 0
        """How often compiled code read the counter in the run in progress."""
        self._find_unseen = find_unseen
        self._unseen = Unseen()
        self._found_unseen = -AGAIN
        """When that was."""

    def pause(self, since: int) -> None:
        """What was done since a reading of the real clock was nobody's."""
        self.paused += time.perf_counter_ns() - since + self._unseen.pause

    def call(self, code: Callable[[], int], ready: Callable[[Recorder], None],
             done: Callable[[Recorder, int], int]) -> int:
        """Calls compiled code, and gives its status. The clock stands still for what makes the code ready, and for
        what is done with its times: that is told when the code was called, by the real clock, and tells how often it
        read the counter."""
        real = time.perf_counter_ns()
        ready(self)
        outer = self._pauses, self._paused_inside
        self._pauses, self._paused_inside = [], 0
        paused = self.paused + self._unseen.call - real
        called = time.perf_counter_ns()
        self.paused = paused + called
        status = code()
        real = time.perf_counter_ns()
        self._read += done(self, called)
        self._pauses, self._paused_inside = outer
        self.paused += time.perf_counter_ns() - real
        return status

    def called(self, real: int) -> Called:
        """When the code that has just run was entered, of which is told when that was by the real clock."""
        return Called(real, real - self.paused + self._paused_inside, self._pauses)

    def start(self) -> None:
        """A run begins."""
        if self._find_unseen is not None and time.perf_counter_ns() - self._found_unseen >= AGAIN:
            self._unseen = self._find_unseen()
            self._found_unseen = time.perf_counter_ns()
        self.top = self.root
        self._back.clear()
        self.root.count += 1
        self._read = 0
        last, paused = self._last, self.paused
        self.paused = paused + self._unseen.run
        now = time.perf_counter_ns() - paused
        self._begin = self._last = now if now > last else last

    def finish(self) -> None:
        """The run has ended, or failed."""
        real = time.perf_counter_ns()
        now = max(real - self.paused, self._last)
        self.top.own += now - self._last
        self.top, self._last = self.root, now
        self.walls.append(now - self._begin)
        self.readings.append(self._read)
        if self.most_events:
            self.keep(Event(self.root, self._begin, now))

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """The clock stands still while buffers are bound and code is compiled for this run and later ones."""
        real = time.perf_counter_ns()
        try:
            yield
        finally:
            self.prepared += time.perf_counter_ns() - real
            self.pause(real)

    def gather(self) -> None:
        """Takes what compiled code has found since it was last asked."""
        for each in self._gathering.values():
            each()
        self._settle()
        rate = self.rate.nanoseconds
        self.events += [Event(each.node, each.called.at(each.begin * rate), each.called.at(each.end * rate), each.turn,
                              each.worker)
                        for each in self._readings]
        self._readings.clear()

    def _settle(self) -> None:
        for each in self._found:
            each()
        self._found.clear()

    def found(self, settle: Callable[[], None]) -> None:
        """Takes what adds to the tree what compiled code has found, for when it is known how long a tick is."""
        self._found.append(settle)
        if len(self._found) > MOST_FOUND and self.rate.is_known:
            self._settle()

    @property
    def _has_room(self) -> bool:
        return len(self.events) + len(self._readings) < self.most_events

    def read(self, reading: Reading) -> None:
        """Keeps an event, if there is room."""
        if self._has_room:
            self._readings.append(reading)
            self._kept_until = reading.called.clock + 1
        else:
            self.dropped += 1

    def gathers(self, key: int, take: Callable[[], None]) -> None:
        """What to ask for what compiled code finds."""
        self._gathering[key] = take

    def will_invoke(self, subgraph: int) -> None:
        self.enter(Region(Kind.SUBGRAPH, subgraph))

    def did_invoke(self, subgraph: int) -> None:
        self.leave()

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        self.top.copies += 1
        self.top.copied_bytes += size

    def perform(self, step: Step, region: Region, size: int | None = None) -> None:
        """Does what is a region; where a size is given, it copies so many bytes."""
        self._enter(time.perf_counter_ns(), self.top, region)
        step()
        real = time.perf_counter_ns()
        if size is not None:
            self.did_copy(region.subgraph, region.operator, "", size)
        self._end(real, self.top.parent)

    def enter(self, region: Region) -> None:
        """What follows is a region below the one that was entered last."""
        self._enter(time.perf_counter_ns(), self.top, region)

    def _enter(self, real: int, above: Node, region: Region) -> None:
        self.paused += self._unseen.outside
        before = self._last
        now = max(real - self.paused, before)
        self.top.own += now - before
        node = above.children.get(region) or self._made(above, region)
        node.count += 1
        node.began = node.turn_began = self._last = now
        node.turn = 0
        self.top = node
        self.paused += time.perf_counter_ns() - real

    def leave(self) -> None:
        """The region that was entered last has ended."""
        self._end(time.perf_counter_ns(), self.top.parent)

    def _end(self, real: int, back: Node | None) -> None:
        assert back is not None, "what ends has begun"
        self.paused += self._unseen.inside
        now = max(real - self.paused, self._last)
        node = self.top
        node.own += now - self._last
        loop = back.loop
        turn = -1 if loop is None else self._turned(back, loop, node, now)
        if node.loop is not None:
            node.loop.activated(node.turn)
        if self.most_events:
            self.keep(Event(node, node.began, now, turn))
        self.top, self._last = back, now
        self.paused += time.perf_counter_ns() - real

    def visit(self, path: Sequence[Region]) -> None:
        """What follows is a region somewhere below the one that was entered last, until `come_back`."""
        real = time.perf_counter_ns()
        self._back.append((self.top, self.paused))
        for each in path[:-1]:
            self.top = self.top.child(each)
        above, self.top = self.top, self._back[-1][0]
        self._enter(real, above, path[-1])

    def come_back(self) -> None:
        """It has ended."""
        back, paused = self._back.pop()
        real = time.perf_counter_ns()
        self._end(real, back)
        self._paused_inside += self.paused - paused
        if self._has_room:
            self._pauses.append((real, self._paused_inside))

    def keep(self, event: Event) -> None:
        """Keeps an event, if there is room, or if it is around one that is kept."""
        if self._has_room:
            self._kept_until = event.end
        if self._has_room or event.begin < self._kept_until:
            self.events.append(event)
        else:
            self.dropped += 1

    def _made(self, top: Node, region: Region) -> Node:
        node = top.child(region)
        if region.kind is Kind.OPERATOR and (region.subgraph, region.operator) in self._loops:
            node.loop = LoopTimes()
        return node

    def _turned(self, above: Node, loop: LoopTimes, node: Node, now: int) -> int:
        """The number of the turn that ends with a region, if that is the body of a loop, else -1."""
        if node.region.subgraph != self._loops[above.region.subgraph, above.region.operator]:
            return -1
        turn = above.turn
        loop.turned(now - above.turn_began, turn == 0)
        above.turn, above.turn_began = turn + 1, now
        return turn
