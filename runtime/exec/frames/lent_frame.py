"""A frame for any lengths on arrays that a caller keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from circlet.runtime.exec.frames.open_frame import OpenFrame
from circlet.runtime.ir.types import Array, Shape


@final
class LentFrame:
    """Runs a subgraph on the caller's arrays, or on copies where it may write to its inputs or has to move them."""

    is_compiled = True

    def __init__(self, frame: OpenFrame, inputs: Sequence[Array],
                 planned: tuple[Shape | None, ...] | None = None) -> None:
        """
        Args:
            frame: is used by nothing else from here on. It takes the shapes of the inputs.
            inputs: of the caller.
            planned: the shape of each tensor of the subgraph, None where only the run tells it; None if nobody asked.

        Raises:
            LimitError: there is not memory enough.
        """
        self.run = frame.run
        self.is_fixed = not frame.moves
        """Whether `outputs` are the same arrays after each run."""
        self._frame = frame
        self._take(inputs, _shapes(inputs), planned)

    def _take(self, inputs: Sequence[Array], shapes: tuple[Shape, ...],
              planned: tuple[Shape | None, ...] | None = None) -> None:
        self.planned_shapes = planned
        self.whole = self._frame.lend(shapes, inputs)
        """What `invoke` does, if nothing is copied."""
        self._inputs = inputs

    @property
    def result_shapes(self) -> tuple[Shape | None, ...]:
        """The shapes of results; None where only the run tells one."""
        return self._frame.result_shapes

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The results of the last run."""
        return self._frame.outputs

    def move(self, inputs: Sequence[Array]) -> bool:
        """Changes to other arrays; says whether it did, as it may not be for their shapes.

        Raises:
            LimitError: there is not memory enough.
        """
        shapes = _shapes(inputs)
        if not self._frame.takes(shapes):
            return False
        self._take(inputs, shapes)
        return True

    def invoke(self) -> None:
        """Runs the subgraph once.

        Raises:
            ExecutionError: with the place of the operator that failed.
        """
        for target, source in zip(self._frame.inputs, self._inputs, strict=True):
            target[...] = source
        self._frame.invoke()


def _shapes(arrays: Sequence[Array]) -> tuple[Shape, ...]:
    return tuple([each.shape for each in arrays])
