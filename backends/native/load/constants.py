"""The constants of functions: what tells that they were damaged in a file, and where a process has them.

Those of the same bytes are there once. So code that is profiled reads the memory of the code that is not, and is as
fast: how well half a megabyte of weights gets on with a cache hangs on its pages, by up to 6 % of a loop that reads
them in each turn.
"""

from __future__ import annotations

from io import BufferedReader
from weakref import WeakValueDictionary

import numpy as np

from circlet.runtime.digests import blake2b
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.types import Array

_PAGE = 1 << 16
"""Constants that are mapped begin at a multiple of this in their file, which pages of all systems divide."""
_MAPPED = 1 << 22
"""Bytes from which on constants are mapped, not read: a choice. Reading 14 MB takes 5 ms, mapping them 0.5 ms. Fewer
are better off in pages that lie side by side, since they may stay in the second-level cache from run to run."""
_WORDS = 512
"""Words of 64 bits in a run whose sum stands for it: 4 KiB, which disks write at a time."""
_HELD: WeakValueDictionary[tuple[int, bytes], Array] = WeakValueDictionary()
"""By size and checksum, as long as a function holds them. They are only read."""


def checksum(constants: Array) -> bytes:
    """The digest of bytes, of which each whole run is represented by the sum of its words: nothing against forgery.

    What is missed are changes within a run that leave its sum as it is, such as words that change places. Of 14 MB it
    takes 0.3 ms, where CRC-32 takes 3.3 ms and SHA-256 of all 8 ms.
    """
    runs = constants.size // (8 * _WORDS)
    whole = constants[:8 * _WORDS * runs].view(np.uint64).reshape(runs, _WORDS)
    sums = whole.sum(axis=1).tobytes() if runs else b""
    return blake2b(sums + constants[whole.nbytes:].tobytes()).digest()


def shared(constants: Array, checksum: bytes) -> Array:
    """The constants, or others of the same bytes that are held already; the checksum is likely to tell them apart."""
    found = _HELD.setdefault((constants.size, checksum), constants)
    return found if found is constants or np.array_equal(found, constants) else constants


def begin_of(before: int, size: int) -> int:
    """Where constants of a size begin in a file, behind so many bytes."""
    return before + (-before % _PAGE if size >= _MAPPED else 0)


def read(file: BufferedReader, begin: int, size: int, expected: bytes) -> Array | None:
    """So many bytes of a file; None if they are not those of a checksum. Entries are never written to, so that they can
    be mapped as their code is."""
    if size >= _MAPPED:
        from mmap import ACCESS_READ, mmap  # seldom needed

        found = np.frombuffer(mmap(file.fileno(), size, access=ACCESS_READ, offset=begin), np.uint8)
        return found if checksum(found) == expected else None
    found = allocate((size,), np.dtype(np.uint8))
    file.seek(begin)
    return found if file.readinto(found.data) == size and checksum(found) == expected else None
