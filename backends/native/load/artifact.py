"""A compiled function as it is kept: its code, what it needs beside the code, and the constants it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from io import SEEK_END, BufferedReader
from itertools import accumulate
from struct import Struct
from zlib import crc32

import numpy as np

from circlet.backends.native.load import codec
from circlet.backends.native.load.codec import DamageError
from circlet.backends.native.load.manifest import Constant, Manifest, Origin, Stored
from circlet.backends.native.parts import Fixed, Source
from circlet.backends.native.program import Program
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.length import terms_of
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import ALIGNMENT, Array
from circlet.runtime.records import dataclass


@dataclass(frozen=True, eq=False)
class Artifact:
    """A compiled function, for any frame."""

    code: tuple[bytes, ...]
    """Object files that belong together, or one shared object."""
    manifest: Manifest
    constants: Array
    """Bytes; begins on a cache line."""


def gather(program: Program, code: tuple[bytes, ...], places: Mapping[tuple[int, int], Constant]) -> Artifact:
    """An artifact of what the lowering collected; `places` are the constants of the model."""
    stored: list[Array] = []
    origins: list[Origin] = []
    size = 0
    for array, source in zip(program.externals, program.sources, strict=True):
        origin = _origin(array, source, places, size)
        origins.append(origin)
        if isinstance(origin, Stored):
            stored.append(array)
            size = _aligned(size + origin.size)
    manifest = Manifest(tuple(program.sites), tuple(program.host_calls), tuple(origins),
                        tuple(map(terms_of, program.arena_tops)), terms_of(program.scratch_bytes),
                        program.shares_loops, program.is_brief, tuple(program.outline), program.watched,
                        program.assumptions, program.quotes)
    return Artifact(code, manifest, _joined(stored, size))


def constants_of(model: Model) -> Mapping[tuple[int, int], Constant]:
    """The constants of a model, by address and bytes."""
    return {
        (each.data.ctypes.data, each.data.nbytes): Constant(index, number)
        for index, subgraph in enumerate(model.subgraphs) for number, each in enumerate(subgraph.tensors)
        if each.data is not None
    }


def _origin(array: Array, source: Source, places: Mapping[tuple[int, int], Constant], offset: int) -> Origin:
    """Where a frame finds an array: what its source says, among the model's constants, or in the artifact."""
    if not isinstance(source, Fixed):
        return source
    return places.get((array.ctypes.data, array.nbytes)) or Stored(offset, array.nbytes)


def _aligned(size: int) -> int:
    """A size, filled up to a cache line."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _joined(arrays: Sequence[Array], size: int) -> Array:
    """The bytes of arrays one after another, each on a cache line of its own."""
    memory, offset = allocate((size,), np.dtype(np.uint8)), 0
    for each in arrays:
        end = offset + each.nbytes
        memory[offset:end] = np.ascontiguousarray(each).reshape(-1).view(np.uint8)
        memory[end:_aligned(end)] = 0
        offset = _aligned(end)
    return memory


_END = Struct("<8sQQQI32s")
"""Mark, bytes of code, manifest and constants, checksum of the constants, digest of code and manifest. They tell of
damage, not of forgery: a file is as trustworthy as those who can write to it."""
_MARK = b"circlet5"
"""What an artifact's file ends by; the number is that of the format."""


def encode(artifact: Artifact) -> tuple[bytes, memoryview, bytes, bytes]:
    """The artifact as bytes, in parts that follow each other; the code comes first, so that a loader finds it."""
    code, constants = b"".join(artifact.code), artifact.constants.data
    manifest = codec.encode(replace(artifact.manifest, pieces=tuple(len(each) for each in artifact.code)))
    end = _END.pack(_MARK, len(code), len(manifest), len(constants), crc32(constants),
                    sha256(code + manifest).digest())
    return code, constants, manifest, end


def load(file: BufferedReader) -> Artifact | None:
    """The artifact that `encode` made the content of a file of; None if it was damaged since."""
    total = file.seek(0, SEEK_END)
    if total < _END.size:
        return None
    file.seek(total - _END.size)
    mark, code_size, manifest_size, size, checksum, digest = _END.unpack(file.read(_END.size))
    if mark != _MARK or code_size + manifest_size + size + _END.size != total:
        return None
    file.seek(0)
    code, constants = file.read(code_size), allocate((size,), np.dtype(np.uint8))
    complete = file.readinto(constants.data) == size
    content = file.read(manifest_size)
    if not complete or sha256(code + content).digest() != digest or crc32(constants.data) != checksum:
        return None
    try:
        manifest = codec.decode(Manifest, content)
    except DamageError:
        return None
    if not manifest.pieces or sum(manifest.pieces) != code_size:
        return None
    return Artifact(_cut(code, manifest.pieces), manifest, constants)


def _cut(code: bytes, sizes: Sequence[int]) -> tuple[bytes, ...]:
    """The object files in a run of bytes."""
    return tuple(code[end - size:end] for end, size in zip(accumulate(sizes), sizes, strict=True))
