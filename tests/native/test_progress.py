"""Compiling says that it takes a while, to people only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from threading import Event

import numpy as np
import pytest

from circlet.backends.native import backend
from circlet.backends.native.load.progress import progress
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.unary import Tanh
from tests.native.against_cpu import agree, values


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
    with progress(lambda: "compiling 'main'", terminal, patience=0):
        assert terminal.written.wait(30)
        assert terminal.getvalue() == "\rcirclet: compiling 'main', 0 s"
    assert terminal.getvalue().endswith("\r" + " " * 30 + "\r")


def test_a_shorter_line_covers_a_longer_one() -> None:
    terminal, lines = Terminal(), iter(["compiling 'main', 9 kernels (rows)", "compiling 'main', 10 kernels (f)"])
    with progress(lambda: next(lines, "over"), terminal, patience=0):
        for _ in range(2):
            assert terminal.written.wait(30)
            terminal.written.clear()
    first, second = terminal.getvalue().split("\r")[1:3]
    assert first == "circlet: compiling 'main', 9 kernels (rows), 0 s"
    assert second.rstrip().startswith("circlet: compiling 'main', 10 kernels (f), ")
    assert len(second) == len(first)


def test_what_is_quick_is_silent() -> None:
    terminal = Terminal()
    with progress(lambda: "compiling 'main'", terminal, patience=1000):
        pass
    assert terminal.getvalue() == ""


def test_files_are_spared() -> None:
    file = StringIO()
    with progress(lambda: "compiling 'main'", file, patience=0):
        pass
    assert file.getvalue() == ""


def test_each_kernel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    told: list[Callable[[], str]] = []

    @contextmanager
    def shown(what: Callable[[], str]) -> Iterator[None]:
        told.append(what)
        yield

    monkeypatch.setattr(backend, "progress", shown)
    agree(lambda s, x: [s.apply(Softmax(1.0), s.apply(Tanh(), x))], values((40, 30), np.float32, 1))
    (what,) = told
    assert re.fullmatch(r"compiling 'main', \d+ kernels \([a-z_]\w*\)", what())
