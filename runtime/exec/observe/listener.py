"""Observes runs: what was invoked, what was copied."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from circlet.runtime.exec.observe.moment import Moment


class Observation(Enum):
    """How much a run reports; frames are bound for one of these."""

    NONE = "none"
    COUNTS = "counts"
    """How often what happened, said now and then."""
    TIMES = "times"
    """Where time goes, for a `Recorder`."""
    INVOCATIONS = "invocations"
    OPERATORS = "operators"
    VALUES = "values"
    """What each operator reads and writes."""


class ListenerFailure(BaseException):
    """Carries what a listener raised past all that takes exceptions for an operator's; callers get `error` itself."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Listener:
    """Base of observers; every method does nothing. A session without one pays nothing for it.

    What a method raises ends the run, and comes out of it as it is.
    """

    observation: ClassVar[Observation | None] = None
    """What it hears; None where its methods tell."""

    def will_invoke(self, subgraph: int) -> None:
        """A subgraph is about to run."""

    def did_invoke(self, subgraph: int) -> None:
        """A subgraph has run to its end."""

    def will_run(self, subgraph: int, operator: int) -> None:
        """An operator is about to run."""

    def did_run(self, subgraph: int, operator: int) -> None:
        """An operator has run."""

    def will_compute(self, moment: Moment) -> None:
        """An operator of the model is about to run on these inputs."""

    def did_compute(self, moment: Moment) -> None:
        """An operator of the model has run, and given these outputs, which may be overwritten later."""

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        """Control flow copied `size` bytes over the edge of an operator, e.g. `carry 2`."""


    def did_count(self, invocations: Mapping[int, int], copies: int, size: int) -> None:
        """Compiled code has run each of these subgraphs so many times, and made so many copies between them, of `size`
        bytes together. Only a listener that wants nothing but counts hears of it, once for all."""


class Counter(Listener):
    """Counts invocations per subgraph, and copies at the borders of subgraphs."""

    def __init__(self) -> None:
        self.invocations: Tally[int] = Tally()
        """How often each subgraph ran, by index."""
        self.copies = 0
        """How many tensors control flow copied between subgraphs."""
        self.copied_bytes = 0

    def will_invoke(self, subgraph: int) -> None:
        self.invocations[subgraph] += 1

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        self.copies += 1
        self.copied_bytes += size

    def did_count(self, invocations: Mapping[int, int], copies: int, size: int) -> None:
        self.invocations.update(invocations)
        self.copies += copies
        self.copied_bytes += size


def observation(listener: Listener | None) -> Observation:
    """What a listener wants to hear: counts if it is a `Counter`, operators and values only where it overrides the
    methods that tell of them."""
    if listener is None:
        return Observation.NONE
    kind = type(listener)
    if kind.observation is not None:
        return kind.observation
    if kind is Counter:
        return Observation.COUNTS
    if kind.will_compute is not Listener.will_compute or kind.did_compute is not Listener.did_compute:
        return Observation.VALUES
    operators = kind.will_run is not Listener.will_run or kind.did_run is not Listener.did_run
    return Observation.OPERATORS if operators else Observation.INVOCATIONS
