"""Places buffers in one arena so that buffers that live at the same time do not overlap."""

from __future__ import annotations

from bisect import insort
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
        now = at_hand(size)
        slot = min(free, key=lambda each: abs(each.now - now), default=None)
        if slot is None:
            slot = _Slot()
            slots.append(slot)
        slot.size, slot.last = larger(slot.size, size), max(aliases.last_read(root), first)
        slot.now = max(slot.now, now)
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
    now: int = 0
    """The size at the lengths at hand."""
    last: int = -1
    """The last operator that uses it, so far."""


def plan_memory(intervals: Sequence[Interval], alignment: int = ALIGNMENT) -> Arena:
    """Gives each buffer the lowest gap that is free while it lives, in order of first use, larger ones first."""
    offsets = [0] * len(intervals)
    active: list[tuple[int, int, int]] = []
    top = 0
    for index in sorted(range(len(intervals)), key=lambda k: (intervals[k].first, -intervals[k].size, k)):
        wanted = intervals[index]
        size = -(-wanted.size // alignment) * alignment
        active = [each for each in active if each[2] >= wanted.first]
        offsets[index] = offset = lowest_gap([each[:2] for each in active], size)
        insort(active, (offset, offset + size, wanted.last))
        top = max(top, offset + size)
    return Arena(tuple(offsets), top)


def plan_by_size(intervals: Sequence[Interval], alignment: int = ALIGNMENT) -> Arena:
    """Gives each buffer the lowest gap that is free while it lives, in order of size, the largest first. That takes the
    square of their number, and often less memory than the order of first use (Pisarchyk and Lee, Efficient Memory
    Management for Deep Neural Net Inference, 2020)."""
    offsets = [0] * len(intervals)
    placed: list[tuple[int, int, Interval]] = []
    for index in sorted(range(len(intervals)), key=lambda k: (-intervals[k].size, intervals[k].first, k)):
        wanted = intervals[index]
        size = -(-wanted.size // alignment) * alignment
        near = [(begin, end) for begin, end, each in placed if each.first <= wanted.last and wanted.first <= each.last]
        offsets[index] = offset = lowest_gap(near, size)
        insort(placed, (offset, offset + size, wanted), key=lambda each: each[:2])
    return Arena(tuple(offsets), max((end for _, end, _ in placed), default=0))


def lowest_gap(used: Sequence[tuple[int, int]], size: int) -> int:
    """The lowest offset where `size` bytes are free, given the parts in use in order."""
    offset = 0
    for begin, end in used:
        if begin - offset >= size:
            return offset
        offset = max(offset, end)
    return offset
