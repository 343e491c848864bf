"""What the frames of one run tell its listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from circlet.runtime.exec.observe.listener import Listener, ListenerFailure, Observation
from circlet.runtime.exec.step import Step

SILENT = Listener()


class Observer:
    """Tells the listener of the run in progress as much as frames were bound to report."""

    def __init__(self, observation: Observation = Observation.NONE) -> None:
        self.observation = observation
        """What frames report; fixed when they are bound."""
        self.listener = SILENT

    @property
    def is_on(self) -> bool:
        """Whether there is anything to report."""
        return self.observation is not Observation.NONE

    @property
    def is_stepped(self) -> bool:
        """Whether the listener is to hear of each invocation as it happens."""
        return self.observation not in (Observation.NONE, Observation.COUNTS)

    def operator(self, step: Step, subgraph: int, operator: int) -> Step:
        """A step that reports itself, where operators are observed."""
        if self.observation is not Observation.OPERATORS:
            return step

        def observed() -> None:
            self._tell(self.listener.will_run, subgraph, operator)
            step()
            self._tell(self.listener.did_run, subgraph, operator)

        return observed

    def invocation(self, steps: Sequence[Step], subgraph: int) -> Sequence[Step]:
        """The steps of a subgraph, reporting its beginning and end."""
        if not self.is_on:
            return steps
        return [partial(self.will_invoke, subgraph), *steps, partial(self.did_invoke, subgraph)]

    def will_invoke(self, subgraph: int) -> None:
        self._tell(self.listener.will_invoke, subgraph)

    def did_invoke(self, subgraph: int) -> None:
        self._tell(self.listener.did_invoke, subgraph)

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        self._tell(self.listener.did_copy, subgraph, operator, edge, size)

    def did_count(self, invocations: Mapping[int, int], copies: int, size: int) -> None:
        self._tell(self.listener.did_count, invocations, copies, size)

    def _tell(self, hear: Callable[..., None], *what: object) -> None:
        try:
            hear(*what)
        except Exception as error:
            raise ListenerFailure(error) from None
