"""What is written: tables as nested mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass

Document: TypeAlias = "Mapping[str, object]"
"""A table: its fields by name. Scalars are numbers, vectors sequences, tables documents, unions members."""


@dataclass(frozen=True)
class Member:
    """A member of a union."""

    table: str
    document: Document

    def fields(self, name: str, tag: int) -> Document:
        """The two fields of a table that hold a member."""
        return {f"{name}_type": tag, name: self}


@dataclass(frozen=True, eq=False)
class Chunk:
    """Bytes that lie behind the tables.

    As the value of a vector of bytes it belongs to the flatbuffer; as that of a scalar it lies behind the flatbuffer
    and the scalar is its position in the file.
    """

    data: Array
    """Contiguous uint8."""
