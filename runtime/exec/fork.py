"""What must be put right in the child of a fork, where of all threads only the one that forked goes on."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Something with a lock, or with work in progress, that other threads may have at any moment."""

    def after_fork(self) -> None:
        """Called in the child, by its only thread: locks of other threads are never released, their work never ends."""
        ...


_WATCHED: WeakSet[Forked] = WeakSet()


def watch(one: Forked) -> None:
    """Has `one.after_fork` called in the child of every fork, as long as the object lives."""
    _WATCHED.add(one)


def _after_fork() -> None:
    for each in tuple(_WATCHED):
        each.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
