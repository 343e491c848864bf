"""Shows on stderr how far a long command is: on terminals alone, where it is gone in the end."""

from __future__ import annotations

import os
import sys
from types import TracebackType


class Progress:
    """A line with a bar that says what is being done."""

    def __init__(self, is_wanted: bool) -> None:
        """
        Args:
            is_wanted: whether anything is shown where stderr is a terminal that can be written to anew.
        """
        self._bar = _Bar() if is_wanted and sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, text: str, done: float) -> None:
        """Says what is being done, and which part of all is done, from 0 to 1."""
        if self._bar is not None:
            self._bar.show(text, done)


class _Bar:
    """The bar of rich, which takes its time to import."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(),
                        console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=1.0)
        self._bar.start()

    def show(self, text: str, done: float) -> None:
        self._bar.update(self._task, description=text, completed=done)

    def stop(self) -> None:
        self._bar.stop()
