"""The inputs and results of a subgraph at lengths that change from run to run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import gt

import numpy as np

from circlet.runtime.exec.frames.open_layout import OpenLayout, Sizes
from circlet.runtime.exec.memory import LARGE, WASTE, ResultMemory
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.types import Array, Shape

_NOTHING = np.empty(0, np.uint8)
MOST_KEPT = 256
"""For how many shapes of inputs views are kept: a choice."""


class View:
    """Inputs and results at some lengths. No data class: one is made for each new length, in a time that counts."""

    __slots__ = "arrays", "buffers", "given", "inputs", "is_large", "lengths", "outputs"

    def __init__(self, lengths: tuple[int, ...], arrays: dict[int, Array], inputs: tuple[Array, ...],
                 outputs: tuple[Array, ...], is_large: bool, buffers: tuple[int, ...]) -> None:
        """
        Args:
            lengths: all that the layout is for.
            arrays: by tensor; of what only the run tells the shape, all the memory.
            inputs: those of the subgraph.
            outputs: none of which only the run tells the shape.
            is_large: whether any of it is, perhaps.
            buffers: the bytes that each is to have.
        """
        self.lengths, self.arrays, self.inputs, self.outputs = lengths, arrays, inputs, outputs
        self.is_large, self.buffers = is_large, buffers
        self.given: Collection[int] = ()
        """The positions of results that are a caller's, so that they have no memory here."""


class Views:
    """Makes arrays for a layout, in memory that grows. Those for shapes that come again are kept as long as memory
    stays where it is."""

    def __init__(self, layout: OpenLayout, known: Mapping[int, Array], run: Run) -> None:
        """
        Args:
            layout: where inputs and results lie.
            known: values that are the same for all lengths.
            run: whose memory is taken.
        """
        self.kept: dict[tuple[Shape, ...], View] = {}
        """By the shapes of inputs."""
        self._run = run
        self._memory: list[Array] = [_NOTHING] * layout.buffers
        self._room = [0] * layout.buffers
        """The bytes of each."""
        self._known = known
        self._show, self._tell = layout.show, layout.tell
        self._given, self._results, self._late = layout.inputs, layout.outputs, layout.late
        self.computes = bool(layout.late)
        """Whether only the run tells the shape of a result, or what it holds of lengths."""
        self._alone = layout.alone
        self._given_away = frozenset(place for _, place in layout.alone)
        self._for_results = ResultMemory(len(self._alone), run.room)
        self._has_large = False
        """Whether any memory is large."""

    @property
    def size(self) -> int:
        """The bytes of memory."""
        return sum(self._room)

    def at(self, sizes: Sizes) -> View:
        """Arrays for what some lengths decide; memory is made if need be.

        Raises:
            LimitError: there is not memory enough.
        """
        lengths, buffers, shapes, elements, _ = sizes
        if any(map(gt, buffers, self._room)):
            self._grow(buffers)
        arrays, inputs, outputs = self._show(shapes, elements, self._memory, self._known)
        return View(lengths, arrays, inputs, outputs, self._has_large and max(buffers) >= LARGE, buffers)

    def keep(self, shapes: tuple[Shape, ...], view: View) -> None:
        """Keeps a view for inputs of some shapes."""
        if len(self.kept) >= MOST_KEPT:
            self.kept.clear()
        self.kept[shapes] = view

    def on(self, view: View, inputs: Sequence[Array]) -> Mapping[int, Array]:
        """The arrays of a view, inputs instead of its own among them."""
        return {**view.arrays, **dict(zip(self._given, inputs, strict=True))}

    def complete(self, view: View) -> None:
        """Makes memory for results of a view that were given away.

        Raises:
            LimitError: there is not memory enough.
        """
        for position, place in [each for each in self._alone if each[0] in view.given]:
            self._hold(place, self._for_results.take(view.buffers[place]))
            tensor = self._results[position]
            old = view.arrays[tensor]
            view.arrays[tensor] = np.ndarray(old.shape, old.dtype, self._memory[place])
        view.outputs = tuple([view.arrays[each] for each in self._results])
        view.given = ()

    def give(self, shapes: tuple[Shape, ...], view: View, outputs: Sequence[Array]) -> dict[int, Array]:
        """Those of all results that are large and lie alone, by position, which are a caller's from here on: the next
        run has other memory for them.

        Args:
            shapes: of the inputs that the view is for.
            view: has the results.
            outputs: all results.
        """
        found = {}
        for position, place in self._alone:
            array, memory = outputs[position], self._memory[place]
            if array.nbytes >= LARGE and array.nbytes * WASTE >= memory.nbytes:
                found[position] = self._for_results.give(memory, array)
                self._memory[place], self._room[place] = _NOTHING, 0
        if found:
            self.kept.clear()
            if not self.computes:
                view.given = tuple(found)
                self.kept[shapes] = view
        return found

    def result_shapes(self, view: View) -> tuple[Shape | None, ...]:
        """Those of all results; None where only the run tells one."""
        return tuple([None if each in self._late else view.arrays[each].shape for each in self._results])

    def outputs(self, view: View, lengths: Sequence[int]) -> tuple[Array, ...]:
        """All results, with the lengths that the run has computed among all."""
        return self._tell(lengths, view.arrays, self._memory)

    def _grow(self, sizes: Sequence[int]) -> None:
        """Takes memory for so many bytes of each buffer at least."""
        for place, size in enumerate(sizes):
            if size > self._room[place]:
                is_given = size >= LARGE and place in self._given_away
                self._hold(place, self._for_results.take(size) if is_given else self._run.room.grown(
                    self._room[place], size))
                self.kept.clear()

    def _hold(self, place: int, memory: Array) -> None:
        """Has memory for a buffer."""
        self._memory[place], self._room[place] = memory, memory.nbytes
        self._has_large |= memory.nbytes >= LARGE
