"""An invocation of a subgraph that computes on the values of variables, at shapes that change from run to run, or gives
integers for text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, final

from circlet.runtime.exec.frames.cache import Key
from circlet.runtime.exec.frames.pool import FramePool
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.lifted import LiftedVariables
from circlet.runtime.exec.values.words import speller
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.ops.controlflow import CallOnVariables

if TYPE_CHECKING:
    from circlet.runtime.exec.preparation import EntryFrame
    from circlet.runtime.exec.values.inputs import Lane

MakeEntry: TypeAlias = "Callable[[int, tuple[Shape, ...]], EntryFrame]"
"""Makes the frame of a subgraph for the shapes of its inputs."""


@final
class StatefulFrame:
    """Frames for the subgraph that computes, which has the values as inputs and results, and integers as text."""

    lane: Lane | None = None
    whole = copies = None
    is_direct = False
    inputs: tuple[Array, ...] = ()
    served: Key = -1, (), ""
    is_settled = False

    def __init__(self, op: CallOnVariables, run: Run, make: MakeEntry, first: Sequence[Array] | None = None) -> None:
        """
        Args:
            op: the operator that the subgraph is.
            run: the run, or runs one after another, that the frame serves.
            make: makes frames for the subgraphs that the operator invokes.
            first: what stands for variables that have no value, where nothing computes it.
        """
        self.run = run
        self.asked: tuple[Shape, ...] = ()
        self._op = op
        self._variables = LiftedVariables(op, run.variables)
        self._make = make
        self._first = first
        self._spell = speller(op.words)
        self._frames = FramePool()

    @property
    def opened(self) -> StatefulFrame:
        return self

    def takes(self, shapes: tuple[Shape, ...]) -> bool:
        """Whether it may be run on inputs of some shapes; any that the operators can compute with."""
        return True

    def serves(self, key: Key) -> bool:
        """Whether it has arrays that inputs may be copied to."""
        return False

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on copies of the inputs; the results belong to the caller."""
        values = self._variables.values(lambda: self._begun(arrays))
        results = self._invoke(self._op.subgraph, [*arrays, *values])
        count = len(results) - len(self._op.assigned)
        self._variables.assign(results[count:], is_given=True)
        return self._spell(results[:count])

    def compute(self) -> list[Array]:
        raise AssertionError("the frame has no arrays for inputs")

    def _begun(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """What stands for variables that have no value."""
        return self._invoke(self._op.first_subgraph, arrays) if self._first is None else self._first

    def _invoke(self, subgraph: int, arrays: Sequence[Array]) -> list[Array]:
        key = subgraph, tuple([each.shape for each in arrays]), self.run.observer.observation.value
        frame = self._frames.take(key) or self._make(subgraph, key[1])
        results = frame.call(arrays)
        self._frames.give(key, frame)
        return results
