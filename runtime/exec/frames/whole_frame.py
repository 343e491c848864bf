"""The memory of an invocation of a subgraph that one step computes, at fixed shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from circlet.runtime.exec.memory import copier
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.types import Array

if TYPE_CHECKING:
    from circlet.runtime.exec.step import Step


@final
class WholeFrame:
    """Inputs, outputs and the step between them."""

    opened: None = None

    def __init__(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array], step: Step) -> None:
        self.run = run
        self._inputs = tuple(inputs)
        self._step = step
        self._give = copier(outputs)

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on copies of the inputs; the results belong to the caller.

        Raises:
            ExecutionError: with the place of the operator that failed.
        """
        for target, source in zip(self._inputs, arrays):  # noqa: B905  # checked when the frame was found
            target[...] = source
        self._step()
        return self._give()
