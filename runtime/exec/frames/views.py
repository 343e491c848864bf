"""The inputs and results of a subgraph at lengths that change from run to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from circlet.runtime.exec.frames.layout import Border, Layout
from circlet.runtime.exec.memory import copiers
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.formulas import Formulas
from circlet.runtime.ir.terms import Terms, fixed, has_computed
from circlet.runtime.ir.types import Array, Shape

MOST_KEPT = 64
"""For how many shapes of inputs views are kept: a choice."""


class View:
    """Inputs and results at some lengths. No data class: one is made for each new length, in a time that counts."""

    def __init__(self, lengths: tuple[int, ...], arrays: Mapping[int, Array], inputs: tuple[Array, ...],
                 outputs: tuple[Array, ...]) -> None:
        """
        Args:
            lengths: all that the layout is for.
            arrays: by tensor; of what only the run tells the shape, all the memory.
            inputs: those of the subgraph.
            outputs: none of which only the run tells the shape.
        """
        self.lengths, self.arrays, self.inputs, self.outputs = lengths, arrays, inputs, outputs
        self.copies = copiers(outputs)
        """Make copies of `outputs`."""


class Views:
    """Makes arrays for a layout, in memory that grows. Those for shapes that come again are kept as long as memory
    stays where it is."""

    def __init__(self, layout: Layout, known: Mapping[int, Array], run: Run) -> None:
        """
        Args:
            layout: where inputs and results lie.
            known: values that are the same for all lengths.
            run: whose memory is taken.
        """
        self.kept: dict[tuple[Shape, ...], View] = {}
        """By the shapes of inputs."""
        self._run = run
        self._given, self._results = layout.inputs, layout.outputs
        self._memory: list[Array] = [np.empty(0, np.uint8) for _ in layout.buffers]
        places = {each.number: place for place, each in enumerate(layout.buffers)}
        placed = [(each, places[each.buffer]) for each in layout.borders if each.buffer is not None]
        self._known = known
        worked = [each for each in layout.borders if each.numbers]
        self._early_numbers = _Numbers([each for each in worked if not any(map(has_computed, each.numbers))])
        self._late_numbers = _Numbers([each for each in worked if any(map(has_computed, each.numbers))])
        self._early = _Placed([(each, place) for each, place in placed if not _is_late(each)])
        self._late = _Placed([(each, place) for each, place in placed if _is_late(each)])
        self.needs = (*(each.size for each in layout.buffers), *self._early.axes, *self._early_numbers.terms)
        """What `at` has to know of lengths: sizes of buffers in bytes, lengths of axes, and elements."""
        self.computes = bool(self._late.places or self._late_numbers.parts)
        """Whether only the run tells the shape of a result, or what it holds of lengths."""
        self._told = Formulas((*self._late.axes, *self._late_numbers.terms)) if self.computes else None

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
        arrays = self._arrays(self._early, self._early_numbers, numbers[count:])
        arrays.update(self._known)
        outputs = tuple([arrays[each] for each in self._results if each in arrays])
        for tensor, place in self._late.places.items():
            arrays[tensor] = self._memory[place]
        inputs = tuple([arrays[each] for each in self._given])
        return View(lengths, arrays, inputs, outputs)

    def keep(self, shapes: tuple[Shape, ...], view: View) -> None:
        """Keeps a view for inputs of some shapes."""
        if len(self.kept) >= MOST_KEPT:
            self.kept.clear()
        self.kept[shapes] = view

    def on(self, view: View, inputs: Sequence[Array]) -> Mapping[int, Array]:
        """The arrays of a view, inputs instead of its own among them."""
        return {**view.arrays, **dict(zip(self._given, inputs, strict=True))}

    def result_shapes(self, view: View) -> tuple[Shape | None, ...]:
        """Those of all results; None where only the run tells one."""
        return tuple([None if each in self._late.places else view.arrays[each].shape if each in view.arrays else None
                      for each in self._results])

    def outputs(self, view: View, lengths: Sequence[int]) -> list[Array]:
        """All results, as the run has told the lengths behind those of the view."""
        late = {} if self._told is None else self._arrays(self._late, self._late_numbers, self._told(lengths))
        return [late[each] if each in late else view.arrays[each] for each in self._results]

    def _arrays(self, placed: _Placed, worked: _Numbers, numbers: Sequence[int]) -> dict[int, Array]:
        """The tensors that have memory, and those that lie nowhere, where their axes and elements are some numbers."""
        found = placed.at(numbers, self._memory)
        if worked.parts:
            found.update(worked.at(numbers[len(placed.axes):]))
        return found

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


class _Numbers:
    """Tensors that lie nowhere, of integers that follow from the lengths."""

    def __init__(self, borders: Sequence[Border]) -> None:
        self.terms: tuple[Terms, ...] = tuple(each for border in borders for each in border.numbers)
        """All their elements."""
        self.parts = []
        """Of each the tensor, where its elements are among all, element type and shape."""
        end = 0
        for each in borders:
            begin, end = end, end + len(each.numbers)
            self.parts.append((each.tensor, slice(begin, end), each.dtype.numpy, tuple(map(fixed, each.shape))))

    def at(self, numbers: Sequence[int]) -> dict[int, Array]:
        """The tensors, where `terms` are some numbers."""
        return {tensor: np.array(numbers[part], np.int64).astype(dtype).reshape(shape)
                for tensor, part, dtype, shape in self.parts}


def _is_late(border: Border) -> bool:
    return any(map(has_computed, border.shape))
