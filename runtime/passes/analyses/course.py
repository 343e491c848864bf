"""Where the values of a loop lie from turn to turn, if some of them begin outside of the loop's buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from circlet.runtime.passes.analyses.rotation import Move, Rotation
from circlet.runtime.records import dataclass

LONGEST_LEAD = 4
"""Turns that may be bound by themselves before a loop repeats itself."""
TOO_FAR = f"the value would still lie where it began after {LONGEST_LEAD} turns"

Kept: TypeAlias = "Callable[[frozenset[int]], Mapping[int, int] | str]"
"""`kept(outside)`, for a turn that finds values `outside` where it may not write: for each new value that lies there
too, which of them it lies with; or why the body cannot make all others in the buffers of the rotation."""


@dataclass(frozen=True)
class Course:
    """The places of a loop's values: the buffers of its rotation, and behind those its operands, which are only read.

    A loop takes the turns of the lead once, and then those after it again and again.
    """

    rotation: Rotation
    places: tuple[tuple[int, ...], ...]
    """By number of turns, the place of each value."""
    lead: int = 0
    """What comes again behind the last of `places`."""

    def following(self, phase: int) -> int:
        """The phase after one; phase 0 is the first turn."""
        return phase + 1 if phase + 1 < len(self.places) else self.lead

    def phase(self, turns: int) -> int:
        """The phase that a loop is in after so many turns."""
        return turns if turns < self.lead else self.lead + (turns - self.lead) % (len(self.places) - self.lead)

    def outside(self, phase: int) -> frozenset[int]:
        """The values that lie with operands."""
        return frozenset(k for k, each in enumerate(self.places[phase]) if each >= self.rotation.buffers)

    def moves(self, phase: int, unread: AbstractSet[int] = frozenset()) -> list[Move]:
        """The copies, in order, that bring the values, but for those that are `unread`, to their own buffers."""
        places, rotation = self.places[phase], self.rotation
        return [*(move for cycle in rotation.cycles for move in rotation.moves(cycle, places, unread)),
                *((k, place) for k, place in enumerate(places)
                  if place != k and rotation.cycle(k) is None and k not in unread)]


def steady(rotation: Rotation) -> Course:
    """The course of values that begin in their own buffers."""
    return Course(rotation, tuple(rotation.places(turns) for turns in range(rotation.period)))


def course(rotation: Rotation, lent: AbstractSet[int], kept: Kept) -> Course | str:
    """The course of values of which those that are `lent` begin where the operands are, or why there is none."""
    places: list[tuple[int, ...]] = []
    operands = {k: k for k in lent}
    for turns in range(LONGEST_LEAD + rotation.period + 1):
        own = rotation.places(turns)
        now = tuple(rotation.buffers + operands[k] if k in operands else each for k, each in enumerate(own))
        lead = turns - rotation.period
        if lead >= 0 and places[lead] == now:
            return Course(rotation, tuple(places), lead)
        places.append(now)
        found = kept(frozenset(operands))
        if isinstance(found, str):
            return found
        operands = {k: operands[source] for k, source in found.items()}
    return TOO_FAR
