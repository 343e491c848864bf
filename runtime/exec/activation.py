"""What one run of a session shares among all the frames it passes through."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from circlet.runtime.errors import CancelledError, ExecutionError, LimitError
from circlet.runtime.exec import fork
from circlet.runtime.exec.limits import Limits
from circlet.runtime.exec.listener import Listener, ListenerFailure, Observation
from circlet.runtime.exec.memory import Room
from circlet.runtime.exec.store import Store
from circlet.runtime.ir.model import Tensor
from circlet.runtime.ir.types import Array, DType, Shape

if TYPE_CHECKING:
    from circlet.runtime.exec.frame import Frame
    from circlet.runtime.exec.kernel import Step


class Variables:
    """The state of a session that outlives its runs.

    Only runs change values. Memory may be handed out meanwhile to other threads, which compile.
    """

    def __init__(self) -> None:
        self.values: dict[int, Array] = {}
        """By handle, unless a cell holds it. An assignment replaces the array, it never writes into one, so a copy of
        the dict is a snapshot."""
        self.handles: dict[tuple[str, str], int] = {}
        """By (container, shared name)."""
        self._store = Store()
        self._lock = Lock()
        """Held while memory is handed out."""
        self._cells: dict[int, tuple[Array, ...]] = {}
        self._holders: dict[int, Array] = {}
        self._called: dict[int, Array] = {}
        self._tensors: dict[tuple[int, int], tuple[Array, int]] = {}
        fork.watch(self)

    def after_fork(self) -> None:
        self._lock = Lock()

    def handle(self, container: str, name: str) -> int:
        return self.handles.setdefault((container, name), len(self.handles))

    def reserve(self, handle: int, shape: Shape, dtype: DType) -> Array:
        """The memory of a variable for values of a type and shape, where compiled code finds them. A value that there
        is stays where it lies."""
        found = self._fitting(handle, shape, dtype.numpy)
        if found is not None:
            return found
        with self._lock:
            found = self._fitting(handle, shape, dtype.numpy)
            if found is None:
                found = self._store.allocate(shape, dtype.numpy)
                self._cells[handle] = (*self._cells.get(handle, ()), found)
        return found

    def cell(self, handle: int, shape: Shape, dtype: DType) -> Array:
        """The same, with the value in it if it is of that type and shape; for the thread that runs."""
        found = self.reserve(handle, shape, dtype)
        self._settle(handle)
        return found

    def holder(self, handle: int) -> Array:
        """An int64: the address of the cell that holds the value of a variable; 0 if none does."""
        return self._word(self._holders, handle, np.dtype(np.int64))

    def _word(self, words: dict[int, Array], key: int, dtype: np.dtype[np.generic]) -> Array:
        """The word of a key, zero at first."""
        found = words.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in words:
                words[key] = self._store.allocate((), dtype)
        return words[key]

    def _fitting(self, handle: int, shape: Shape, dtype: np.dtype[np.generic]) -> Array | None:
        return next((each for each in self._cells.get(handle, ()) if each.shape == shape and each.dtype == dtype), None)

    def _settle(self, handle: int) -> None:
        """Puts a value into its cell, if there is one for it."""
        value = self.values.get(handle)
        if value is None or handle not in self._cells:
            return
        cell = self._fitting(handle, value.shape, value.dtype)
        self.holder(handle).fill(0 if cell is None else cell.ctypes.data)
        if cell is not None:
            cell[...] = self.values.pop(handle)

    def read(self, handle: int) -> Array:
        """The value of a variable, which the next assignment may overwrite."""
        for cell in self._cells.get(handle, ()):
            if self.holder(handle) == cell.ctypes.data:
                return cell
        try:
            return self.values[handle]
        except KeyError:
            raise ExecutionError(f"variable {self.name_of(handle)!r} is read before it is assigned") from None

    def assign(self, handle: int, value: Array) -> None:
        """Gives a variable a copy of a value."""
        self.values[handle] = value.copy()
        self._settle(handle)

    def name_of(self, handle: int) -> str | int:
        """The name of a variable, or, if it has none, its handle."""
        return next((name for (_, name), number in tuple(self.handles.items()) if number == handle), handle)

    def called(self, subgraph: int) -> Array:
        """An int32: whether CALL_ONCE has run a subgraph."""
        return self._word(self._called, subgraph, np.dtype(np.int32))

    def tensor(self, subgraph: int, index: int, declared: Tensor) -> Array:
        """The memory of a variable tensor, which kernels write into; it starts as zero, as real value."""
        key = (subgraph, index)
        with self._lock:
            if key not in self._tensors:
                zero = _zero(declared)
                self._tensors[key] = self._store.allocate(declared.shape, declared.dtype.numpy, zero), zero
        return self._tensors[key][0]

    def clear_tensors(self, subgraph: int | None = None) -> None:
        """Makes the variable tensors of one subgraph, or of all, zero."""
        with self._lock:
            tensors = tuple(self._tensors.items())
        for (owner, _), (array, zero) in tensors:
            if subgraph in (None, owner):
                array.fill(zero)

    def snapshot(self) -> Snapshot:
        """What `restore` needs to bring the present state back."""
        return Snapshot(dict(self.values), self._store.content())

    def restore(self, snapshot: Snapshot) -> None:
        """Goes back to an earlier state; the memory of cells and variable tensors stays where it is."""
        self.values = dict(snapshot.values)
        self._store.restore(snapshot.content)
        for handle in tuple(self.values):
            self._settle(handle)

    def reset(self) -> None:
        """Forgets every assignment, as in a new session."""
        self.restore(Snapshot({}, ()))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of `Variables` at one moment."""

    values: dict[int, Array]
    content: Sequence[Array]
    """Of cells, variable tensors and what CALL_ONCE has run."""


def _zero(declared: Tensor) -> int:
    quantization = declared.quantization
    return quantization.zero_point if quantization is not None and declared.dtype is DType.INT8 else 0


class FrameCache:
    """The frames of one activation for subgraphs whose shapes are known only as they are invoked.

    A loop that appends to what it carries has other shapes in every turn, and the same ones again in the next run.
    """

    MOST = 1 << 12
    LARGEST = 1 << 27
    """Bytes that the frames may own together."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._frames: OrderedDict[tuple[int, tuple[Shape, ...]], Frame] = OrderedDict()
        self._size = 0

    def get(self, key: tuple[int, tuple[Shape, ...]], make: Callable[[], Frame]) -> Frame:
        """The frame of (subgraph, input shapes), made if need be; the least recently used ones go."""
        frame = self._frames.get(key)
        if frame is not None:
            self._frames.move_to_end(key)
            return frame
        frame = self._frames[key] = make()
        self._size += frame.size
        most = self.LARGEST if self._room.most is None else min(self.LARGEST, self._room.most // 4)
        while len(self._frames) > 1 and (self._size > most or len(self._frames) > self.MOST):
            self._size -= self._frames.popitem(last=False)[1].size
        return frame


MOST_FRAMES = 1 << 11
"""How many frames are bound for one run. What is left is bound as it is invoked, which takes less memory."""
UNLIMITED = (1 << 63) - 1
SILENT = Listener()

ITERATIONS, STOP, TEAM, REQUEST, DEADLINE, NEXT, ARENA, CONTROL_WORDS = range(8)
"""The words of `Activation.control`, 64 bits each: iterations left; whether to stop, 0 or 1; the team of threads; what
the host is asked for; when the run must have ended, and when Python is to be asked whether it goes on, in nanoseconds;
the arena, for the host."""
MUCH = 1 << 12
"""Elements with which an operator takes longer by far than a look at the limits."""
PATIENCE = 50_000_000
"""Nanoseconds after which compiled code asks Python, so that its signal handlers run."""


class Activation:
    """One run in progress, or waiting to be used again: its variables, limits and observer."""

    def __init__(self, variables: Variables, observation: Observation = Observation.NONE) -> None:
        self.variables = variables
        self.observation = observation
        """What the frames of this activation report; fixed when they are bound."""
        self.listener = SILENT
        self.room = Room()
        """For the buffers of the run."""
        self.frames = FrameCache(self.room)
        self.cancelled = False
        self.control = np.zeros(CONTROL_WORDS, np.int64)
        """What compiled code looks at, and writes."""
        self._words = self.control.data
        self._words[DEADLINE] = UNLIMITED
        self._limit: int | None = None
        self.is_timed = False
        """Whether the run has a deadline."""
        self._deadline = 0.0
        self._end = UNLIMITED
        self._bound = 0

    @property
    def is_observed(self) -> bool:
        return self.observation is not Observation.NONE

    @property
    def is_stepped(self) -> bool:
        """Whether the listener is to hear of each invocation as it happens."""
        return self.observation not in (Observation.NONE, Observation.COUNTS)

    def observe(self, step: Step, subgraph: int, operator: int) -> Step:
        """A step that reports itself to the listener, where operators are observed."""
        if self.observation is not Observation.OPERATORS:
            return step

        def observed() -> None:
            self._tell(self.listener.will_run, subgraph, operator)
            step()
            self._tell(self.listener.did_run, subgraph, operator)

        return observed

    def observe_invocation(self, steps: Sequence[Step], subgraph: int) -> Sequence[Step]:
        """The steps of a subgraph, reporting its beginning and end."""
        if not self.is_observed:
            return steps
        return [partial(self.will_invoke, subgraph), *steps, partial(self.did_invoke, subgraph)]

    def will_invoke(self, subgraph: int) -> None:
        self._tell(self.listener.will_invoke, subgraph)

    def did_invoke(self, subgraph: int) -> None:
        self._tell(self.listener.did_invoke, subgraph)

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        self._tell(self.listener.did_copy, subgraph, operator, edge, size)

    def did_count(self, invocations: Mapping[int, int], copies: int, size: int) -> None:
        self._tell(self.listener.did_count, invocations, copies, size)

    def _tell(self, hear: Callable[..., None], *what: object) -> None:
        try:
            hear(*what)
        except Exception as error:
            raise ListenerFailure(error) from None

    def start(self, limits: Limits, listener: Listener | None = None) -> None:
        """Begins a run under the given limits."""
        self.cancelled = False
        self.listener = listener or SILENT
        self._limit = limits.max_iterations
        self.room.limit(limits.memory)
        words = self._words
        words[STOP] = words[NEXT] = 0
        words[ITERATIONS] = UNLIMITED if self._limit is None else min(self._limit, UNLIMITED)
        if limits.deadline is not None:
            self._deadline = limits.deadline
            self._end = words[DEADLINE] = _end(limits.deadline)
        elif self.is_timed:
            words[DEADLINE] = UNLIMITED
        self.is_timed = limits.deadline is not None

    def cancel(self) -> None:
        """Stops the run; may be called from any thread and from signal handlers."""
        self.cancelled = True
        self._words[STOP] = 1

    def stopped(self) -> NoReturn:
        """Raises the error for which compiled code stopped."""
        if self.cancelled:
            raise CancelledError("the run was cancelled")
        raise LimitError(f"the run went over its deadline of {self._deadline:g} s")

    def exhausted(self) -> LimitError:
        """The error for a loop that had no iteration left."""
        return LimitError(f"the run needs more than max_iterations={self._limit} loop iterations")

    def turn(self) -> None:
        """Called before each iteration of a loop.

        Raises:
            CancelledError, LimitError: the loop must stop here.
        """
        if self._limit is not None:
            if self.control[ITERATIONS] == 0:
                raise self.exhausted()
            self.control[ITERATIONS] -= 1
        self.check()

    def check(self) -> None:
        """Raises CancelledError or LimitError where the run must stop."""
        if self.cancelled or (self.is_timed and time.monotonic_ns() >= self._end):
            self.stopped()

    def watched(self, step: Step, operands: Iterable[Array | None]) -> Step:
        """A step after which the limits of the run are looked at, if it has much to do."""
        if all(each is None or each.size < MUCH for each in operands):
            return step

        def checked() -> None:
            step()
            self.check()

        return checked

    def go_on(self) -> None:
        """Called by compiled code now and then, which lets Python run its signal handlers.

        Raises:
            CancelledError, LimitError: the run must stop here.
        """
        self._words[NEXT] = time.monotonic_ns() + PATIENCE
        self.check()

    @contextmanager
    def binding(self) -> Iterator[None]:
        """Counts a frame, and those that are bound within it, until it is bound."""
        is_first = self._bound == 0
        self._bound += 1
        try:
            yield
        finally:
            if is_first and not self.is_crowded:
                self._bound = 0

    @property
    def is_crowded(self) -> bool:
        """Whether no more subgraphs are to be bound ahead: where each invokes the next one twice, they multiply."""
        return self._bound >= MOST_FRAMES


def _end(deadline: float) -> int:
    """When a run that begins now must have ended, by `time.monotonic_ns`."""
    return int(min(time.monotonic_ns() + deadline * 1e9, UNLIMITED))
