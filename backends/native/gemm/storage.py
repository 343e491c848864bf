"""What tiles of products must know of right factors that memory has in other forms than words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter

Units: TypeAlias = "Sequence[Sequence[ir.Value]]"
"""What a tile loads before all others: for each vector of a panel its scales and zero points."""


class Stored(Protocol):
    """How a right factor is kept that is no words; see `stored.py`. Equal ones have equal names."""

    @property
    def name(self) -> str:
        """Tells it from others in the names of functions."""
        ...

    @property
    def group(self) -> int:
        """Steps of the depth that have the same scales and zero points; 0 if all have."""
        ...

    def unit_bytes(self, columns: int) -> int:
        """Of what belongs to so many columns, in a group of steps."""
        ...

    def step_bytes(self, columns: int) -> int:
        """Of a step of the depth in a panel."""
        ...

    def units(self, e: Emitter, memory: ir.Value, vectors: int, lanes: int) -> Units:
        """Loads what belongs to the columns of a panel."""
        ...

    def words(self, e: Emitter, panel: ir.Value, vectors: int, lanes: int, units: Units) -> list[ir.Value]:
        """Loads a step of the depth, as vectors of words."""
        ...
