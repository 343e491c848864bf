"""Work on the state of a session: by one thread at a time, and taken back if it fails."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import TypeVar

from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.exec.watch import Watch

WAIT = 0.02
"""Seconds between two looks at the limits of a run that waits for another one."""
T = TypeVar("T")


class Transactions:
    """Does all work on the state of a session; one piece of work may begin within another, in the same thread."""

    def __init__(self, variables: Variables) -> None:
        self._variables = variables
        self._lock = RLock()
        self.is_changing = False
        """Whether work is in progress."""

    def alone(self, watch: Watch, work: Callable[[], T]) -> T:
        """Does work of a run: waits for others, keeps them out, and takes it back if it fails or comes too late.

        Raises:
            CancelledError, LimitError: the run must stop.
        """
        if not self._lock.acquire(False):
            while not self._lock.acquire(timeout=WAIT):
                watch.check()
        if self.is_changing:
            return self._within(watch, work)
        try:
            self._variables.begin()
            self.is_changing = True
            result = work()
            if watch.cancelled or watch.is_timed:
                watch.check()
            return result
        except BaseException:
            if self.is_changing:
                self._variables.roll_back()
            raise
        finally:
            self.is_changing = False
            self._lock.release()

    def _within(self, watch: Watch, work: Callable[[], T]) -> T:
        """Does work within other work, which goes on if it fails; gives the lock back."""
        try:
            with self._variables.within() as snapshot:
                try:
                    result = work()
                    watch.check()
                    return result
                except BaseException:
                    self._variables.restore(snapshot)
                    raise
        finally:
            self._lock.release()

    def change(self, work: Callable[[], None]) -> None:
        """Does work of no run; waits for others as long as it takes."""
        with self._lock:
            self.alone(_UNWATCHED, work)

    def after_fork(self) -> None:
        """Takes back what a thread that is not in this process was changing."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            return
        self._lock = RLock()
        if self.is_changing:
            self._variables.roll_back()
            self.is_changing = False


_UNWATCHED = Watch()
"""Lets work go on."""
