"""Machine code in this process."""

from __future__ import annotations

import _ctypes
import ctypes
from pathlib import Path
from typing import Protocol
from weakref import finalize

ENTRY = "circlet_entry"
"""The name of the function that a library is entered by."""
ELF = b"\x7fELF"
_KIND = slice(16, 18)
_SHARED = b"\x03\x00"


class Library(Protocol):
    """Machine code in this process; it stays as long as the object does."""

    address: int
    """Where the entry function begins."""


class SharedLibrary:
    """A shared object that the system loaded."""

    def __init__(self, file: Path) -> None:
        """
        Raises:
            OSError: the system refuses to.
        """
        library = ctypes.CDLL(str(file))
        finalize(self, _ctypes.dlclose, library._handle).atexit = False  # a daemon thread may be in it
        self.address: int = ctypes.cast(library[ENTRY], ctypes.c_void_p).value or 0


def is_shared(code: bytes) -> bool:
    """Whether code is a shared object rather than an object file."""
    return code[:4] == ELF and code[_KIND] == _SHARED
