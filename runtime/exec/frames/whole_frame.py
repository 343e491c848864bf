"""The memory of an invocation of a subgraph that one step computes, at fixed shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from circlet.runtime.exec.memory import copiers
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.types import Array

if TYPE_CHECKING:
    from circlet.runtime.exec.step import Step
    from circlet.runtime.exec.values.inputs import Lane


@final
class WholeFrame:
    """Inputs, outputs and the step between them."""

    opened: None = None
    lane: Lane | None = None
    """Of the entry point that used it last."""

    def __init__(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array], step: Step) -> None:
        self.run = run
        self.inputs = tuple(inputs)
        self.whole: Step | None = step
        """The step."""
        self.copies = copiers(outputs)
        """What gives copies of the results."""
        self._step = step

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on copies of the inputs; the results belong to the caller.

        Raises:
            ExecutionError: with the place of the operator that failed.
        """
        for target, source in zip(self.inputs, arrays):  # noqa: B905  # checked when the frame was found
            target[...] = source
        return self.compute()

    def compute(self) -> list[Array]:
        """The same, on what the inputs hold."""
        self._step()
        return [copy() for copy in self.copies]
