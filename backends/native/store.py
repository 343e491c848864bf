"""Loads compiled functions, and keeps them on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from circlet.backends.native import cache
from circlet.backends.native.artifact import Artifact, encode, load
from circlet.backends.native.library import ENTRY, Library, SharedLibrary, is_shared
from circlet.backends.native.manifest import Manifest
from circlet.backends.native.shared_object import UnknownObject, shared_object
from circlet.runtime.ir.types import Array


@dataclass(frozen=True, eq=False)
class Function:
    """A compiled function in this process."""

    library: Library
    manifest: Manifest
    constants: Array


def stored(key: str) -> Function | None:
    """The function of a name, if it is on the disk."""
    file = cache.find(key)
    return None if file is None else _opened(file)


def keep(key: str, artifact: Artifact) -> Function:
    """The function that an artifact is, which is on the disk then, if there is room."""
    file = cache.write(key, encode(_sharable(artifact)))
    found = None if file is None else _opened(file)
    if found is None and file is not None:
        cache.write(key, encode(artifact))
    return found or _linked(artifact)


def _sharable(artifact: Artifact) -> Artifact:
    """With a shared object for code, if there can be one."""
    try:
        return replace(artifact, code=(shared_object(artifact.code, ENTRY),))
    except UnknownObject:
        return artifact


def _opened(file: Path) -> Function | None:
    """The function in a file; None if it is damaged, or the system loads no code from there."""
    try:
        with file.open("rb") as content:
            artifact = load(content)
        if artifact is None or not is_shared(artifact.code[0]):
            return None if artifact is None else _linked(artifact)
        return Function(SharedLibrary(file), artifact.manifest, artifact.constants)
    except OSError:
        return None


def _linked(artifact: Artifact) -> Function:
    # LLVM takes its time to load: only where it is needed.
    from circlet.backends.native.target import link

    return Function(link(artifact.code, ENTRY), artifact.manifest, artifact.constants)
