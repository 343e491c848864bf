"""A compiled function as it is kept: its code, what it needs beside the code, and the constants it reads."""

from __future__ import annotations

from collections.abc import Sequence
from io import FileIO
from itertools import accumulate

from circlet.backends.native.load.library import Mapping
from circlet.backends.native.load.manifest import Manifest
from circlet.backends.native.load.sealed import seal, shared, unseal
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
    mapping: Mapping | None = None
    """The whole file that it was read from, if it is mapped."""


_MARK = b"circletA"
"""What an artifact's file is known by; the last letter is that of the format."""


def encode(artifact: Artifact) -> tuple[bytes, memoryview, bytes]:
    """The artifact as bytes, in parts that follow each other; the code comes first, so that a loader finds it."""
    manifest = replace(artifact.manifest, pieces=tuple(len(each) for each in artifact.code))
    return seal(_MARK, b"".join(artifact.code), artifact.constants, manifest)


def load(file: FileIO, held: Array | None = None) -> Artifact | None:
    """The artifact that `encode` made the content of a file of; None if it was damaged since. `held` are its constants,
    where they are in memory."""
    found = unseal(file, _MARK, Manifest, held)
    if found is None:
        return None
    manifest, sealed = found
    if not manifest.pieces or sum(manifest.pieces) != sealed.content.size:
        return None
    code = _cut(sealed.content.tobytes(), manifest.pieces)
    return Artifact(code, manifest, shared(sealed.constants, sealed.checksum), sealed.mapping)


def _cut(code: bytes, sizes: Sequence[int]) -> tuple[bytes, ...]:
    """The object files in a run of bytes."""
    return tuple(code[end - size:end] for end, size in zip(accumulate(sizes), sizes, strict=True))
