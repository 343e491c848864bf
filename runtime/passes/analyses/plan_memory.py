"""Places buffers in one arena so that buffers that live at the same time do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from circlet.runtime.ir.length import at_hand, bound, larger
from circlet.runtime.ir.types import ALIGNMENT
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Interval:
    """A buffer and when it is in use, both ends included."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Arena:
    """Where each buffer lies."""

    offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Place:
    """Where a storage class lies."""

    offset: int
    size: int


def place_classes(aliases: Aliases, roots: Iterable[int], outlive: bool = False) -> tuple[Mapping[int, Place], int]:
    """Where storage classes lie in one arena, from the operator that first writes each to the last that reads it.

    Args:
        aliases: the classes.
        roots: those to place.
        outlive: whether they are in use up to the end of the subgraph.

    Returns:
        The place of each, by its root, and the size of the arena.
    """
    last = len(aliases.spec.subgraph.operators) if outlive else 0
    wanted = {root: Interval(aliases.size(root), aliases.first_write(root),
                             max(aliases.last_read(root), aliases.first_write(root), last)) for root in roots}
    arena = plan_memory(tuple(wanted.values()))
    return {root: Place(offset, wanted[root].size)
            for root, offset in zip(wanted, arena.offsets, strict=True)}, arena.size


def place_open(aliases: Aliases, roots: Iterable[int]) -> tuple[Mapping[int, Place], int]:
    """As `place_classes`, where sizes differ from run to run: buffers that are never in use together share a slot,
    which is as large as the largest of them, and slots lie one after another.

    A buffer takes the free slot whose buffers are most like it at the lengths at hand.
    """
    slots: list[_Slot] = []
    taken: dict[int, tuple[_Slot, int]] = {}
    for root in sorted(roots, key=lambda each: (aliases.first_write(each), each)):
        first, size = aliases.first_write(root), bound(aliases.size(root))
        free = [each for each in slots if each.last < first]
        slot = min(free, key=lambda each: abs(at_hand(each.size) - at_hand(size)), default=None)
        if slot is None:
            slot = _Slot()
            slots.append(slot)
        slot.size, slot.last = larger(slot.size, size), max(aliases.last_read(root), first)
        taken[root] = slot, size
    top, offsets = 0, dict[_Slot, int]()
    for slot in slots:
        offsets[slot] = top
        top += -(-slot.size // ALIGNMENT) * ALIGNMENT
    return {root: Place(offsets[slot], size) for root, (slot, size) in taken.items()}, top


@dataclass(eq=False)
class _Slot:
    """Memory of buffers of which one is in use at a time."""

    size: int = 0
    last: int = -1
    """The last operator that uses it, so far."""


def plan_memory(intervals: Sequence[Interval]) -> Arena:
    """Gives each buffer the lowest gap that is free while it lives, in order of first use, larger ones first."""
    offsets = [0] * len(intervals)
    active: list[tuple[int, int, int]] = []
    top = 0
    for index in sorted(range(len(intervals)), key=lambda k: (intervals[k].first, -intervals[k].size, k)):
        wanted = intervals[index]
        size = -(-wanted.size // ALIGNMENT) * ALIGNMENT
        active = [each for each in active if each[2] >= wanted.first]
        offset, place = _lowest_gap(active, size)
        offsets[index] = offset
        active.insert(place, (offset, offset + size, wanted.last))
        top = max(top, offset + size)
    return Arena(tuple(offsets), top)


def _lowest_gap(active: list[tuple[int, int, int]], size: int) -> tuple[int, int]:
    """The lowest offset where `size` bytes are free, and its place in the list ordered by offset."""
    offset = 0
    for place, (start, stop, _) in enumerate(active):
        if start - offset >= size:
            return offset, place
        offset = max(offset, stop)
    return offset, len(active)
