"""Whether a run may go on: nobody stopped it, and it is within its limits."""

from __future__ import annotations

import time
from collections.abc import Iterable
from operator import index
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from circlet.runtime.errors import CancelledError, LimitError
from circlet.runtime.exec.limits import UNLIMITED, Limits
from circlet.runtime.ir.types import Array

if TYPE_CHECKING:
    from circlet.runtime.exec.step import Step

UNBOUNDED = (1 << 63) - 1
"""No bound; the largest value of a control."""
MUCH = 1 << 12
"""Elements with which an operator takes longer by far than a look at the limits."""


class Control(Protocol):
    """What a run looks at, and counts down, as it goes on."""

    iterations: int
    """How many are left."""
    stop: int
    """1 where the run must stop."""
    deadline: int
    """When the run must have ended, by `time.monotonic_ns`."""


class PlainControl:
    """A control that only Python knows."""

    def __init__(self) -> None:
        self.iterations = self.deadline = UNBOUNDED
        self.stop = 0


ControlT = TypeVar("ControlT", bound=Control)


class Watch:
    """Stops a run that was cancelled or went over a limit."""

    def __init__(self) -> None:
        self.control: Control = PlainControl()
        self.cancelled = False
        self.is_timed = False
        """Whether the run has a deadline."""
        self._limits = UNLIMITED
        self.lasting: Limits | None = self._limits
        """The limits, if they set nothing that a run uses up: to begin another one, it is enough to take back that this
        one was cancelled."""
        self._most: int | None = None
        self._seconds = 0.0
        self._allowed = 0
        """Nanoseconds from the start to the deadline."""
        self._end = UNBOUNDED

    def move(self, control: ControlT) -> ControlT:
        """Keeps the control in other memory from here on, which more than Python may read and write."""
        control.iterations, control.deadline = self.control.iterations, self.control.deadline
        control.stop = self.control.stop
        self.control = control
        if self.cancelled:  # perhaps by another thread, while the control was moving
            control.stop = 1
        return control

    def start(self, limits: Limits) -> None:
        """Begins a run under the given limits."""
        if limits is not self._limits:
            self._obey(limits)
        self.cancelled = False
        control = self.control
        control.stop = 0
        if self._most is not None:
            control.iterations = self._most
        if self.is_timed:
            end = time.monotonic_ns() + self._allowed
            control.deadline = self._end = end if end < UNBOUNDED else UNBOUNDED

    def _obey(self, limits: Limits) -> None:
        """Takes limits that are not those of the run before."""
        self._limits, most, seconds = limits, limits.max_iterations, limits.deadline
        self.control.iterations = self.control.deadline = UNBOUNDED
        self._most = None if most is None else index(min(most, UNBOUNDED))
        self.is_timed = seconds is not None
        self.lasting = limits if most is None and seconds is None else None
        self._seconds = seconds or 0.0
        self._allowed = int(min(self._seconds * 1e9, UNBOUNDED))

    def cancel(self) -> None:
        """Stops the run; may be called from any thread and from signal handlers."""
        self.cancelled = True
        self.control.stop = 1

    def stopped(self) -> NoReturn:
        """Raises the error for which the run stops."""
        if self.cancelled:
            raise CancelledError("the run was cancelled")
        raise LimitError(f"the run went over its deadline of {self._seconds:g} s")

    def exhausted(self) -> LimitError:
        """The error for a loop that had no iteration left."""
        return LimitError(f"the run needs more than max_iterations={self._limits.max_iterations} loop iterations")

    def turn(self) -> None:
        """Called before each iteration of a loop.

        Raises:
            CancelledError, LimitError: the loop must stop here.
        """
        if self._most is not None:
            if self.control.iterations == 0:
                raise self.exhausted()
            self.control.iterations -= 1
        self.check()

    def check(self) -> None:
        """
        Raises:
            CancelledError, LimitError: the run must stop here.
        """
        if self.cancelled or (self.is_timed and time.monotonic_ns() >= self._end):
            self.stopped()

    def after(self, step: Step, operands: Iterable[Array | None]) -> Step:
        """A step after which the limits are looked at, if it has much to do."""
        if all(each is None or each.size < MUCH for each in operands):
            return step

        def checked() -> None:
            step()
            self.check()

        return checked
