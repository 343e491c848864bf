"""A subgraph bound to arrays that a caller keeps, to be run again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from circlet.runtime.exec.frames.lent_frame import LentFrame
from circlet.runtime.exec.frames.whole_frame import WholeFrame
from circlet.runtime.ir.types import Array, Shape

if TYPE_CHECKING:
    from circlet.runtime.exec.frame import Frame


class BoundRun:
    """One frame on arrays of the caller's, or on its own. One thread at a time may use it."""

    def __init__(self, frame: Frame | LentFrame | WholeFrame, subgraph: int, inputs: Sequence[Array]) -> None:
        """
        Args:
            frame: reads `inputs` where they are, or has its own, and leaves them as they are.
            subgraph: whose frame it is.
            inputs: the arrays that the frame was lent.
        """
        self.subgraph = subgraph
        self.timed: BoundRun | None = None
        """The same, on the same inputs, to be run while runs are timed; made when it is first needed."""
        self.was_timed = False
        """Whether that was what ran last."""
        self.run = frame.run
        self._frame = frame
        self._own = frame if isinstance(frame, LentFrame) else None
        self.inputs = inputs if self._own is None else self._own.inputs
        """The arrays that are read."""
        self.is_fixed = frame.is_fixed and not any(_depends(each, self.inputs) for each in frame.outputs)
        """Whether `results` are the same arrays after each run, until it moves; no shapes change that."""
        self._take()

    def _take(self) -> None:
        frame = self._frame
        self.step: Callable[[], object] = frame.whole or (frame.invoke if frame.is_compiled else self._with_numpy)
        """Runs the subgraph once."""
        self._results = frame.outputs if self.is_fixed else None

    def _with_numpy(self) -> None:
        with np.errstate(all="ignore"):
            self._frame.invoke()

    @property
    def shapes(self) -> tuple[Shape | None, ...] | None:
        """The shape of each tensor of the subgraph, None where only the run can tell; None if the model was not looked
        at."""
        return self._frame.planned_shapes

    @property
    def result_shapes(self) -> tuple[Shape | None, ...]:
        """The shapes of the results; None where only the run can tell."""
        return self._frame.result_shapes

    @property
    def is_movable(self) -> bool:
        """Whether it is for more than the shapes that it has."""
        return self._own is not None

    def move(self, shapes: tuple[Shape, ...]) -> bool:
        """Changes to `inputs` of other shapes, of any values; says whether it did, as it may not be for them.

        Raises:
            LimitError: there is not memory enough.
        """
        if self._own is None:
            return shapes == tuple([each.shape for each in self.inputs])
        if not self._own.move(shapes):
            return False
        self.inputs, self.timed, self.was_timed = self._own.inputs, None, False
        self._take()
        return True

    @property
    def results(self) -> tuple[Array, ...]:
        """The results of the last run; the next run may overwrite them."""
        if self._results is not None:
            return self._results
        latest = self.timed if self.was_timed and self.timed is not None else self
        return tuple(each.copy() for each in latest._frame.outputs)

    def take(self, timed: BoundRun) -> None:
        """Takes over the results of a run that was timed."""
        self.was_timed = True
        for target, source in zip(self._results or (), timed.results, strict=self.is_fixed):
            np.copyto(target, source)


def _depends(result: Array, inputs: Sequence[Array]) -> bool:
    """Whether a result is constant, or changes when the caller writes to an input."""
    return not result.flags.writeable or any(np.may_share_memory(result, each) for each in inputs)
