"""What one run of a session shares among all the frames it passes through."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from circlet.runtime.errors import CancelledError, ExecutionError, LimitError
from circlet.runtime.exec.listener import Listener
from circlet.runtime.ir.types import Array


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
        if self.deadline is not None and self.deadline < 0:
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

    def handle(self, container: str, name: str) -> int:
        return self.handles.setdefault((container, name), len(self.handles))

    def read(self, handle: int) -> Array:
        try:
            return self.values[handle]
        except KeyError:
            names = {number: name for (_, name), number in self.handles.items()}
            raise ExecutionError(f"variable {names.get(handle, handle)!r} is read before it is assigned") from None

    def snapshot(self) -> tuple[dict[int, Array], set[int]]:
        return dict(self.values), set(self.initialised)

    def restore(self, snapshot: tuple[dict[int, Array], set[int]]) -> None:
        self.values, self.initialised = dict(snapshot[0]), set(snapshot[1])


class Activation:
    """One run in progress, or waiting to be used again: its variables, limits and observer."""

    def __init__(self, variables: Variables, listener: Listener | None = None) -> None:
        self.variables = variables
        self.listener = listener
        """None exactly where frames were bound without observation."""
        self.cancelled = False
        self._turns_left = -1
        self._limit = -1
        self._end: float | None = None
        self._deadline = 0.0

    def start(self, limits: Limits) -> None:
        """Begins a run under the given limits."""
        self._limit = self._turns_left = -1 if limits.max_iterations is None else limits.max_iterations
        self._deadline = limits.deadline or 0.0
        self._end = None if limits.deadline is None else time.monotonic() + limits.deadline

    def turn(self) -> None:
        """Called before each iteration of a loop.

        Raises:
            CancelledError, LimitError: the loop must stop here.
        """
        if self.cancelled:
            raise CancelledError("the run was cancelled")
        if self._turns_left >= 0:
            if self._turns_left == 0:
                raise LimitError(f"the run needs more than max_iterations={self._limit} loop iterations")
            self._turns_left -= 1
        if self._end is not None and time.monotonic() >= self._end:
            raise LimitError(f"the run went over its deadline of {self._deadline:g} s")
