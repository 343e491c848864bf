"""Files that hold code, constants, and a record of what else is needed; what tells that they were damaged, and where a
process has constants.

The checks tell of damage, not of forgery: a file is as trustworthy as those who can write to it.

Constants of the same bytes are there once. So code that is profiled reads the memory of the code that is not, and is as
fast: how well half a megabyte of weights gets on with a cache hangs on its pages, by up to 6 % of a loop that reads
them in each turn.
"""

from __future__ import annotations

import os
from io import FileIO
from struct import Struct
from typing import TypeVar
from weakref import WeakValueDictionary

import numpy as np

from circlet.backends.native.load.codec import DamageError, decode, encode
from circlet.backends.native.load.library import Mapping
from circlet.runtime.digests import blake2b
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.types import ALIGNMENT, Array
from circlet.runtime.records import dataclass

RecordT = TypeVar("RecordT")
_MAPPED = 1 << 14
"""Bytes from which on files are mapped, not read, where the system lets it: a choice. Memory that was not used before
is made page by page; a file that others use has its pages, many of which are mapped at a time."""
_WORDS = 512
"""Words of 64 bits in a run whose sum stands for it: 4 KiB, which disks write at a time."""
_LITTLE = 1 << 15
"""Bytes that are digested as they are, before numpy would have begun to add: a choice."""
_COMPARED = 1 << 18
"""Bytes that are compared at a time, so that what is found of them stays in the cache."""
_HELD: WeakValueDictionary[tuple[int, bytes], Array] = WeakValueDictionary()
"""By size and checksum, as long as a function holds them. They are only read."""
_END = Struct("<8sQQQ32s32s")
"""Mark, bytes of code, record and constants, checksums of code and record, and of the constants."""


@dataclass(frozen=True, eq=False)
class Sealed:
    """What a file holds beside its record."""

    content: Array
    """The bytes of the code."""
    constants: Array
    """Bytes; begins on a cache line."""
    checksum: bytes
    """Of the constants."""
    mapping: Mapping | None
    """The whole file, if it is mapped."""


def seal(mark: bytes, code: bytes, constants: Array, record: object) -> tuple[bytes, memoryview, bytes]:
    """The content of a file, in parts that follow each other; the code comes first, so that a loader finds it.

    Args:
        mark: 8 bytes, which tell files of one kind and format from others.
    """
    told = encode(record)
    first = (code + told).ljust(padded(len(code) + len(told)), b"\0")
    end = _END.pack(mark, len(code), len(told), constants.nbytes, checksum(np.frombuffer(first, np.uint8)),
                    checksum(constants))
    return first, constants.data, end


def unseal(file: FileIO, mark: bytes, kind: type[RecordT], held: Array | None = None
           ) -> tuple[RecordT, Sealed] | None:
    """What was sealed with a mark; None if it was damaged since. Files are never written to once they are there, so
    that they can be mapped as their code is.

    Args:
        kind: of the record.
        held: the constants, where they are in memory.
    """
    mapping = _mapped(file)
    content = _read(file) if mapping is None else np.asarray(mapping)
    stop = content.size - _END.size
    if stop < 0:
        return None
    found, code_size, told_size, size, expected, of_constants = _END.unpack(content[stop:].data)
    begin = padded(code_size + told_size)
    if found != mark or begin + size != stop or checksum(content[:begin]) != expected:
        return None
    constants = content[begin:stop] if held is None else held
    if held is None and checksum(constants) != of_constants:
        return None
    try:
        record = decode(kind, content[code_size:code_size + told_size].data)
        return record, Sealed(content[:code_size], constants, of_constants, mapping)
    except DamageError:
        return None


def padded(size: int) -> int:
    """So many bytes, and those to the end of their last cache line."""
    return size + -size % ALIGNMENT


def checksum(content: Array) -> bytes:
    """The digest of bytes. Of many, each whole run is represented by the sum of its words: nothing against forgery.

    What is missed are changes within a run that leave its sum as it is, such as words that change places. Of 14 MB it
    takes 0.3 ms, where CRC-32 takes 3.3 ms and SHA-256 of all 8 ms.
    """
    if content.size <= _LITTLE:
        return blake2b(content.data).digest()
    runs = content.size // (8 * _WORDS)
    whole = content[:8 * _WORDS * runs].view(np.uint64).reshape(runs, _WORDS)
    sums = whole.sum(axis=1).tobytes() if runs else b""
    return blake2b(sums + content[whole.nbytes:].tobytes()).digest()


def shared(constants: Array, checksum: bytes) -> Array:
    """The constants, or others of the same bytes that are held already; the checksum is likely to tell them apart."""
    found = _HELD.setdefault((constants.size, checksum), constants)
    return found if found is constants or _are_equal(found, constants) else constants


def _are_equal(one: Array, other: Array) -> bool:
    """Whether as many bytes are the same, found out part by part, as numpy takes memory for what it finds of each."""
    return all(np.array_equal(one[k:k + _COMPARED], other[k:k + _COMPARED]) for k in range(0, one.size, _COMPARED))


def _mapped(file: FileIO) -> Mapping | None:
    """All bytes of a file, if they are not few and the system maps them. Elsewhere than on POSIX systems one that is
    mapped cannot be replaced."""
    size = os.fstat(file.fileno()).st_size
    if size < _MAPPED or os.name != "posix":
        return None
    try:
        return Mapping(file.fileno(), size)
    except OSError:
        return None


def _read(file: FileIO) -> Array:
    """All bytes of a file."""
    found = allocate((os.fstat(file.fileno()).st_size,), np.dtype(np.uint8))
    return found[:file.readinto(found.data)]
