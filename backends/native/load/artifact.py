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


_END = Struct("<8sQQQ32s32s")
"""Mark, bytes of code, manifest and constants, checksum of the constants, BLAKE2b of code and manifest. They tell of
damage, not of forgery: a file is as trustworthy as those who can write to it."""
_MARK = b"circlet7"
"""What an artifact's file ends by; the number is that of the format."""


def encode(artifact: Artifact) -> tuple[bytes, memoryview, bytes, bytes]:
    """The artifact as bytes, in parts that follow each other; the code comes first, so that a loader finds it."""
    code, constants = b"".join(artifact.code), artifact.constants.data
    manifest = codec.encode(replace(artifact.manifest, pieces=tuple(len(each) for each in artifact.code)))
    end = _END.pack(_MARK, len(code), len(manifest), len(constants), checksum(artifact.constants),
                    blake2b(code + manifest).digest())
    return code, constants, manifest, end


def load(file: BufferedReader, held: Array | None = None) -> Artifact | None:
    """The artifact that `encode` made the content of a file of; None if it was damaged since. `held` are its constants,
    where they are in memory."""
    total = file.seek(0, SEEK_END)
    if total < _END.size:
        return None
    file.seek(total - _END.size)
    mark, code_size, manifest_size, size, expected, digest = _END.unpack(file.read(_END.size))
    if mark != _MARK or code_size + manifest_size + size + _END.size != total:
        return None
    file.seek(0)
    code, constants = file.read(code_size), _constants(file, size, expected) if held is None else held
    file.seek(code_size + size)
    content = file.read(manifest_size)
    if constants is None or blake2b(code + content).digest() != digest:
        return None
    try:
        manifest = codec.decode(Manifest, content)
    except DamageError:
        return None
    if not manifest.pieces or sum(manifest.pieces) != code_size:
        return None
    return Artifact(_cut(code, manifest.pieces), manifest, shared(constants, expected))


def _constants(file: BufferedReader, size: int, expected: bytes) -> Array | None:
    """So many bytes of a file; None if they are not those of a checksum."""
    found = allocate((size,), np.dtype(np.uint8))
    return found if file.readinto(found.data) == size and checksum(found) == expected else None


def _cut(code: bytes, sizes: Sequence[int]) -> tuple[bytes, ...]:
    """The object files in a run of bytes."""
    return tuple(code[end - size:end] for end, size in zip(accumulate(sizes), sizes, strict=True))
