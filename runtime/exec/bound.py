"""A subgraph bound to arrays that a caller keeps, to be run again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from circlet.runtime.exec.frame import Frame
from circlet.runtime.ir.types import Array, Shape


class BoundRun:
    """One frame on arrays of the caller's. One thread at a time may use it."""

    def __init__(self, frame: Frame, inputs: Sequence[Array]) -> None:
        """
        Args:
            frame: reads `inputs` where they are, and leaves them as they are.
            inputs: the arrays that the frame was lent.
        """
        self.run = frame.run
        self.step: Callable[[], object] = frame.whole or (frame.invoke if frame.is_compiled else self._with_numpy)
        """Runs the subgraph once."""
        self._frame = frame
        self._results: tuple[Array, ...] | None = None
        if frame.is_fixed and not any(_depends(each, inputs) for each in frame.outputs):
            self._results = frame.outputs

    def _with_numpy(self) -> None:
        with np.errstate(all="ignore"):
            self._frame.invoke()

    @property
    def shapes(self) -> tuple[Shape | None, ...]:
        """The shape of each tensor of the subgraph; None where only the run can tell."""
        return self._frame.planned_shapes

    @property
    def is_fixed(self) -> bool:
        """Whether `results` are the same arrays after each run."""
        return self._results is not None

    @property
    def results(self) -> tuple[Array, ...]:
        """The results of the last run; the next run may overwrite them."""
        if self._results is not None:
            return self._results
        return tuple(each.copy() for each in self._frame.outputs)


def _depends(result: Array, inputs: Sequence[Array]) -> bool:
    """Whether a result is constant, or changes when the caller writes to an input."""
    return not result.flags.writeable or any(np.may_share_memory(result, each) for each in inputs)
