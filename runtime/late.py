"""Modules that are imported when they are first needed, as most programs need few of them."""

from __future__ import annotations

import gc
import os
from importlib import import_module
from threading import RLock
from types import ModuleType

LOADING = RLock()
"""Held while modules are loaded late. Forks wait for it, as a child could never load what another thread is loading.

What is imported must not load anything late itself while it is: another thread might hold what either waits for."""


def imported(name: str) -> ModuleType:
    """The module of a name, which is imported if it was not yet.

    Raises:
        ModuleNotFoundError: there is none.
    """
    with LOADING:
        return import_module(name)


def age() -> None:
    """Counts what was made lately as long-lived, unlooked at, as Python's search for cycles would look through all of
    it at once: for after many objects were made that stay. Not where the program set objects aside itself, as these
    would come back."""
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOADING.acquire, after_in_parent=LOADING.release, after_in_child=LOADING.release)
