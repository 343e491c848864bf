"""Keeps object files of pieces on disk, by what they are made of: another model, or a changed one, takes from there
what it has in common with those that were compiled before."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from circlet.backends.native.load import cache
from circlet.backends.native.load.fingerprint import digest
from circlet.backends.native.lower.pieces import Piece
from circlet.runtime.records import dataclass

_DIGITS = re.compile("_[0-9a-f]{24}$")


@dataclass(frozen=True)
class Unit:
    """An object file that there is now."""

    name: str
    """Of the function in it."""
    seconds: float
    """That it took to make it, or to read it."""
    is_kept: bool
    """Whether it was on the disk."""

    @property
    def kind(self) -> str:
        """The name without the digest that tells functions of operators apart."""
        return _DIGITS.sub("", self.name)


def kept(piece: Piece, maker: bytes, make: Callable[[], bytes], heard: Callable[[Unit], None] | None = None) -> bytes:
    """The object file of a piece: from the disk, else made, and on the disk then, if there is room; `heard` is told.
    What becomes of a piece hangs on it and on `maker` alone, which names what makes object files of pieces: files last
    longer than the versions of circlet that write the same pieces."""
    begin = time.perf_counter()
    name = digest(maker, piece.passes.value, piece.text).hex() + cache.UNIT
    found = read = cache.read_checked(name)
    if found is None:
        found = make()
        cache.write_checked(name, found)
    if heard is not None:
        heard(Unit(piece.name, time.perf_counter() - begin, read is not None))
    return found
