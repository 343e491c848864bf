"""A frame for any lengths on arrays that a caller keeps, or that it keeps for a caller."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import final

import numpy as np

from circlet.runtime.exec.frames.open_frame import OpenFrame
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.types import Array, Shape

_BYTE = np.dtype(np.uint8)
_NOTHING = np.empty(0, _BYTE)


@final
class LentFrame:
    """Runs a subgraph on arrays that are written to from outside: the inputs of the frame itself, or others that are
    copied where it may write to its inputs or has to move them, or where they are a caller's."""

    is_compiled = True

    def __init__(self, frame: OpenFrame, inputs: Sequence[Array], is_resizable: bool,
                 planned: tuple[Shape | None, ...] | None = None) -> None:
        """
        Args:
            frame: is used by nothing else from here on. It takes the shapes of the inputs.
            inputs: of the caller.
            is_resizable: whether it may have inputs of its own, with the same values, as from the first `move` on.
            planned: the shape of each tensor of the subgraph, None where only the run tells it; None if nobody asked.
        """
        self.run = frame.run
        self.is_fixed = not frame.moves
        """Whether `outputs` are the same arrays after each run."""
        self.planned_shapes = planned
        self._frame = frame
        self._is_copied = not (is_resizable and frame.leaves_inputs)
        self.inputs = inputs
        self._memory = [_NOTHING] * len(inputs)
        """What own inputs lie in, of all shapes that they had."""
        self.whole = None if self._is_copied else frame.step
        """What `invoke` does, if nothing is copied."""
        if not self._is_copied:
            self.inputs = frame.inputs
            for target, source in zip(self.inputs, inputs, strict=True):
                target[...] = source

    @property
    def result_shapes(self) -> tuple[Shape | None, ...]:
        """The shapes of results; None where only the run tells one."""
        return self._frame.result_shapes

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The results of the last run."""
        return self._frame.outputs

    def move(self, shapes: tuple[Shape, ...]) -> bool:
        """Changes to `inputs` of other shapes, of any values; says whether it did, as it may not be for them.

        Raises:
            LimitError: there is not memory enough.
        """
        frame = self._frame
        if not frame.takes(shapes):
            return False
        self.planned_shapes = None
        frame.resize(shapes)
        if self._is_copied:
            self.inputs = [self._placed(number, shape) for number, shape in enumerate(shapes)]
        else:
            self.inputs, self.whole = frame.inputs, frame.step
        return True

    def _placed(self, number: int, shape: Shape) -> Array:
        """An input of some shape, where it lay before if there is room."""
        dtype = self.inputs[number].dtype
        size = prod(shape) * dtype.itemsize
        if self._memory[number].nbytes < size:
            self._memory[number] = allocate((size,), _BYTE)
        found: Array = np.ndarray(shape, dtype, self._memory[number])
        return found

    def invoke(self) -> None:
        """Runs the subgraph once.

        Raises:
            ExecutionError: with the place of the operator that failed.
        """
        if self._is_copied:
            for target, source in zip(self._frame.inputs, self.inputs, strict=True):
                target[...] = source
        self._frame.invoke()
