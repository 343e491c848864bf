"""Functions that are given lengths of inputs, and tell those of outputs, within bounds."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from circlet.runtime.exec.memory import allocate, copies
from circlet.runtime.ir.model import Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array


class _Port:
    """An input or an output: memory for the longest one."""

    def __init__(self, tensor: Tensor) -> None:
        """
        Raises:
            LimitError: there is not memory enough.
        """
        self._shape = tensor.signature
        self.axes = [axis for axis, size in enumerate(self._shape) if size == -1]
        self.memory = allocate(tensor.shape, tensor.dtype.numpy)
        self.told = np.zeros(len(self.axes), np.uintp)
        """The lengths that a run tells."""

    def array(self, lengths: Sequence[int]) -> Array:
        """The tensor at some open lengths."""
        left = iter(lengths)
        shape = [next(left) if each == -1 else each for each in self._shape]
        found: Array = np.ndarray(shape, self.memory.dtype, self.memory)
        return found


class OpenFunction:
    """A function with memory for one run at a time, for any lengths; see `BoundFunction`."""

    def __init__(self, code: ctypes._FuncPointer, graph: Subgraph, arena: int, state: int) -> None:
        """
        Raises:
            LimitError: there is not memory enough.
        """
        self._inputs, self._outputs = ([_Port(graph.tensors[each]) for each in side]
                                       for side in (graph.inputs, graph.outputs))
        self._code = code
        self._given = (ctypes.c_size_t * (1 + sum(1 + len(each.axes) for each in self._inputs)))()
        words = [word for each in self._outputs
                 for word in (each.memory.ctypes.data, *([each.told.ctypes.data] if each.axes else []))]
        taken = (ctypes.c_size_t * max(len(words), 1))(*words)
        self._others = taken, ctypes.c_void_p(arena), ctypes.c_void_p(state)

    def run(self, arrays: Sequence[Array]) -> int:
        """Runs it on arrays of the inputs' types and shapes, of lengths within the bounds; gives the status."""
        words: list[int] = []
        for port, value in zip(self._inputs, arrays, strict=True):
            lengths = [value.shape[axis] for axis in port.axes]
            port.array(lengths)[...] = value
            words += port.memory.ctypes.data, *lengths
        for position, word in enumerate(words):
            self._given[position] = word
        found: int = self._code(self._given, *self._others)
        return found

    def results(self) -> list[Array]:
        """Copies of the outputs of the last run.

        Raises:
            LimitError: there is not memory enough.
        """
        return copies([each.array(each.told.tolist()) for each in self._outputs])
