"""Compiling says that it takes a while, to people only."""

from __future__ import annotations

from io import StringIO
from threading import Event

from circlet.backends.native.load.progress import progress


class Terminal(StringIO):
    """Remembers when something is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.written.set()


def test_a_line_appears_and_goes() -> None:
    terminal = Terminal()
    with progress("compiling 'main'", terminal, patience=0):
        assert terminal.written.wait(30)
        assert terminal.getvalue() == "\rcirclet: compiling 'main', 0 s"
    assert terminal.getvalue().endswith("\r" + " " * 30 + "\r")


def test_what_is_quick_is_silent() -> None:
    terminal = Terminal()
    with progress("compiling 'main'", terminal, patience=1000):
        pass
    assert terminal.getvalue() == ""


def test_files_are_spared() -> None:
    file = StringIO()
    with progress("compiling 'main'", file, patience=0):
        pass
    assert file.getvalue() == ""
