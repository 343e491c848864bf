"""Machine code in this process."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import sys
from collections.abc import Callable
from itertools import count
from typing import Protocol

from circlet.runtime.late import LOADING

VARIABLE = "CIRCLET_PERF"
"""The environment variable that, set to 1, has native code be visible to profilers and debuggers."""
ENTRY = "circlet_entry"
"""The name of the function that a library is entered by."""
ELF = b"\x7fELF"
"""What an ELF file begins with."""
_KIND = slice(16, 18)
"""Where an ELF file's type is, a 16-bit number."""
_SHARED = b"\x03\x00"
"""ET_DYN, a shared object."""
_NUMBERS = count(1)
"""Numbers of paths, from 1 on."""


class Library(Protocol):
    """Machine code in this process; it stays as long as the object does."""

    address: int
    """Where the entry function begins."""


class SharedLibrary:
    """A shared object that the system loaded."""

    def __init__(self, descriptor: int) -> None:
        """
        Args:
            descriptor: of the opened file, which may be closed afterwards.

        Raises:
            OSError: the system refuses to, or has no paths of opened files (`/proc`).
        """
        self._opened = Opened(descriptor)
        self.address: int = _ctypes.dlsym(self._opened.handle, ENTRY)


class Opened:
    """A shared object that the system loaded, and lets go of when nobody has this any more."""

    def __init__(self, descriptor: int) -> None:
        """
        Args:
            descriptor: of the opened file, which may be closed afterwards.

        Raises:
            OSError: the system refuses to, or has no paths of opened files (`/proc`).
        """
        path = _visible_path(descriptor) if is_visible() else _path(descriptor)
        self.handle: int = _ctypes.dlopen(path, ctypes.DEFAULT_MODE)
        """What the system knows it by."""

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending() and "handle" in self.__dict__:  # at the end a daemon thread may be in it
            _ctypes.dlclose(self.handle)


def is_visible() -> bool:
    """Whether the environment asks for code that tools can see; see `elf/symbols.py`."""
    return os.environ.get(VARIABLE) == "1"


def _visible_path(descriptor: int) -> str:
    """The path of an opened file by which debuggers can open it too, if it still leads there."""
    with LOADING:
        from circlet.backends.native.load.elf.symbols import file_path

    return file_path(descriptor) or _path(descriptor)


def _path(descriptor: int) -> str:
    """A path of an opened file that no other call gives: the system's loader takes files of one path for one file,
    though descriptors are used again. Dots, which lead nowhere, write a number."""
    dots = "".join("/." if digit == "1" else "/" for digit in f"{next(_NUMBERS):b}")
    return f"/proc/self/fd{dots}/{descriptor}"


def is_shared(code: bytes) -> bool:
    """Whether code is a shared object rather than an object file."""
    return code[:4] == ELF and code[_KIND] == _SHARED
