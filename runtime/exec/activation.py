"""What one run of a session shares among all the frames it passes through."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Timer
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from circlet.runtime.errors import CancelledError, ExecutionError, LimitError
from circlet.runtime.exec.listener import Listener, Observation
from circlet.runtime.ir.model import Tensor
from circlet.runtime.ir.types import Array, DType, Shape

if TYPE_CHECKING:
    from circlet.runtime.exec.frame import Frame
    from circlet.runtime.exec.kernel import Step


@dataclass(frozen=True)
class Limits:
    """Bounds on one run.

    Attributes:
        max_iterations: loop iterations, summed over all loops of the run; None for no bound.
        deadline: seconds from the start of the run; None for no bound.
    """

    max_iterations: int | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        if self.max_iterations is not None and self.max_iterations < 0:
            raise ValueError(f"max_iterations must not be negative, got {self.max_iterations}")
        if self.deadline is not None and not self.deadline >= 0:
            raise ValueError(f"deadline must not be negative, got {self.deadline}")


@dataclass
class Variables:
    """The state of a session that outlives its runs."""

    values: dict[int, Array] = field(default_factory=dict)
    """By handle. An assignment replaces the array, it never writes into one, so a copy of the dict is a snapshot."""
    handles: dict[tuple[str, str], int] = field(default_factory=dict)
    """By (container, shared name)."""
    initialised: set[int] = field(default_factory=set)
    """The subgraphs that CALL_ONCE has run."""
    tensors: dict[tuple[int, int], Array] = field(default_factory=dict)
    """Variable tensors by (subgraph, tensor); kernels write into them."""
    _zeros: dict[tuple[int, int], int] = field(default_factory=dict)

    def handle(self, container: str, name: str) -> int:
        return self.handles.setdefault((container, name), len(self.handles))

    def read(self, handle: int) -> Array:
        try:
            return self.values[handle]
        except KeyError:
            names = {number: name for (_, name), number in self.handles.items()}
            raise ExecutionError(f"variable {names.get(handle, handle)!r} is read before it is assigned") from None

    def tensor(self, subgraph: int, index: int, declared: Tensor) -> Array:
        """The memory of a variable tensor; it starts as zero, as real value."""
        key = (subgraph, index)
        if key not in self.tensors:
            self.tensors[key] = np.full(declared.shape, _zero(declared), declared.dtype.numpy)
            self._zeros[key] = _zero(declared)
        return self.tensors[key]

    def snapshot(self) -> Snapshot:
        """What `restore` needs to bring the present state back."""
        tensors = {key: each.copy() for key, each in self.tensors.items()}
        return Snapshot(dict(self.values), set(self.initialised), tensors)

    def restore(self, snapshot: Snapshot) -> None:
        """Goes back to an earlier state; the memory of variable tensors stays where it is."""
        self.values, self.initialised = dict(snapshot.values), set(snapshot.initialised)
        for key, each in self.tensors.items():
            each[...] = snapshot.tensors.get(key, self._zeros[key])

    def reset(self) -> None:
        """Forgets every assignment, as in a new session."""
        self.restore(Snapshot({}, set(), {}))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of `Variables` at one moment."""

    values: dict[int, Array]
    initialised: set[int]
    tensors: dict[tuple[int, int], Array]


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

    def __init__(self) -> None:
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
        while len(self._frames) > 1 and (self._size > self.LARGEST or len(self._frames) > self.MOST):
            self._size -= self._frames.popitem(last=False)[1].size
        return frame


MOST_FRAMES = 1 << 11
"""How many frames are bound for one run. What is left is bound as it is invoked, which takes less memory."""
UNLIMITED = (1 << 63) - 1
SILENT = Listener()


class Activation:
    """One run in progress, or waiting to be used again: its variables, limits and observer."""

    def __init__(self, variables: Variables, observation: Observation = Observation.NONE) -> None:
        self.variables = variables
        self.observation = observation
        """What the frames of this activation report; fixed when they are bound."""
        self.listener = SILENT
        self.frames = FrameCache()
        self.cancelled = False
        self.control = np.zeros(3, np.int64)
        """What compiled code looks at: iterations left, whether to stop, where to call the host."""
        self._words = self.control.data
        self._limit: int | None = None
        self._end: float | None = None
        self._deadline = 0.0
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
            self.listener.will_run(subgraph, operator)
            step()
            self.listener.did_run(subgraph, operator)

        return observed

    def observe_invocation(self, steps: Sequence[Step], subgraph: int) -> Sequence[Step]:
        """The steps of a subgraph, reporting its beginning and end."""
        if not self.is_observed:
            return steps
        return [partial(self.will_invoke, subgraph), *steps, partial(self.did_invoke, subgraph)]

    def will_invoke(self, subgraph: int) -> None:
        self.listener.will_invoke(subgraph)

    def did_invoke(self, subgraph: int) -> None:
        self.listener.did_invoke(subgraph)

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        self.listener.did_copy(subgraph, operator, edge, size)

    def did_count(self, invocations: Mapping[int, int], copies: int, size: int) -> None:
        self.listener.did_count(invocations, copies, size)

    def start(self, limits: Limits, listener: Listener | None = None) -> None:
        """Begins a run under the given limits."""
        self.cancelled = False
        self.listener = listener or SILENT
        self._limit = limits.max_iterations
        words = self._words
        words[0] = UNLIMITED if self._limit is None else min(self._limit, UNLIMITED)
        words[1] = 0
        if limits.deadline is None:
            self._end = None
        else:
            self._deadline = limits.deadline
            self._end = time.monotonic() + limits.deadline

    def cancel(self) -> None:
        """Stops the run before its next loop iteration; may be called from any thread."""
        self.cancelled = True
        self.control[1] = 1

    @property
    def has_deadline(self) -> bool:
        return self._end is not None

    @contextmanager
    def compiled(self) -> Iterator[None]:
        """Keeps the deadline for one call of compiled code, which looks at nothing but `control`."""
        assert self._end is not None, "only runs with a deadline need this"
        timer = Timer(max(self._end - time.monotonic(), 0.0), self.control.__setitem__, (1, 1))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def stopped(self) -> NoReturn:
        """Raises the error for which compiled code stopped a loop."""
        if self.cancelled:
            raise CancelledError("the run was cancelled")
        raise LimitError(f"the run went over its deadline of {self._deadline:g} s")

    def exhausted(self) -> NoReturn:
        """Raises the error for a loop that had no iteration left."""
        raise LimitError(f"the run needs more than max_iterations={self._limit} loop iterations")

    def turn(self) -> None:
        """Called before each iteration of a loop.

        Raises:
            CancelledError, LimitError: the loop must stop here.
        """
        if self._limit is not None:
            if self.control[0] == 0:
                self.exhausted()
            self.control[0] -= 1
        self.check()

    def check(self) -> None:
        """Raises CancelledError or LimitError where the run must stop."""
        if self.cancelled or (self._end is not None and time.monotonic() >= self._end):
            self.stopped()

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
