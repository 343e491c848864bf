"""Tells a person at a terminal that compiling takes a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TextIO

PATIENCE = 1.0
"""Seconds before anything is said: those after which people wonder. A choice."""
_INTERVAL = 0.5
"""Seconds between two lines: often enough for whole seconds. A choice."""


@contextmanager
def progress(what: Callable[[], str], stream: TextIO | None = None, patience: float = PATIENCE) -> Iterator[None]:
    """Shows a line such as `circlet: compiling 'main', 57 kernels (tile_f32_6x4), 2 s` as long as the block takes, and
    takes it away after that.

    Args:
        what: tells what is going on.
        stream: where to, standard error by default; nothing is written unless it is a terminal.
        patience: seconds before the line appears.
    """
    out = sys.stderr if stream is None else stream
    if out is None or not out.isatty():
        yield
        return
    done, begin = Event(), time.monotonic()
    thread = Thread(target=_show, args=(what, out, patience, begin, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(what: Callable[[], str], out: TextIO, patience: float, begin: float, done: Event) -> None:
    """Writes the line, again and again, and wipes it out in the end."""
    if done.wait(patience):
        return
    line = ""
    while True:
        line = f"circlet: {what()}, {time.monotonic() - begin:.0f} s".ljust(len(line))
        out.write(f"\r{line}")
        out.flush()
        if done.wait(_INTERVAL):
            break
    out.write(f"\r{' ' * len(line)}\r")
    out.flush()
