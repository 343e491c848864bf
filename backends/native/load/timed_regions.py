"""From the readings of a function's regions to the nodes of a call tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from circlet.backends.native.parts import TimedRegion
from circlet.backends.native.timed import (
    BYTES,
    CLASSES,
    COUNT,
    COUNTS,
    EMPTY,
    FEWEST,
    FIRST,
    FIRST_REGION,
    FIRST_TICKS,
    LOOP,
    MOST_TURNS,
    TICKS,
    TIMED,
    TURN_TICKS,
    TURNS_TIMED,
)
from circlet.runtime.exec.observe.recorder import Called, Reading, Recorder
from circlet.runtime.exec.observe.regions import (
    MOST_ACTIVATIONS,
    Kind,
    LoopTimes,
    Node,
    Region,
    duration_class,
    duration_of_class,
)

Words = NDArray[np.int64]


class TimedRegions:
    """The regions of a function, below whatever node invokes it."""

    def __init__(self, regions: Sequence[TimedRegion]) -> None:
        self._regions = regions
        self._kinds = [None if k < FIRST_REGION else Region(Kind(each.kind), each.subgraph, each.operator)
                       for k, each in enumerate(regions)]
        self._inner: list[list[int]] = [[] for _ in regions]
        self._outermost: list[int] = []
        for number, each in enumerate(regions[FIRST_REGION:], FIRST_REGION):
            (self._inner[each.parent] if each.parent >= 0 else self._outermost).append(number)

    def path(self, number: int) -> tuple[Region, ...]:
        """The regions from the outermost one to a region."""
        region = self._kinds[number]
        assert region is not None, "only regions of the model have a path"
        parent = self._regions[number].parent
        return (*(() if parent < 0 else self.path(parent)), region)

    def settle(self, node: Node, recorder: Recorder, calls: int, words: Words, loops: Words) -> None:
        """Adds what was found in calls of the function to the nodes below the one that called it, and takes the time
        from that, which has it until then.

        Times of regions that were timed in a sample are multiplied, and made to fit into those of the regions around.

        Args:
            node: that called.
            recorder: that the node is of.
            calls: how many there were.
            words: (regions, words of a region).
            loops: (loops, words of a loop).
        """
        found = _Found(self._regions, self._inner, self._outermost, calls, words, loops)
        rate = recorder.rate.nanoseconds
        nodes: dict[int, Node] = {}
        for number, each in enumerate(self._regions[FIRST_REGION:], FIRST_REGION):
            region = self._kinds[number]
            assert region is not None, "all but the first two are regions of the model"
            if not found.counts[number]:
                continue
            below = nodes[number] = (nodes[each.parent] if each.parent >= 0 else node).child(region)
            if not each.is_host:
                below.time(found.own[number] * rate, found.counts[number], found.share(number))
            if region.kind is Kind.COPIES:
                below.copies += found.counts[number]
                below.copied_bytes += int(words[number, BYTES])
            if each.loop >= 0 and not each.is_host:
                below.loop = below.loop or LoopTimes()
                below.loop.add(found.loop(number, self._body(number), loops[each.loop], rate))
        left = max(node.own - found.all_own * rate, 0.0)
        cost = min(found.all_readings * rate, left)
        node.own = left - cost
        recorder.native_cost += cost

    def _body(self, number: int) -> int:
        """The region of a loop's body, which is the first that was made inside of it."""
        return next(each for each in self._inner[number] if self._regions[each].kind == Kind.SUBGRAPH.value)

    def keep(self, node: Node, recorder: Recorder, called: Called, entered: int,
             events: Sequence[Sequence[int]]) -> None:
        """Keeps single regions of a call.

        Args:
            node: that called.
            recorder: that keeps them.
            called: when the function was entered.
            entered: the counter's value then.
            events: region, begin, end, turn and thread of each; see `timed.EVENT`.
        """
        nodes: dict[int, Node] = {}
        for number, start, end, turn, worker in events:
            if number < FIRST_REGION or self._regions[number].is_host:
                continue
            if number not in nodes:
                nodes[number] = _descend(node, self.path(number))
            recorder.read(Reading(nodes[number], called, start - entered, end - entered, turn, worker))


def _descend(node: Node, path: Sequence[Region]) -> Node:
    for each in path:
        node = node.child(each)
    return node


class _Found:
    """What the readings come to, in ticks."""

    def __init__(self, regions: Sequence[TimedRegion], inner: Sequence[Sequence[int]], outermost: Sequence[int],
                 calls: int, words: Words, loops: Words) -> None:
        self._regions = regions
        self._inner = inner
        self._loops = loops
        self._timed: list[int] = words[:, TIMED].tolist()
        self._ticks: list[int] = words[:, TICKS].tolist()
        self._cost: float = self._ticks[EMPTY] / max(self._timed[EMPTY], 1)
        """Of a reading."""
        self.counts: list[int] = words[:, COUNT].tolist()
        for number, each in enumerate(regions):
            if number >= FIRST_REGION and each.kind == Kind.OPERATOR.value:
                self.counts[number] = calls if each.parent < 0 else self.counts[each.parent]
        self._readings = list(self._timed)
        for number in range(len(regions) - 1, FIRST_REGION - 1, -1):
            if regions[number].parent >= 0:
                self._readings[regions[number].parent] += self._readings[number]
        self.all_readings = self._cost * sum(self._timed)
        self._wholes = [0.0] * len(regions)
        """What each region took with all below it."""
        self.own = self._shared_out(outermost)
        self.all_own = sum(own for own, each in zip(self.own, regions, strict=True) if not each.is_host)

    def share(self, number: int) -> float:
        """The share of a region's invocations that were timed."""
        return min(self._timed[number] / self.counts[number], 1.0)

    def _whole(self, number: int) -> float:
        """What a region took as often as it was entered, as far as can be told."""
        if not self._timed[number]:
            return 0.0
        ticks: float = max(self._ticks[number] - self._cost * self._readings[number], 0.0)
        return ticks * self.counts[number] / self._timed[number]

    def _shared_out(self, outermost: Sequence[int]) -> list[float]:
        """What each region took itself."""
        own = [0.0] * len(self._timed)
        left = [(number, self._whole(number)) for number in outermost]
        while left:
            number, whole = left.pop()
            self._wholes[number] = whole
            inner = [(each, self._whole(each)) for each in self._inner[number]]
            total = sum(each for _, each in inner)
            between = self._between(number)
            fits = whole / (total + (between or 0.0)) if total else 1.0
            fits = fits if between is not None else min(1.0, fits)
            left += [(each, time * fits) for each, time in inner]
            own[number] = max(whole - total * fits, 0.0)
        return own

    def _between(self, number: int) -> float | None:
        """What the turns of a loop took beside what they invoke, where a sample of them was timed that tells; all
        turns together then take what the loop does. None for other regions."""
        if self._regions[number].loop < 0:
            return None
        words = self._loops[self._regions[number].loop]
        timed, inner = int(words[TURNS_TIMED]), self._inner[number]
        turns = max(self.counts[each] for each in inner)
        taken = float(words[TURN_TICKS]) - self._cost * sum(self._readings[each] for each in inner)
        if not 0 < timed < turns or self._is_short(taken, inner):
            return None
        left: float = taken - sum(max(self._ticks[each] - self._cost * self._readings[each], 0.0) for each in inner)
        return max(left, 0.0) * turns / timed

    def _is_short(self, taken: float, inner: Sequence[int]) -> bool:
        """Whether turns that were timed took less than their readings."""
        cost: float = self._cost * sum(self._readings[each] for each in inner)
        return taken < cost

    def loop(self, number: int, body: int, words: Words, rate: float) -> LoopTimes:
        """The turns of a loop, in nanoseconds."""
        found = LoopTimes()
        found.activations = self.counts[number]
        found.turns = self.counts[body]
        kept = min(int(words[COUNT]), MOST_ACTIVATIONS)
        found.counts = words[COUNTS:COUNTS + kept].tolist()
        found.fewest, found.most = int(words[FEWEST]), int(words[MOST_TURNS])
        found.timed, found.first_timed = int(words[TURNS_TIMED]), int(words[FIRST])
        readings = sum(self._readings[each] for each in self._inner[number])
        cost = self._cost * readings / max(found.timed, 1)
        total = float(words[TURN_TICKS]) - cost * found.timed
        if self._is_short(total, self._inner[number]):
            found.is_short = True
            found.total = self._wholes[number] / max(found.turns, 1) * found.timed * rate
            return found
        found.total = total * rate
        found.first_total = max(float(words[FIRST_TICKS]) - cost * found.first_timed, 0.0) * rate
        found.classes = _classes(words[CLASSES:LOOP], cost, rate)
        return found


def _classes(words: Words, cost: float, rate: float) -> Counter[int]:
    """Classes of nanoseconds from those of ticks, without what readings took."""
    found: Counter[int] = Counter()
    for number in np.flatnonzero(words).tolist():
        time = max(duration_of_class(number + 0.5) - cost, 1.0) * rate
        found[duration_class(max(int(time), 1))] += int(words[number])
    return found
