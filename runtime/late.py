"""Modules that are imported when they are first needed, as most programs need few of them."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from threading import RLock
from types import ModuleType


def age() -> None:
    """Counts what was made lately as long-lived, unlooked at, as Python's search for cycles would look through all of
    it at once: for after many objects were made that stay. Not where the program set objects aside itself, as these
    would come back."""
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


class _Loading:
    """A lock that its thread may take again. As long as one has it Python does not search for cycles of objects:
    modules stay, and looking through them takes a fifteenth of the time of loading them."""

    def __init__(self) -> None:
        self.lock = RLock()
        """Without a word on searches."""
        self._depth = 0
        """How often the thread that has it has taken it."""
        self._before = False, 0
        """Whether there were searches, and how many modules, when it did first."""

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Waits until no other thread has it."""
        self.lock.acquire()
        depth = self._depth
        try:
            if depth == 0:
                self._before = gc.isenabled(), len(sys.modules)
                gc.disable()
            self._depth = depth + 1
        except BaseException:  # a signal's
            self._depth = depth + 1
            self.release()
            raise

    def release(self) -> None:
        """Lets other threads have it, if this one has released it as often as it took it."""
        try:
            if self._depth == 1:
                self._search_again()
        finally:
            self._depth -= 1
            self.lock.release()

    def _search_again(self) -> None:
        was_on, count = self._before
        if not was_on:
            return
        try:
            if len(sys.modules) > count:
                age()
        finally:
            gc.enable()


LOADING = _Loading()
"""Held while modules are loaded late. Forks wait for it, as a child could never load what another thread is loading.

What is imported must not load anything late itself while it is: another thread might hold what either waits for."""


def imported(name: str) -> ModuleType:
    """The module of a name, which is imported if it was not yet.

    Raises:
        ModuleNotFoundError: there is none.
    """
    with LOADING:
        return import_module(name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOADING.lock.acquire, after_in_parent=LOADING.lock.release,
                        after_in_child=LOADING.lock.release)
