"""The content of files, as read-only bytes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from circlet.runtime.exec.memory import allocate

_SETTLED = 2_000_000_000
"""Nanoseconds after which a change gives a file another time than the last one did: those of the coarsest file
systems."""


def read_file(path: str) -> memoryview:
    """What a file holds now.

    Raises:
        LimitError: there is not memory enough for the content of a file.
        OSError: the file cannot be read.
    """
    return read_with_status(path)[0]


def read_with_status(path: str) -> tuple[memoryview, os.stat_result | None]:
    """What a file holds now, and its status, if that will be another one after any change.

    Raises:
        As `read_file`.
    """
    with open(path, "rb", buffering=0) as file:
        content = allocate((os.fstat(file.fileno()).st_size,), np.dtype(np.uint8)).data
        size = 0
        while read := file.readinto(content[size:]):
            size += read
        return content[:size].toreadonly(), _settled(os.fstat(file.fileno()))


def _settled(status: os.stat_result) -> os.stat_result | None:
    """See `read_with_status`. Elsewhere than on POSIX systems no time is that of the last change of any kind."""
    is_old = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) >= _SETTLED
    return status if is_old and os.name == "posix" else None


def is_xml(content: memoryview) -> bool:
    """Whether a file begins as one of OpenVINO does, after white space and a byte order mark."""
    return bytes(content[:256]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<?xml", b"<net"))


def weights_beside(path: str | os.PathLike[str]) -> Path:
    """Where the weights of an OpenVINO model lie: beside it, in a file that differs in the suffix alone."""
    return Path(path).with_suffix(".bin")


def map_file(path: str) -> memoryview:
    """What a file holds at each moment; to look beyond its end, once it became shorter, ends the process.

    Raises:
        OSError: the file cannot be mapped.
    """
    import mmap  # seldom needed

    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")
