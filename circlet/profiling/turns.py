"""How long the turns of a loop took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.runtime.exec.observe.regions import LoopTimes, duration_of_class
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class TurnTimes:
    """How long the turns of a loop took that were timed, in nanoseconds.

    Quantiles are those of classes of durations, each 13 to 25 % wide, in which turns are taken to lie evenly.
    """

    timed: int
    """How many were."""
    turns: int
    """How many there were; those that were timed are a sample where they are fewer."""
    mean: float
    p10: float | None
    """None where turns were too short to be told from each other: all that is known is their mean."""
    median: float | None
    p90: float | None
    longest: float | None
    """No turn that was timed took longer."""
    first: float | None
    """The mean of those that were the first of their activation; None where that is not known."""
    rest: float | None
    """The mean of the others; None where that is not known."""
    histogram: Sequence[tuple[float, float, int]]
    """Classes of durations: from, to, how many turns."""

    @property
    def sample_text(self) -> str:
        """`a sample of 10 of 1,000 turns`, or nothing where all were timed."""
        return f"a sample of {self.timed:,} of {self.turns:,} turns" if self.timed < self.turns else ""


def turn_times(loop: LoopTimes) -> TurnTimes | None:
    """How long turns took; None where none was timed."""
    if not loop.timed:
        return None
    later = loop.timed - loop.first_timed
    p10, median, p90, longest = (quantile(loop.classes, each) if loop.classes else None for each in (0.1, 0.5, 0.9, 1))
    return TurnTimes(
        loop.timed, loop.turns, loop.total / loop.timed, p10, median, p90, longest,
        loop.first_total / loop.first_timed if loop.first_timed and not loop.is_short else None,
        (loop.total - loop.first_total) / later if later and not loop.is_short else None,
        [(duration_of_class(each), duration_of_class(each + 1), loop.classes[each]) for each in sorted(loop.classes)])


def quantile(classes: Mapping[int, int], share: float) -> float:
    """The duration that a share of those in classes does not exceed; there is at least one."""
    left = share * sum(classes.values())
    for number in sorted(classes):
        count = classes[number]
        if left <= count:
            low, high = duration_of_class(number), duration_of_class(number + 1)
            return low + (high - low) * left / count
        left -= count
    return duration_of_class(max(classes) + 1)
