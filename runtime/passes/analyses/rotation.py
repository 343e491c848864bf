"""Buffers that change places in each turn of a loop, so that values need not be copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from math import lcm
from typing import TypeAlias

from circlet.runtime.records import dataclass

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

    @property
    def buffers(self) -> int:
        """How many buffers there are."""
        return self.values + len(self.spares)

    def places(self, turns: int) -> tuple[int, ...]:
        """The buffer of each carried value after so many turns."""
        return tuple(self.buffer(k, turns) for k in range(self.values))

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

    def moved(self, move: Move) -> int:
        """The value that a copy brings to its own buffer or, first, away from another value's."""
        target, source = move
        return target if target < self.values else source

    def moves(self, cycle: Cycle, places: Sequence[int], unread: AbstractSet[int] = frozenset()) -> list[Move]:
        """The copies, in order, that bring the values of a cycle to their own buffers.

        Args:
            cycle: of the rotation.
            places: where each carried value is; numbers behind those of the buffers are of memory that is only read.
            unread: values that may be anywhere.
        """
        wanted = {value: places[value] for value in cycle.buffers if value < self.values and value not in unread}
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
