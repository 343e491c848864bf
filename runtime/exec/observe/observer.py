"""What the frames of one run tell its listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, cast

from circlet.runtime.exec.observe.listener import Listener, ListenerFailure, Observation
from circlet.runtime.ir.model import Subgraph
from circlet.runtime.ir.types import Array
from circlet.runtime.late import LOADING

if TYPE_CHECKING:
    from circlet.runtime.exec.observe.recorder import Recorder
    from circlet.runtime.exec.observe.regions import Region
    from circlet.runtime.exec.step import Step

SILENT = Listener()


class Observer:
    """Tells the listener of the run in progress as much as frames were bound to report."""

    def __init__(self, observation: Observation = Observation.NONE) -> None:
        self.observation = observation
        """What frames report; fixed when they are bound."""
        self.listener = SILENT
        self.recorder: Recorder
        """The listener of runs that are timed."""

    def tell(self, listener: Listener) -> None:
        """From here on a listener hears what there is."""
        self.listener = listener
        if self.observation is Observation.TIMES:
            self.recorder = cast("Recorder", listener)

    @property
    def is_on(self) -> bool:
        """Whether there is anything to report."""
        return self.observation is not Observation.NONE

    @property
    def is_stepped(self) -> bool:
        """Whether the listener is to hear of each invocation as it happens."""
        return self.observation not in (Observation.NONE, Observation.COUNTS, Observation.TIMES)

    def preparing(self) -> AbstractContextManager[None]:
        """What is done inside makes later runs ready, and is none of this one."""
        return self.recorder.preparing() if self.observation is Observation.TIMES else nullcontext()

    @property
    def sees_values(self) -> bool:
        """Whether the listener is to see what each operator computes, those too that have nothing to do."""
        return self.observation is Observation.VALUES

    def operator(self, step: Step, place: tuple[int, int], graph: Subgraph, inputs: Sequence[Array | None],
                 outputs: Sequence[Array]) -> Step:
        """A step that reports itself, where operators are observed.

        Args:
            step: runs an operator.
            place: of the operator, subgraph and number.
            graph: the subgraph, as it is executed.
            inputs: the buffers of the operator.
            outputs: likewise; they may be there only after the operator has run.
        """
        subgraph, operator = place
        if self.observation is Observation.TIMES:
            return self._timed(step, subgraph, operator)
        if self.observation not in (Observation.OPERATORS, Observation.VALUES):
            return step

        def observed() -> None:
            self._tell(self.listener.will_run, subgraph, operator)
            step()
            self._tell(self.listener.did_run, subgraph, operator)

        return observed

    def copy(self, step: Step, subgraph: int, operator: int, edge: str, size: int) -> Step:
        """A step that copies a value over an edge, and reports it."""
        if self.observation is Observation.NONE:
            return step
        if self.observation is Observation.TIMES:
            return self._timed(step, subgraph, operator, size)

        def observed() -> None:
            step()
            self.did_copy(subgraph, operator, edge, size)

        return observed

    def _timed(self, step: Step, subgraph: int, operator: int = -1, size: int | None = None) -> Step:
        """A step that is a region: a subgraph, an operator, or where a size is given a copy of so many bytes."""
        region = _region(subgraph, operator, size is not None)

        def timed() -> None:
            self.recorder.perform(step, region, size)

        return timed

    def invocation(self, steps: Sequence[Step], subgraph: int) -> Sequence[Step]:
        """The steps of a subgraph, reporting its beginning and end."""
        if not self.is_on:
            return steps
        if self.observation is Observation.TIMES:
            return [self._timed(steps[0] if len(steps) == 1 else partial(_all, steps), subgraph)]
        return [partial(self.will_invoke, subgraph), *steps, partial(self.did_invoke, subgraph)]

    def whole(self, step: Step, subgraph: int) -> Step:
        """A step that is all of a subgraph, reporting its beginning and end."""
        steps = self.invocation([step], subgraph)
        return steps[0] if len(steps) == 1 else partial(_all, steps)

    def begin_again(self, subgraph: int) -> None:
        """What was reported of the beginning of a subgraph does not count, as another frame will report it."""
        if self.observation is Observation.TIMES:
            self.recorder.top.count -= 1
        elif self.is_on:
            self.did_count({subgraph: -1}, 0, 0)

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


def _all(steps: Sequence[Step]) -> None:
    for each in steps:
        each()


def _region(subgraph: int, operator: int = -1, is_copy: bool = False) -> Region:
    """What is timed: a subgraph, an operator, or what it copies."""
    with LOADING:
        from circlet.runtime.exec.observe.regions import Kind, Region

    return Region(Kind.COPIES if is_copy else Kind.SUBGRAPH if operator < 0 else Kind.OPERATOR, subgraph, operator)
