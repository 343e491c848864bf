"""The memory of an invocation of a subgraph that one step computes, at fixed shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from circlet.runtime.exec.memory import result_copiers
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.types import Array, Shape

if TYPE_CHECKING:
    from circlet.runtime.exec.step import Step
    from circlet.runtime.exec.values.inputs import Lane


@final
class WholeFrame:
    """Inputs, outputs and the step between them."""

    opened: None = None
    is_compiled = is_fixed = is_direct = True
    planned_shapes: None = None
    lane: Lane | None = None
    """Of the entry point that used it last."""

    def __init__(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array], step: Step) -> None:
        self.run = run
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.whole: Step | None = step
        """The step."""
        self.copies = result_copiers(outputs)
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

    @property
    def result_shapes(self) -> tuple[Shape, ...]:
        """Those of the outputs."""
        return tuple(each.shape for each in self.outputs)

    def invoke(self) -> None:
        """Runs the subgraph on what the inputs hold."""
        self._step()
