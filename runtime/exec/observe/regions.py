"""Where the time of a run goes: a tree of what was invoked, by call path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

MOST_ACTIVATIONS = 1024
"""How many activations of a loop are kept each with its number of turns, for their median; a choice."""
OCTAVE = 4
"""Classes of durations between one power of two and the next, so that each is 13 to 25 % wide."""


class Kind(Enum):
    """What is timed."""

    RUN = "run"
    SUBGRAPH = "subgraph"
    OPERATOR = "operator"
    COPIES = "copies"
    """What an operator that invokes subgraphs copies at their borders."""

    __hash__ = object.__hash__


class Region(NamedTuple):
    """What is timed at one place of a call path; the place of a node among those of its parent."""

    kind: Kind
    subgraph: int = -1
    operator: int = -1

    @property
    def text(self) -> str:
        """`@4`, `[3]`, `copies` or `run`."""
        if self.kind is Kind.SUBGRAPH:
            return f"@{self.subgraph}"
        return f"[{self.operator}]" if self.kind is Kind.OPERATOR else self.kind.value


def duration_class(time: int) -> int:
    """The class of a duration, a positive integer: numbers of classes grow with durations."""
    exponent = time.bit_length() - 1
    return OCTAVE * exponent + ((time << 2 >> exponent) & (OCTAVE - 1)) if time > 0 else 0


def duration_of_class(number: float) -> float:
    """The least duration of a class; between classes, of a fraction of one."""
    exponent, part = divmod(number, OCTAVE)
    return float(2.0**exponent * (1 + part / OCTAVE))


class LoopTimes:
    """The turns of a loop at one call path. Times are in nanoseconds."""

    def __init__(self) -> None:
        self.activations = 0
        """How often the loop was begun."""
        self.turns = 0
        """In all activations."""
        self.counts: list[int] = []
        """The turns of each activation, of the first `MOST_ACTIVATIONS`."""
        self.fewest: int | None = None
        self.most = 0
        self.timed = 0
        """How many turns were timed; where they are fewer than `turns`, those are a sample."""
        self.total = 0.0
        """Of the turns that were timed."""
        self.is_short = False
        """Whether turns were too short to be timed each: `total` is then the loop's time, shared out equally, and
        there is nothing to say of first turns and of classes."""
        self.first_timed = 0
        self.first_total = 0.0
        """Of those among them that were the first of their activation."""
        self.classes: Counter[int] = Counter()
        """How many of the timed turns took how long, by `duration_class`."""

    def activated(self, turns: int) -> None:
        """The loop has ended after so many turns."""
        self.activations += 1
        self.turns += turns
        self.fewest = turns if self.fewest is None else min(self.fewest, turns)
        self.most = max(self.most, turns)
        if len(self.counts) < MOST_ACTIVATIONS:
            self.counts.append(turns)

    def turned(self, time: int, is_first: bool) -> None:
        """A turn took so long."""
        self.timed += 1
        self.total += time
        self.classes[duration_class(time)] += 1
        if is_first:
            self.first_timed += 1
            self.first_total += time

    def add(self, other: LoopTimes) -> None:
        """Adds what another thread found."""
        self.activations += other.activations
        self.turns += other.turns
        self.counts = (self.counts + other.counts)[:MOST_ACTIVATIONS]
        found = [each for each in (self.fewest, other.fewest) if each is not None]
        self.fewest, self.most = min(found, default=None), max(self.most, other.most)
        self.timed += other.timed
        self.total += other.total
        self.is_short = self.is_short or other.is_short
        self.first_timed += other.first_timed
        self.first_total += other.first_total
        self.classes.update(other.classes)


class Node:
    """A region at one call path, while it is timed and after."""

    def __init__(self, region: Region, parent: Node | None = None) -> None:
        self.region = region
        self.parent = parent
        self.children: dict[Region, Node] = {}
        self.count = 0
        """How often it was entered; exact, also where times are of a sample."""
        self.own = 0.0
        """Nanoseconds spent in it and in nothing below it."""
        self.copies = 0
        self.copied_bytes = 0
        self.is_native = False
        """Whether compiled code timed it."""
        self.sampled = 1.0
        """The share of its invocations that were timed; its time is that of those, multiplied."""
        self.loop: LoopTimes | None = None
        """For operators that are loops."""
        self.turn = 0
        """Turns that the activation in progress has begun, for operators that are loops."""
        self.began = 0
        """When it was entered last, and for operators that are loops when the turn in progress was."""
        self.turn_began = 0

    def child(self, region: Region) -> Node:
        """The node of a region below this one, made when it is first asked for."""
        found = self.children.get(region)
        if found is None:
            found = self.children[region] = Node(region, self)
        return found

    @property
    def total(self) -> float:
        """Nanoseconds spent in it and below it."""
        return self.own + sum(each.total for each in self.children.values())

    @property
    def path(self) -> tuple[Region, ...]:
        """The regions from the run to this one."""
        return (*(() if self.parent is None else self.parent.path), self.region)

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each before those below it."""
        yield self
        for each in self.children.values():
            yield from each.walk()

    def time(self, own: float, count: int, sampled: float) -> None:
        """Adds what compiled code found: nanoseconds, how often it was entered, the share of that which was timed."""
        self.sampled = (self.sampled * self.count + sampled * count) / (self.count + count)
        self.count += count
        self.own += own
        self.is_native = True

    def add(self, other: Node) -> None:
        """Adds what another thread found of the same region."""
        whole = self.count + other.count
        if whole:
            self.sampled = (self.sampled * self.count + other.sampled * other.count) / whole
        self.count = whole
        self.own += other.own
        self.copies += other.copies
        self.copied_bytes += other.copied_bytes
        self.is_native = self.is_native or other.is_native
        if other.loop is not None:
            self.loop = self.loop or LoopTimes()
            self.loop.add(other.loop)
        for each in other.children.values():
            self.child(each.region).add(each)
