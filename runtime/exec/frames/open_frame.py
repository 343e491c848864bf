"""The memory of an invocation of a subgraph at lengths that change from run to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

from circlet.runtime.errors import LimitError
from circlet.runtime.exec.frames.cache import Invocable, Resizable
from circlet.runtime.exec.frames.layout import Border, Buffer, Layout
from circlet.runtime.exec.frames.open_step import OpenStep, OutgrownError
from circlet.runtime.exec.memory import copiers
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.formulas import Conditions
from circlet.runtime.ir.terms import LEAST, fixed, formula_of, has_computed, is_fixed
from circlet.runtime.ir.types import Array, Shape

if TYPE_CHECKING:
    from circlet.runtime.exec.values.inputs import Lane

GROWTH = 1 << 20
"""Bytes that are allocated beyond what is needed at the most, so that lengths that grow by one do not allocate each
time; a choice."""
_UNSIZED: tuple[Shape, ...] = ((-1,),)
"""In the place of the shapes of inputs, where the frame is not made for any, not even for none."""


class UnboundError(Exception):
    """No backend computes the subgraph at any lengths."""


class Value(Protocol):
    """What follows from the lengths alone."""

    is_late: bool
    """Whether only the run tells it."""

    def at(self, lengths: Sequence[int]) -> Array:
        """The value at some lengths."""
        ...


class _Memory:
    """Memory for inputs and results at any lengths; it grows."""

    def __init__(self, run: Run, buffer: Buffer) -> None:
        self._run = run
        self._size = formula_of(buffer.size)
        self.raw: Array = np.empty(0, np.uint8)

    def expect(self, lengths: Sequence[int]) -> None:
        """Has room for some lengths.

        Raises:
            LimitError: there is not memory enough.
        """
        size = self._size(lengths)
        if size > self.raw.nbytes:
            grown = max(size, min(2 * self.raw.nbytes, size + GROWTH))
            self.raw = self._run.room.allocate((grown,), np.dtype(np.uint8))


class _Placed:
    """A tensor in memory."""

    def __init__(self, border: Border, memory: _Memory) -> None:
        self.is_late = any(map(has_computed, border.shape))
        self._shape = [formula_of(each) for each in border.shape]
        self._dtype = border.dtype.numpy
        self._memory = memory

    def at(self, lengths: Sequence[int]) -> Array:
        """The tensor at some lengths."""
        found: Array = np.ndarray([each(lengths) for each in self._shape], self._dtype, self._memory.raw)
        return found


@final
class OpenFrame(Resizable):
    """A subgraph bound to memory for any lengths: `resize`, write `inputs`, `invoke()`, read `outputs`."""

    lane: Lane | None = None
    whole = copies = None

    def __init__(self, index: int, layout: Layout, values: Mapping[int, Value], lengths: tuple[int, ...], run: Run,
                 bind: Callable[[Mapping[int, Array]], OpenStep | None],
                 alone: Callable[[tuple[Shape, ...]], Invocable]) -> None:
        """
        Args:
            index: of the subgraph.
            layout: where inputs and results lie.
            values: those that have no buffer.
            lengths: to begin with, all that the layout is for.
            run: the run, or runs one after another, that the frame serves.
            bind: makes the step, given buffers by tensor.
            alone: makes a frame for inputs of some shapes that takes any values.

        Raises:
            UnboundError: there is no step.
            LimitError: there is not memory enough.
        """
        self.run = run
        self._index = index
        self._assumptions = Conditions(layout.assumptions)
        self._given, self._results = layout.inputs, layout.outputs
        self._memory = {each.number: _Memory(run, each) for each in layout.buffers}
        self._tensors: dict[int, Value] = {
            each.tensor: values[each.tensor] if each.buffer is None else _Placed(each, self._memory[each.buffer])
            for each in layout.borders}
        self._late = {each.tensor: each.buffer for each in layout.borders
                      if each.buffer is not None and self._tensors[each.tensor].is_late}
        self._computes = any(each.is_late for each in self._tensors.values())
        shapes = {each.tensor: each.shape for each in layout.borders}
        self._patterns = [[fixed(each) if is_fixed(each) else None for each in shapes[tensor]]
                          for tensor in layout.inputs]
        self._open = [(position, axis) for position, pattern in enumerate(self._patterns)
                      for axis, size in enumerate(pattern) if size is None]
        self._shapes = _UNSIZED
        self._taken = _UNSIZED, lengths
        """Shapes that were taken last, and all lengths for them."""
        self._lengths = lengths
        self._grows = bool(layout.room)
        self._make_alone = alone
        self._alone: tuple[tuple[Shape, ...], Invocable] | None = None
        self._is_left = False
        """Whether results are those of another frame."""
        self.asked: tuple[Shape, ...] = ()
        """The shapes of the inputs that `call` is to get next; whoever holds the frame says so."""
        self._viewed: Sequence[int] = ()
        """The lengths for which results whose shapes the run computes are shown."""
        self._arrays: dict[int, Array] = {}
        self.inputs: tuple[Array, ...] = ()
        self.outputs: tuple[Array, ...] = ()
        self._copies: Sequence[Callable[[], Array]] = ()
        self._view(lengths)
        step = bind(self._arrays)
        if step is None:
            raise UnboundError
        self._step = step
        self._run_step: Step
        """Runs it at the lengths that the frame has."""
        self._attempt: Step
        """The same, with the room that there is."""
        self.resize(tuple(map(np.shape, self.inputs)))

    @property
    def opened(self) -> OpenFrame | None:
        """This, if it is for inputs of several shapes."""
        return self if self._open else None

    @property
    def size(self) -> int:
        """The bytes of the buffers that the frame made for itself."""
        return sum(each.raw.nbytes for each in self._memory.values())

    def takes(self, shapes: tuple[Shape, ...]) -> bool:
        """Whether the frame is for inputs of these shapes."""
        if shapes == self._shapes:
            return True
        for shape, pattern in zip(shapes, self._patterns, strict=True):
            if len(shape) != len(pattern):
                return False
            for size, wanted in zip(shape, pattern, strict=True):
                if size != wanted and (wanted is not None or size < LEAST):
                    return False
        lengths = self._at(shapes)
        if not (self._assumptions.fit(lengths) and self._step.fits(lengths)):
            return False
        self._taken = shapes, lengths
        return True

    def _at(self, shapes: tuple[Shape, ...]) -> tuple[int, ...]:
        """All lengths for inputs of some shapes."""
        return (*[shapes[position][axis] for position, axis in self._open], *self._lengths[len(self._open):])

    def resize(self, shapes: tuple[Shape, ...]) -> None:
        """Makes `inputs` arrays of other shapes, which the frame takes.

        Raises:
            LimitError: there is not memory enough.
        """
        if shapes == self._shapes:
            return
        self._shapes = _UNSIZED
        known, lengths = self._taken
        self._take(lengths if shapes is known else self._at(shapes))
        self._run_step = self.run.observer.whole(self._repeat if self._grows else self._attempt, self._index)
        self._shapes = self.asked = shapes

    def _take(self, lengths: tuple[int, ...]) -> None:
        """Changes to some lengths; inputs stay where they are that have the same."""
        self.lane = None
        self._view(lengths)
        self._attempt = self._step.resize(lengths, self._arrays)
        self._lengths = lengths

    def _repeat(self) -> None:
        """Runs the subgraph with as much room as its loops turn out to need; by another frame where a number that the
        step takes for a length is negative, or so large that there is no such room, which that frame tells."""
        if self._is_left:
            self._retake(self._lengths)
        while True:
            try:
                self._attempt()
            except OutgrownError as error:
                if min(error.lengths) < 0 or not self._has_taken(error.lengths):
                    self._leave()
                    return
            else:
                return

    def _has_taken(self, lengths: tuple[int, ...]) -> bool:
        """As `_retake`, if there is memory enough."""
        shapes = self._shapes
        try:
            self._retake(lengths)
        except LimitError:
            self._shapes = shapes
            return False
        return True

    def _retake(self, lengths: tuple[int, ...]) -> None:
        """As `_take`, for the same shapes of inputs."""
        shapes, self._shapes = self._shapes, _UNSIZED
        self._take(lengths)
        self._shapes, self._is_left = shapes, False

    def _leave(self) -> None:
        """Runs the subgraph on a frame for any values."""
        self._retake(self._lengths)
        if self._alone is None or self._alone[0] != self._shapes:
            self._alone = self._shapes, self._make_alone(self._shapes)
        frame = self._alone[1]
        for target, source in zip(frame.inputs, self.inputs, strict=True):
            np.copyto(target, source)
        self.run.observer.begin_again(self._index)
        with np.errstate(all="ignore"):
            frame.invoke()
        self._is_left, self._viewed = True, ()
        self._show(frame.outputs)

    def _view(self, lengths: tuple[int, ...]) -> None:
        """Makes arrays for some lengths of all inputs and results."""
        self._viewed = ()
        for memory in self._memory.values():
            memory.expect(lengths)
        self._arrays = {number: each.at(lengths) for number, each in self._tensors.items() if not each.is_late}
        self._arrays |= {number: self._memory[buffer].raw for number, buffer in self._late.items()}
        self.inputs = tuple([self._arrays[each] for each in self._given])
        self._show([self._arrays[each] for each in self._results if each in self._arrays])

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on copies of inputs of the shapes `asked`; the results belong to the caller."""
        if self.asked != self._shapes:
            self.resize(self.asked)
        for target, source in zip(self.inputs, arrays):  # noqa: B905  # checked when shapes were asked for
            target[...] = source
        return self.compute()

    def compute(self) -> list[Array]:
        """The same, on what `inputs` hold."""
        self._run_step()
        if self._computes:
            self._view_results()
        return [copy() for copy in self._copies]

    def invoke(self) -> None:
        """Runs the subgraph once.

        Raises:
            ExecutionError: with the place of the operator that failed.
        """
        self._run_step()
        if self._computes:
            self._view_results()

    def _view_results(self) -> None:
        """Makes arrays for results whose shapes the run has computed."""
        if self._is_left:
            return
        lengths = self._step.lengths
        if lengths == self._viewed:
            return
        self._show([self._tensors[each].at(lengths) for each in self._results])
        self._viewed = lengths

    def _show(self, outputs: Iterable[Array]) -> None:
        self.outputs = tuple(outputs)
        self._copies = copiers(self.outputs)
