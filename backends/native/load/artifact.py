"""A compiled function as it is kept: its code, what it needs beside the code, and the constants it reads."""

from __future__ import annotations

from collections.abc import Sequence
from io import SEEK_END, BufferedReader
from itertools import accumulate
from struct import Struct

import numpy as np

from circlet.backends.native.load import codec
from circlet.backends.native.load.codec import DamageError
from circlet.backends.native.load.constants import begin_of, checksum, read, shared
from circlet.backends.native.load.manifest import Manifest
from circlet.runtime.digests import blake2b
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


def encode(artifact: Artifact) -> tuple[bytes, bytes, memoryview, bytes, bytes]:
    """The artifact as bytes, in parts that follow each other; the code comes first, so that a loader finds it."""
    code, constants = b"".join(artifact.code), artifact.constants
    manifest = codec.encode(replace(artifact.manifest, pieces=tuple(len(each) for each in artifact.code)))
    end = _END.pack(_MARK, len(code), constants.nbytes, len(manifest), _checksum(code), checksum(constants),
                    blake2b(manifest).digest())
    return code, bytes(begin_of(len(code), constants.nbytes) - len(code)), constants.data, manifest, end


def load(file: BufferedReader, held: Array | None = None) -> Artifact | None:
    """The artifact that `encode` made the content of a file of; None if it was damaged since. `held` are its constants,
    where they are in memory."""
    total = file.seek(0, SEEK_END)
    if total < _END.size:
        return None
    file.seek(total - _END.size)
    mark, code_size, size, manifest_size, expected_code, expected, digest = _END.unpack(file.read(_END.size))
    begin = begin_of(code_size, size)
    if mark != _MARK or begin + size + manifest_size + _END.size != total:
        return None
    file.seek(0)
    code = file.read(code_size)
    file.seek(begin + size)
    content = file.read(manifest_size)
    if _checksum(code) != expected_code or blake2b(content).digest() != digest:
        return None
    constants = held if held is not None else read(file, begin, size, expected)
    try:
        manifest = codec.decode(Manifest, content)
    except DamageError:
        return None
    if constants is None or not manifest.pieces or sum(manifest.pieces) != code_size:
        return None
    return Artifact(_cut(code, manifest.pieces), manifest, shared(constants, expected))


def _checksum(code: bytes) -> bytes:
    return checksum(np.frombuffer(code, np.uint8))


def _cut(code: bytes, sizes: Sequence[int]) -> tuple[bytes, ...]:
    """The object files in a run of bytes."""
    return tuple(code[end - size:end] for end, size in zip(accumulate(sizes), sizes, strict=True))
