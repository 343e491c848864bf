"""The content of files, as read-only bytes."""

from __future__ import annotations

import os

import numpy as np

from circlet.runtime.exec.memory import allocate


def read_file(path: str) -> memoryview:
    """What a file holds now.

    Raises:
        LimitError: there is not memory enough for the content of a file.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        content = allocate((os.fstat(file.fileno()).st_size,), np.dtype(np.uint8)).data
        return content[:file.readinto(content)].toreadonly()


def map_file(path: str) -> memoryview:
    """What a file holds at each moment; to look beyond its end, once it became shorter, ends the process.

    Raises:
        OSError: the file cannot be mapped.
    """
    import mmap  # seldom needed

    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")
