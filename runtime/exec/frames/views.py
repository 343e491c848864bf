"""The inputs and results of a subgraph at lengths that change from run to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from circlet.runtime.exec.frames.layout import Border, Layout
from circlet.runtime.exec.memory import copiers
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.formulas import Formulas
from circlet.runtime.ir.terms import Terms, has_computed
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.records import dataclass

MOST_KEPT = 64
"""For how many shapes of inputs views are kept: a choice."""


class Value(Protocol):
    """What follows from the lengths alone."""

    is_late: bool
    """Whether only the run tells it."""

    def at(self, lengths: Sequence[int]) -> Array:
        """The value at some lengths."""
        ...


@dataclass(frozen=True, eq=False)
class View:
    """Inputs and results at some lengths."""

    lengths: tuple[int, ...]
    """All that the layout is for."""
    arrays: Mapping[int, Array]
    """By tensor; of what only the run tells the shape, all the memory."""
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    """None of which only the run tells the shape."""
    copies: tuple[Callable[[], Array], ...]
    """Make copies of `outputs`."""


class Views:
    """Makes arrays for a layout, in memory that grows. Those for shapes that come again are kept as long as memory
    stays where it is."""

    def __init__(self, layout: Layout, values: Mapping[int, Value], run: Run) -> None:
        """
        Args:
            layout: where inputs and results lie.
            values: those that have no buffer.
            run: whose memory is taken.
        """
        self.kept: dict[tuple[Shape, ...], View] = {}
        """By the shapes of inputs."""
        self._run = run
        self._given, self._results = layout.inputs, layout.outputs
        self._memory: list[Array] = [np.empty(0, np.uint8) for _ in layout.buffers]
        places = {each.number: place for place, each in enumerate(layout.buffers)}
        placed = [(each, places[each.buffer]) for each in layout.borders if each.buffer is not None]
        self._values = {each.tensor: values[each.tensor] for each in layout.borders if each.buffer is None}
        self._early = _Placed([(each, place) for each, place in placed if not _is_late(each)])
        self._late = _Placed([(each, place) for each, place in placed if _is_late(each)])
        self._late_axes = Formulas(self._late.axes) if self._late.places else None
        self.needs = (*(each.size for each in layout.buffers), *self._early.axes)
        """What `at` has to know of lengths: sizes of buffers in bytes, and lengths of axes."""
        self.computes = bool(self._late.places) or any(each.is_late for each in self._values.values())
        """Whether only the run tells the shape of a result."""

    @property
    def size(self) -> int:
        """The bytes of memory."""
        return sum(each.nbytes for each in self._memory)

    def at(self, lengths: tuple[int, ...], numbers: Sequence[int]) -> View:
        """Arrays for some lengths, for which `needs` are some numbers; memory is made if need be.

        Raises:
            LimitError: there is not memory enough.
        """
        count = len(self._memory)
        for place, size in enumerate(numbers[:count]):
            if size > self._memory[place].nbytes:
                self._grow(place, size)
        arrays = self._early.at(numbers[count:], self._memory)
        for tensor, value in self._values.items():
            if not value.is_late:
                arrays[tensor] = value.at(lengths)
        outputs = tuple([arrays[each] for each in self._results if each in arrays])
        for tensor, place in self._late.places.items():
            arrays[tensor] = self._memory[place]
        inputs = tuple([arrays[each] for each in self._given])
        return View(lengths, arrays, inputs, outputs, copiers(outputs))

    def keep(self, shapes: tuple[Shape, ...], view: View) -> None:
        """Keeps a view for inputs of some shapes."""
        if len(self.kept) >= MOST_KEPT:
            self.kept.clear()
        self.kept[shapes] = view

    def outputs(self, view: View, lengths: Sequence[int]) -> list[Array]:
        """All results, as the run has told the lengths behind those of the view."""
        late = {} if self._late_axes is None else self._late.at(self._late_axes(lengths), self._memory)
        for tensor, value in self._values.items():
            if value.is_late:
                late[tensor] = value.at(lengths)
        return [late[each] if each in late else view.arrays[each] for each in self._results]

    def _grow(self, place: int, size: int) -> None:
        self._memory[place] = self._run.room.grown(self._memory[place].nbytes, size)
        self.kept.clear()


class _Placed:
    """Tensors in memory."""

    def __init__(self, borders: Sequence[tuple[Border, int]]) -> None:
        self.places = {each.tensor: place for each, place in borders}
        """The memory of each, by tensor."""
        self.axes: tuple[Terms, ...] = tuple(axis for each, _ in borders for axis in each.shape)
        """The lengths of all their axes."""
        self._parts = []
        end = 0
        for each, place in borders:
            begin, end = end, end + len(each.shape)
            self._parts.append((each.tensor, slice(begin, end), each.dtype.numpy, place))

    def at(self, sizes: Sequence[int], memory: Sequence[Array]) -> dict[int, Array]:
        """The tensors, where `axes` are some numbers."""
        return {tensor: np.ndarray(sizes[axes], dtype, memory[place]) for tensor, axes, dtype, place in self._parts}


def _is_late(border: Border) -> bool:
    return any(map(has_computed, border.shape))
