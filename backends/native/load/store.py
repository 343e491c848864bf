"""Loads compiled functions, and keeps them on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO

from circlet.backends.native.load import cache
from circlet.backends.native.load.artifact import Artifact, encode, load
from circlet.backends.native.load.library import (
    ENTRY,
    HEAD,
    Library,
    MappedLibrary,
    Mapping,
    SharedLibrary,
    is_shared,
    is_visible,
)
from circlet.backends.native.load.manifest import Manifest
from circlet.backends.native.load.sealed import Sealed
from circlet.backends.platform import Feature, current
from circlet.runtime.ir.types import Array
from circlet.runtime.late import LOADING
from circlet.runtime.records import dataclass, replace


@dataclass(frozen=True, eq=False)
class Function:
    """A compiled function in this process."""

    key: str
    """Its name on the disk."""
    library: Library
    manifest: Manifest
    constants: Array


def stored(key: str, constants: Array | None = None) -> Function | None:
    """The function of a name, if it is on the disk; None too if it is damaged, or the system loads no code from
    there. Its constants may be in memory already."""
    file = cache.find(key)
    if file is None:
        return None
    with file:
        return _loaded(key, file, constants)


def kept(key: str, most: int) -> Artifact | None:
    """What is on the disk of the function of a name, if it is not larger than so many bytes."""
    file = cache.find(key)
    if file is None:
        return None
    with file:
        return None if os.fstat(file.fileno()).st_size > most else load(file)


def enclosed_function(key: str, sealed: Sealed, manifest: Manifest, constants: Array, file: FileIO) -> Function | None:
    """The function that a shared object is, with which an opened file begins; None if that is another kind of code, or
    the system runs none from there."""
    if not is_shared(sealed.content[:HEAD].tobytes()) or not current().has(Feature.SHARED_OBJECTS):
        return None
    return _shared(key, manifest, constants, file, sealed.mapping)


def _shared(key: str, manifest: Manifest, constants: Array, file: FileIO, mapping: Mapping | None) -> Function | None:
    """The function that a shared object is, with which a file begins: in the file's mapping, or, where that does not
    do, as the system's loader loads it."""
    if mapping is not None and not is_visible():
        with suppress(OSError):
            return Function(key, MappedLibrary(mapping), manifest, constants)
    try:
        return Function(key, SharedLibrary(file.fileno()), manifest, constants)
    except OSError:
        return None


def keep(key: str, artifact: Artifact) -> Function:
    """The function that an artifact is, which is on the disk then, if there is room."""
    sharable = _sharable(artifact)
    is_kept = cache.write(key, encode(sharable))
    found = stored(key, artifact.constants) if is_kept else None
    if found is None and is_kept:
        cache.write(key, encode(artifact))
    return found or _in_memory(key, sharable) or _linked(key, artifact)


def told_apart(key: str) -> tuple[int, ...]:
    """The numbers of lengths that are kept under a name; none if there are none, or they are damaged."""
    return tuple(map(int, (cache.read_checked(key) or b"").split()))


def keep_told_apart(key: str, numbers: Sequence[int]) -> None:
    """Keeps numbers of lengths under a name, if there is room."""
    cache.write_checked(key, " ".join(map(str, numbers)).encode())


def _sharable(artifact: Artifact) -> Artifact:
    """With a shared object for code, if there can be one."""
    if not current().has(Feature.SHARED_OBJECTS):
        return artifact
    with LOADING:
        from circlet.backends.native.load.elf.shared_object import UnknownObject, shared_object

    try:
        code = shared_object(artifact.code, (ENTRY,), artifact.manifest.functions)
        return replace(artifact, code=(code,), manifest=replace(artifact.manifest, labels=()))
    except UnknownObject:
        return artifact


def _loaded(key: str, file: FileIO, constants: Array | None) -> Function | None:
    """The function in an opened file, whose path may lead elsewhere by now."""
    try:
        artifact = load(file, constants)
    except OSError:
        return None
    if artifact is None:
        return None
    if not is_shared(artifact.code[0]):
        return _in_memory(key, _sharable(artifact)) or _linked(key, artifact)
    if not current().has(Feature.SHARED_OBJECTS):
        return None
    return _shared(key, artifact.manifest, artifact.constants, file, artifact.mapping)


def _in_memory(key: str, artifact: Artifact) -> Function | None:
    """The function that the system loads from a file in memory; None where it does not. LLVM, which ends the process if
    code and its constants come to lie more than 2 GB apart, is not needed then."""
    if not is_shared(artifact.code[0]) or is_visible() or not hasattr(os, "memfd_create"):
        return None
    try:
        with open(os.memfd_create("circlet"), "wb") as file:
            file.write(artifact.code[0])
            file.flush()
            return Function(key, SharedLibrary(file.fileno()), artifact.manifest, artifact.constants)
    except OSError:
        return None


def _linked(key: str, artifact: Artifact) -> Function:
    """The function that LLVM links an artifact to."""
    # LLVM takes its time to load: only where it is needed.
    with LOADING:
        from circlet.backends.native.load.llvm import link

    if is_visible():
        return Function(key, _linked_visibly(artifact), artifact.manifest, artifact.constants)
    return Function(key, link(artifact.code, ENTRY), artifact.manifest, artifact.constants)


def _linked_visibly(artifact: Artifact) -> Library:
    """What LLVM links an artifact to, whose functions `perf` is told of."""
    with LOADING:
        from circlet.backends.native.load.elf.symbols import Symbol, add_to_map, functions_of
        from circlet.backends.native.load.llvm import link

    found = {each.name: each.size for content in artifact.code for each in functions_of(content)}
    library = link(artifact.code, ENTRY, tuple(found))
    labels = artifact.manifest.functions
    add_to_map(Symbol(labels.get(name, name), library.address_of(name), size) for name, size in found.items())
    return library
