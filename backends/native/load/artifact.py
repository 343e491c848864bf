"""A compiled function as it is kept: its code, what it needs beside the code, and the constants it reads."""

from __future__ import annotations

from collections.abc import Sequence
from io import SEEK_END, BufferedReader
from itertools import accumulate
from struct import Struct

import numpy as np

from circlet.backends.native.load import codec
from circlet.backends.native.load.codec import DamageError
from circlet.backends.native.load.constants import checksum, shared
from circlet.backends.native.load.manifest import Manifest
from circlet.runtime.digests import blake2b
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass, replace


@dataclass(frozen=True, eq=False)
class Artifact:
    """A compiled function, for any frame."""

    code: tuple[bytes, ...]
    """Object files that belong together, or one shared object."""
    manifest: Manifest
    constants: Array
    """Bytes; begins on a cache line."""


_END = Struct("<8sQQQ32s32s32s")
"""Mark, bytes of code, constants and manifest, checksums of code and constants, BLAKE2b of the manifest. They tell of
damage, not of forgery: a file is as trustworthy as those who can write to it."""
_MARK = b"circlet9"
"""What an artifact's file ends by; the number is that of the format."""
_PAGE = 1 << 16
"""Constants that are mapped begin at a multiple of this in their file, which pages of all systems divide."""
_MAPPED = 1 << 22
"""Bytes from which on constants are mapped, not read: a choice. Reading 14 MB takes 5 ms, mapping them 0.5 ms. Fewer
are better off in pages that lie side by side, since they may stay in the second-level cache from run to run."""


def encode(artifact: Artifact) -> tuple[bytes, bytes, memoryview, bytes, bytes]:
    """The artifact as bytes, in parts that follow each other; the code comes first, so that a loader finds it."""
    code, constants = b"".join(artifact.code), artifact.constants
    manifest = codec.encode(replace(artifact.manifest, pieces=tuple(len(each) for each in artifact.code)))
    end = _END.pack(_MARK, len(code), constants.nbytes, len(manifest), _checksum(code), checksum(constants),
                    blake2b(manifest).digest())
    return code, bytes(_begin(len(code), constants.nbytes) - len(code)), constants.data, manifest, end


def load(file: BufferedReader, held: Array | None = None) -> Artifact | None:
    """The artifact that `encode` made the content of a file of; None if it was damaged since. `held` are its constants,
    where they are in memory."""
    total = file.seek(0, SEEK_END)
    if total < _END.size:
        return None
    file.seek(total - _END.size)
    mark, code_size, size, manifest_size, expected_code, expected, digest = _END.unpack(file.read(_END.size))
    begin = _begin(code_size, size)
    if mark != _MARK or begin + size + manifest_size + _END.size != total:
        return None
    file.seek(0)
    code = file.read(code_size)
    file.seek(begin + size)
    content = file.read(manifest_size)
    if _checksum(code) != expected_code or blake2b(content).digest() != digest:
        return None
    constants = held if held is not None else _constants(file, begin, size, expected)
    try:
        manifest = codec.decode(Manifest, content)
    except DamageError:
        return None
    if constants is None or not manifest.pieces or sum(manifest.pieces) != code_size:
        return None
    return Artifact(_cut(code, manifest.pieces), manifest, shared(constants, expected))


def _begin(code_size: int, size: int) -> int:
    """Where constants of a size begin in a file."""
    return code_size + (-code_size % _PAGE if size >= _MAPPED else 0)


def _checksum(code: bytes) -> bytes:
    return checksum(np.frombuffer(code, np.uint8))


def _constants(file: BufferedReader, begin: int, size: int, expected: bytes) -> Array | None:
    """So many bytes of a file; None if they are not those of a checksum. Entries are never written to, so that they can
    be mapped as their code is."""
    if size >= _MAPPED:
        from mmap import ACCESS_READ, mmap  # seldom needed

        found = np.frombuffer(mmap(file.fileno(), size, access=ACCESS_READ, offset=begin), np.uint8)
        return found if checksum(found) == expected else None
    found = allocate((size,), np.dtype(np.uint8))
    file.seek(begin)
    return found if file.readinto(found.data) == size and checksum(found) == expected else None


def _cut(code: bytes, sizes: Sequence[int]) -> tuple[bytes, ...]:
    """The object files in a run of bytes."""
    return tuple(code[end - size:end] for end, size in zip(accumulate(sizes), sizes, strict=True))
