"""Makes code in threads of its own, so that whoever waits for it can stop waiting."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import Generic, TypeVar
from weakref import finalize

import numpy as np

from circlet.runtime.exec import fork

T = TypeVar("T")
"""What is made."""
S = TypeVar("S")
"""What it is made of."""

_LOOK = 0.02
"""Seconds between two looks whether to go on waiting: a choice, below what a user notices, and 50 wakings a second cost
nothing."""


class Abandoned(Exception):
    """Nobody wants what is being made."""


class _Collector:
    """Python's search for cycles of objects, which stands still while a thread writes code: of the many objects made
    then none is in vain, and looking through them takes nearly half of the time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._writers = 0
        self._was_on = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stands still as long as what is inside goes on, in any thread; then it is as it was."""
        with self._lock:
            self._writers += 1
            if self._writers == 1:
                self._was_on = gc.isenabled()
                gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._writers -= 1
                if self._writers == 0 and self._was_on:
                    gc.enable()

    def after_fork(self) -> None:
        """In a child nobody writes code any more."""
        if self._writers and self._was_on:
            gc.enable()
        self._lock, self._writers = Lock(), 0


COLLECTOR = _Collector()
"""That of this process."""
fork.watch(COLLECTOR)


class Wish:
    """Whether something is still wanted, for those that make it."""

    def __init__(self) -> None:
        self.is_withdrawn = False

    def withdraw(self) -> None:
        """Nobody wants it any more."""
        self.is_withdrawn = True

    def check(self) -> None:
        """Raises Abandoned if it is not."""
        if self.is_withdrawn:
            raise Abandoned

    def each(self, make: Callable[[S], T], items: Sequence[S], threads: int) -> list[T]:
        """What is made of each item, by several threads, the caller's among them; of none that was not begun when the
        wish is withdrawn."""
        results: dict[int, T] = {}
        errors: list[BaseException] = []
        numbers, lock = iter(range(len(items))), Lock()

        def work() -> None:
            try:
                while not errors:
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        return
                    self.check()
                    results[number] = make(items[number])
            except BaseException as error:  # raised again by the caller's thread
                errors.append(error)

        helpers = [started for _ in range(threads - 1) if (started := _started(work)) is not None]
        work()
        for each in helpers:
            each.join()
        if errors:
            raise errors[0]
        return [results[number] for number in range(len(items))]


def _started(work: Callable[[], None]) -> Thread | None:
    """A thread, which the program's end does not wait for; None if the system gives none."""
    thread = Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


class Compilation(Generic[T]):
    """Something that is being made."""

    def __init__(self, make: Callable[[Wish], T]) -> None:
        """Begins to make it; where there are no threads it is made at once."""
        self._make = make
        self._wish, self._done = Wish(), Event()
        self._result: T | None = None
        self._error: BaseException | None = None
        self._process = os.getpid()
        finalize(self, _finish, self._wish, self._done, self._process)
        if _started(self._run) is None:
            self._run()

    @property
    def is_done(self) -> bool:
        """Whether it was made, or failed."""
        return self._done.is_set()

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody wants it any more."""
        return self._wish.is_withdrawn

    @property
    def is_here(self) -> bool:
        """Whether it is done, or goes on in this process: one that forks does not hand on its threads."""
        return self.is_done or self._process == os.getpid()

    def result(self, check: Callable[[], None]) -> T:
        """What was made, once it is.

        Args:
            check: is called now and then; what it raises ends the waiting.
        """
        while not self._done.wait(_LOOK):
            check()
        if self._error is not None:
            raise self._error
        result: T = self._result  # type: ignore[assignment]  # T may be None
        return result

    def abandon(self) -> None:
        """Ends the making as soon as can be."""
        self._wish.withdraw()

    def _run(self) -> None:
        """Makes it, in its thread; keeps what is raised for whoever waits."""
        try:
            with np.errstate(all="ignore"):
                self._result = self._make(self._wish)
        except BaseException as error:  # raised again by whoever waits
            self._error = error
        finally:
            self._done.set()


def _finish(wish: Wish, done: Event, process: int) -> None:
    """Waits for what cannot be interrupted, as LLVM must not be at work when the program's memory is taken down.
    Objects live as long as their threads, so that this waits at the end of the program only."""
    if process == os.getpid():
        wish.withdraw()
        done.wait()
