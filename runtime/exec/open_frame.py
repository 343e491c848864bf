"""The memory of an invocation of a subgraph at lengths that change from run to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import final

import numpy as np

from circlet.runtime.exec.frames import Resizable
from circlet.runtime.exec.kernel import OpenStep, Span
from circlet.runtime.exec.memory import LITTLE, copied
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.length import bound, formula, is_late, is_length
from circlet.runtime.ir.terms import LEAST
from circlet.runtime.ir.types import Array, Shape
from circlet.runtime.passes.analyses.alias import Aliases
from circlet.runtime.passes.analyses.specialize import General, Specialization, closed, is_open_value

GROWTH = 1 << 20
"""Bytes that are allocated beyond what is needed at the most, so that lengths that grow by one do not allocate each
time; a choice."""


class UnboundError(Exception):
    """No backend computes the subgraph at any lengths."""


class _Buffer:
    """Memory for a storage class at any lengths; it grows."""

    def __init__(self, run: Run, size: int) -> None:
        self._run = run
        self._size = formula(bound(size))
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


class _Tensor:
    """A tensor in a buffer, or one whose value follows from the lengths."""

    def __init__(self, spec: Specialization, number: int, buffer: _Buffer | None) -> None:
        self._shape = [formula(each) for each in spec.shape(number)]
        self._dtype = spec.subgraph.tensors[number].dtype.numpy
        self._buffer = buffer
        self._known = spec.known.get(number)
        values = () if self._known is None or not is_open_value(self._known) else tuple(self._known.flat)
        self.is_computed = any(map(is_late, (*spec.shape(number), *values)))
        """Whether only the run tells its shape or value."""

    def at(self, lengths: Sequence[int]) -> Array:
        """The tensor at some lengths."""
        if self._known is not None:
            return closed(self._known, lengths, self._dtype) if is_open_value(self._known) else self._known
        assert self._buffer is not None, "what is not known has memory"
        found: Array = np.ndarray([each(lengths) for each in self._shape], self._dtype, self._buffer.raw)
        return found


@final
class OpenFrame(Resizable):
    """A subgraph bound to memory for any lengths: `resize`, write `inputs`, `invoke()`, read `outputs`."""

    is_compiled = True
    is_fixed = False

    def __init__(self, spec: Specialization, general: General, aliases: Aliases, run: Run,
                 bind: Callable[[Span], OpenStep | None]) -> None:
        """
        Args:
            spec: the case to begin with.
            general: of which it is one.
            aliases: the storage classes of the subgraph, whose inputs are all the frame's own.
            run: the run, or runs one after another, that the frame serves.
            bind: makes the step.

        Raises:
            UnboundError: there is no step.
            LimitError: there is not memory enough.
        """
        self.run = run
        self._general = general
        subgraph = general.spec.subgraph
        self._given = subgraph.inputs
        self._results = subgraph.outputs
        self._buffers: dict[int, _Buffer] = {}
        self._tensors: dict[int, _Tensor] = {}
        for tensor in dict.fromkeys((*self._given, *self._results)):
            root = aliases.root(tensor)
            if tensor not in general.spec.known and root not in self._buffers:
                self._buffers[root] = _Buffer(run, aliases.size(root))
            self._tensors[tensor] = _Tensor(general.spec, tensor, self._buffers.get(root))
        self._late = {number: aliases.root(number) for number, each in self._tensors.items()
                      if each.is_computed and number not in general.spec.known}
        self._computes = any(each.is_computed for each in self._tensors.values())
        self._patterns = [[None if is_length(size) else size for size in general.spec.shape(tensor)]
                          for tensor in self._given]
        self._open = [(position, axis) for position, pattern in enumerate(self._patterns)
                      for axis, size in enumerate(pattern) if size is None]
        self._shapes: tuple[Shape, ...] = ()
        self.asked: tuple[Shape, ...] = ()
        """The shapes of the inputs that `call` is to get next; whoever holds the frame says so."""
        self._arrays: dict[int, Array] = {}
        self.inputs: tuple[Array, ...] = ()
        self.outputs: tuple[Array, ...] = ()
        self._copies: Sequence[Callable[[], Array]] = ()
        self.planned_shapes = spec.shapes
        """The shape of each tensor at first."""
        self._view(spec.lengths)
        self._step = self._bound(spec, aliases, bind)
        self._run_step: Step
        """Runs it at the lengths that the frame has."""
        self.resize(tuple(spec.shape(each) for each in self._given))

    def _bound(self, spec: Specialization, aliases: Aliases, bind: Callable[[Span], OpenStep | None]) -> OpenStep:
        known, subgraph = self._general.spec.known, spec.subgraph
        arrays = [None if number in known else self._arrays.get(number) for number in range(len(subgraph.tensors))]
        exported = frozenset(each for each in self._results if each not in known)
        step = bind(Span(spec, range(len(subgraph.operators)), aliases, arrays, exported, self.run, is_whole=True))
        if step is None:
            raise UnboundError
        return step

    @property
    def size(self) -> int:
        """The bytes of the buffers that the frame made for itself."""
        return sum(each.raw.nbytes for each in self._buffers.values())

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
        lengths = [shapes[position][axis] for position, axis in self._open]
        return self._general.fits(lengths) and self._step.fits(lengths)

    def resize(self, shapes: tuple[Shape, ...]) -> None:
        """Makes `inputs` arrays of other shapes, which the frame takes.

        Raises:
            LimitError: there is not memory enough.
        """
        if shapes == self._shapes:
            return
        self._shapes = ()
        lengths = tuple([shapes[position][axis] for position, axis in self._open])
        self._view(lengths)
        self._run_step = self._step.resize(lengths, self._arrays)
        self._shapes = self.asked = shapes

    def _view(self, lengths: tuple[int, ...]) -> None:
        """Makes arrays for some lengths of all inputs and results."""
        for each in self._buffers.values():
            each.expect(lengths)
        self._arrays = {number: each.at(lengths) for number, each in self._tensors.items() if not each.is_computed}
        self._arrays.update((number, self._buffers[root].raw) for number, root in self._late.items())
        self.inputs = tuple([self._arrays[each] for each in self._given])
        self._show([self._arrays[each] for each in self._results if each in self._arrays])

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on copies of inputs of the shapes `asked`; the results belong to the caller."""
        if self.asked != self._shapes:
            self.resize(self.asked)
        for target, source in zip(self.inputs, arrays):  # noqa: B905  # checked when shapes were asked for
            target[...] = source
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
        lengths = self._step.lengths
        self._show([self._tensors[each].at(lengths) for each in self._results])

    def _show(self, outputs: Iterable[Array]) -> None:
        self.outputs = tuple(outputs)
        self._copies = [partial(copied, each) if each.nbytes > LITTLE else each.copy for each in self.outputs]
