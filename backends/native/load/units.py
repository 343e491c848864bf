"""Keeps object files of pieces on disk, by what they are made of: another model, or a changed one, takes from there
what it has in common with those that were compiled before."""

from __future__ import annotations

from collections.abc import Callable

from circlet.backends.native.load import cache
from circlet.backends.native.load.fingerprint import digest, toolchain
from circlet.backends.native.lower.pieces import Piece
from circlet.backends.native.targets.target import Target
from circlet.runtime.sha256 import sha256

_DIGEST = 32
"""Bytes of the digest that a file ends by; it tells of damage, not of forgery."""


def kept(piece: Piece, target: Target, make: Callable[[], bytes]) -> bytes:
    """The object file of a piece: from the disk, else made, and on the disk then, if there is room."""
    name = digest(toolchain(), target.triple, target.cpu, target.features, piece.passes.value,
                  piece.text).hex() + cache.UNIT
    found = _read(name)
    if found is None:
        found = make()
        cache.write(name, (found, sha256(found).digest()))
    return found


def _read(name: str) -> bytes | None:
    """The object file of a name; None if there is none, or it was damaged."""
    file = cache.find(name)
    if file is None:
        return None
    try:
        with file:
            content = file.read()
    except OSError:
        return None
    code = content[:-_DIGEST]
    return code if sha256(code).digest() == content[-_DIGEST:] else None
