"""A frame for any lengths on arrays that a caller keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from circlet.runtime.exec.frames.open_frame import OpenFrame
from circlet.runtime.ir.types import Array, Shape


@final
class CopyingFrame:
    """Runs a subgraph of which only the run tells some shapes on copies of the caller's arrays."""

    whole = None
    is_compiled = True
    is_fixed = False
    """Whether `outputs` are the same arrays after each run."""

    def __init__(self, frame: OpenFrame, inputs: Sequence[Array], planned: tuple[Shape | None, ...]) -> None:
        """
        Args:
            frame: at the shapes of the inputs.
            inputs: of the caller.
            planned: the shape of each tensor; None where only the run tells it.
        """
        self.run = frame.run
        self.planned_shapes = planned
        self._frame = frame
        self._inputs = tuple(inputs)

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The results of the last run."""
        return self._frame.outputs

    def invoke(self) -> None:
        """Runs the subgraph once.

        Raises:
            ExecutionError: with the place of the operator that failed.
        """
        for target, source in zip(self._frame.inputs, self._inputs, strict=True):
            target[...] = source
        self._frame.invoke()
