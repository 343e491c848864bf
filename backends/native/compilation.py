"""Makes code in threads of its own, so that whoever waits for it can stop waiting."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Condition, Event, Lock, Thread
from typing import Generic, TypeVar
from weakref import finalize

import numpy as np

from circlet.runtime.exec import fork
from circlet.runtime.late import age

T = TypeVar("T")
"""What is made."""
S = TypeVar("S")
"""What it is made of."""

_LOOK = 0.02
"""Seconds between two looks whether to go on waiting: a choice, below what a user notices, and 50 wakings a second cost
nothing."""


_TURN = 1e-4
"""Seconds that a thread keeps Python to itself while code is written, where others want it: a choice, a few thousand
instructions."""


class Abandoned(Exception):
    """Nobody wants what is being made."""


class _Collector:
    """Python's search for cycles of objects, which stands still while a thread writes code, or what there is to say of
    a model: of the many objects made then none is in vain, and looking through them takes up to half of the time;
    what stays of them is taken for long-lived at once.
    Threads take turns more often then, as one that compiles asks Python for little, but at each of some thirty
    steps."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._writers: set[object] = set()
        self._before: tuple[bool, float] | None = None
        """Whether it was on, and how long threads kept Python, as long as that may be otherwise now: told before
        anything is changed, and until all is as it was, as a fork may come at any moment."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stands still as long as what is inside goes on, in any thread; then it is as it was."""
        writer = object()
        with self._lock:
            self._writers.add(writer)
            if self._before is None:
                self._pause()
        try:
            yield
        finally:
            with self._lock:
                self._writers.discard(writer)
                if not self._writers:
                    self._go_on()

    def after_fork(self) -> None:
        """In a child nobody writes code any more."""
        self._lock, self._writers = Lock(), set()
        self._go_on()

    def _pause(self) -> None:
        interval = sys.getswitchinterval()
        self._before = gc.isenabled(), interval
        gc.disable()
        sys.setswitchinterval(min(interval, _TURN))

    def _go_on(self) -> None:
        """All is as it was."""
        if self._before is not None:
            was_on, interval = self._before
            if was_on:
                age()
                gc.enable()
            sys.setswitchinterval(interval)
            self._before = None


COLLECTOR = _Collector()
"""That of this process."""
fork.watch(COLLECTOR)


class Wish:
    """Whether something is still wanted, for those that make it; they say here what they have made."""

    def __init__(self) -> None:
        self.is_withdrawn = False
        self.parts: list[str] = []
        """What was made for it so far, by name."""

    def withdraw(self) -> None:
        """Nobody wants it any more."""
        self.is_withdrawn = True

    def check(self) -> None:
        """Raises Abandoned if it is not."""
        if self.is_withdrawn:
            raise Abandoned


class Making(Generic[S, T]):
    """Things that several threads make while more of them are asked for."""

    def __init__(self, make: Callable[[S], T], wish: Wish, threads: int) -> None:
        """
        Args:
            make: one of them, in any thread.
            wish: none is begun once it is withdrawn.
            threads: how many make them; one of these asks, and makes none until it has asked for all.
        """
        self._make = make
        self._wish = wish
        self._most = threads - 1
        self._items: list[S] = []
        self._begun = 0
        self._is_complete = False
        self._results: dict[int, T] = {}
        self._errors: list[BaseException] = []
        self._helpers: list[Thread] = []
        self._changed = Condition()

    def __enter__(self) -> Making[S, T]:
        return self

    def __exit__(self, *error: object) -> None:
        """Waits for what is being made, and begins nothing more."""
        with self._changed:
            self._is_complete, self._begun = True, len(self._items)
            self._changed.notify_all()
        for each in self._helpers:
            each.join()

    def ask(self, item: S) -> None:
        """Asks for what is made of an item."""
        with self._changed:
            self._items.append(item)
            self._changed.notify()
        if len(self._helpers) < self._most and (started := _started(self._work)) is not None:
            self._helpers.append(started)

    def results(self) -> list[T]:
        """All that was asked for, in that order; of the errors, one is raised."""
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()
        self._work()
        for each in self._helpers:
            each.join()
        if self._errors:
            raise self._errors[0]
        return [self._results[number] for number in range(len(self._items))]

    def _work(self) -> None:
        """Makes one after the other until there are no more."""
        try:
            while (number := self._next()) is not None:
                self._wish.check()
                self._results[number] = self._make(self._items[number])
        except BaseException as error:  # raised again by the thread that asks
            self._errors.append(error)

    def _next(self) -> int | None:
        """The number of an item that nobody makes yet, once there is one; None if there will be none."""
        with self._changed:
            while self._begun == len(self._items) and not self._is_complete:
                self._changed.wait()
            if self._begun == len(self._items) or self._errors:
                return None
            self._begun += 1
            return self._begun - 1


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
    def parts(self) -> Sequence[str]:
        """What was made for it so far, by name."""
        return self._wish.parts

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
