"""Buffers that change places in each turn of a loop, so that values need not be copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import TypeAlias

Move: TypeAlias = "tuple[int, int]"
"""A copy: the buffer that is written, the buffer that is read."""


@dataclass(frozen=True)
class Cycle:
    """Buffers that take each other's places."""

    buffers: tuple[int, ...]
    """What lay in the place of a buffer lies in that of the next one a turn later; after the last comes the first."""
    room: int
    """A buffer for nothing that must be kept when the loop ends: the spare one of the cycle, or one beside it."""

    def buffer(self, number: int, turns: int) -> int:
        """Where the value of the `number`-th place is after so many turns."""
        return self.buffers[(number + turns) % len(self.buffers)]


@dataclass(frozen=True)
class Rotation:
    """The buffers of a loop. Carried value k begins and ends in buffer k; spare buffers come after those."""

    values: int
    """How many values are carried."""
    spares: tuple[int, ...] = ()
    """For each spare buffer a carried value of the same type and size."""
    cycles: tuple[Cycle, ...] = ()

    @property
    def period(self) -> int:
        """After how many turns all values are again where they were."""
        return lcm(*(len(each.buffers) for each in self.cycles))

    @cached_property
    def _places(self) -> Mapping[int, tuple[Cycle, int]]:
        return {buffer: (cycle, number) for cycle in self.cycles for number, buffer in enumerate(cycle.buffers)}

    def buffer(self, value: int, turns: int) -> int:
        """The buffer that a carried value is in after so many turns."""
        if value not in self._places:
            return value
        cycle, number = self._places[value]
        return cycle.buffer(number, turns)

    def cycle(self, value: int) -> Cycle | None:
        """The cycle that a carried value goes through; None where it stays in its buffer."""
        found = self._places.get(value)
        return None if found is None else found[0]

    def moves(self, cycle: Cycle, turns: int) -> list[Move]:
        """The copies, in order, that bring the values of a cycle to their own buffers after so many turns."""
        wanted = {value: cycle.buffer(number, turns) for number, value in enumerate(cycle.buffers)
                  if value < self.values}
        return _in_order({target: source for target, source in wanted.items() if target != source}, cycle.room)


def rotation(after: Sequence[int], spares: Sequence[int]) -> Rotation:
    """
    Args:
        after: for each carried value the buffer that its next value is made in; each buffer once at the most.
        spares: for each buffer behind those of the values, one of the values that lie in it.
    """
    count = len(after)
    before = {buffer: value for value, buffer in enumerate(after)}
    rooms = list(spares)
    cycles: list[Cycle] = []
    seen: set[int] = set()
    for start in [*(k for k in range(count) if k not in before), *range(count)]:
        buffers: list[int] = []
        at = start
        while at not in seen:
            seen.add(at)
            buffers.append(at)
            at = after[at] if at < count else start
        if len(buffers) > 1:
            room = next((each for each in buffers if each >= count), None)
            if room is None:
                room = count + len(rooms)
                rooms.append(start)
            cycles.append(Cycle(tuple(buffers), room))
    return Rotation(count, tuple(rooms), tuple(cycles))


def _in_order(pending: dict[int, int], room: int) -> list[Move]:
    """Copies of which each may overwrite what no later one reads; where they go in circles, `room` helps."""
    moves: list[Move] = []
    while pending:
        read = set(pending.values())
        target = next((each for each in pending if each not in read), None)
        if target is not None:
            moves.append((target, pending.pop(target)))
            continue
        target = next(iter(pending))
        moves.append((room, target))
        pending = {each: room if source == target else source for each, source in pending.items()}
    return moves
