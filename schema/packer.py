"""Builds a flatbuffer from nested mappings, with the bulk of the data behind it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from flatbuffers import Builder, number_types

from circlet.runtime.errors import ModelError
from circlet.runtime.records import dataclass
from circlet.schema.document import Chunk, Document
from circlet.schema.format import Format
from circlet.schema.layout import SCALAR_CODES, Field, Kind

MOST_BYTES = (1 << 31) - 1
"""What a flatbuffer may have at most."""
_ALIGNMENT = 16
_FLAGS = {
    "?": number_types.BoolFlags, "b": number_types.Int8Flags, "B": number_types.Uint8Flags,
    "h": number_types.Int16Flags, "H": number_types.Uint16Flags, "i": number_types.Int32Flags,
    "I": number_types.Uint32Flags, "q": number_types.Int64Flags, "Q": number_types.Uint64Flags,
    "f": number_types.Float32Flags, "d": number_types.Float64Flags,
}
_TYPES = {code: np.dtype(f"<{code}") for code in SCALAR_CODES}


@dataclass(frozen=True)
class Packed:
    """A file about to be written."""

    pieces: tuple[bytes | bytearray | memoryview, ...]
    flatbuffer_size: int
    """How much of it is the flatbuffer."""

    def __iter__(self) -> Iterator[bytes | bytearray | memoryview]:
        return iter(self.pieces)


def pack(root: str, document: Document, format: Format) -> Packed:
    """Builds the file of a table.

    Raises:
        ModelError: a value does not fit its field.
    """
    packer = _Packer(format)
    packer.builder.Finish(packer.table(root, document), format.identifier)
    return packer.finish()


class _Packer:
    """A flatbuffer under construction, from its end to its begin."""

    def __init__(self, format: Format) -> None:
        self.builder: Any = Builder(1 << 16)
        self._layouts = format.layouts
        self._references: list[tuple[int, Chunk]] = []
        """Distance from the end of the tables of each reference to a chunk of the flatbuffer."""
        self._positions: list[tuple[int, Chunk]] = []
        """The same for chunks behind the flatbuffer."""

    def table(self, name: str, document: Document) -> int:
        layout = self._layouts[name]
        fields = [(key, layout.fields[key], value) for key, value in document.items()]
        ready = [(key, field, self._child(f"{name}.{key}", field, value)) for key, field, value in fields]
        self.builder.StartObject(layout.size)
        for key, field, value in ready:
            self._place(f"{name}.{key}", field, value)
        offset: int = self.builder.EndObject()
        return offset

    def _child(self, what: str, field: Field, value: Any) -> Any:
        """Writes what a field refers to; returns the reference, or the value of a scalar."""
        if field.kind is Kind.SCALAR or isinstance(value, Chunk):
            return value
        try:
            return self._referred(field, value)
        except (ValueError, OverflowError, FloatingPointError) as problem:
            raise ModelError(f"{what} cannot be written: {problem}") from None

    def _referred(self, field: Field, value: Any) -> int:
        builder = self.builder
        if field.kind is Kind.STRING:
            return cast(int, builder.CreateString(value))
        if field.kind is Kind.VECTOR:
            return self._vector(field, value)
        if field.kind is Kind.TABLE:
            return self.table(field.table, value)
        if field.kind is Kind.UNION:
            return self.table(value.table, value.document)
        return self._tables([self.table(field.table, each) for each in value])

    def _vector(self, field: Field, values: bytes | Sequence[int] | Sequence[float]) -> int:
        if isinstance(values, bytes):
            return cast(int, self.builder.CreateByteVector(values))
        with np.errstate(over="raise"):
            numbers = np.array(values, _TYPES[field.code])
        return cast(int, self.builder.CreateNumpyVector(numbers))

    def _tables(self, offsets: Sequence[int]) -> int:
        builder = self.builder
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return cast(int, builder.EndVector())

    def _place(self, what: str, field: Field, value: Any) -> None:
        builder = self.builder
        if isinstance(value, Chunk):
            wide = field.kind is Kind.SCALAR
            (builder.PrependUint64Slot if wide else builder.PrependUint32Slot)(field.slot, 1, 0)
            (self._positions if wide else self._references).append((builder.Offset(), value))
        elif field.kind is not Kind.SCALAR:
            builder.PrependUOffsetTRelativeSlot(field.slot, value, 0)
        else:
            try:
                builder.PrependSlot(_FLAGS[field.code], field.slot, value, field.default)
            except (TypeError, struct.error, OverflowError):
                raise ModelError(f"{what} cannot hold {value}") from None

    def finish(self) -> Packed:
        """Lays the chunks out behind the tables and writes down where they are."""
        head = self.builder.Output()
        tables = size = len(head)
        pieces: list[bytes | bytearray | memoryview] = [head]
        placed: dict[Chunk, int] = {}

        def append(chunk: Chunk, prefix: bytes) -> int:
            nonlocal size
            if chunk not in placed:
                padding = -(size + len(prefix)) % _ALIGNMENT
                pieces.extend((bytes(padding) + prefix, chunk.data.data))
                placed[chunk] = size + padding
                size += padding + len(prefix) + chunk.data.size
            return placed[chunk]

        for distance, chunk in self._references:
            reference = tables - distance
            target = append(chunk, struct.pack("<I", chunk.data.size))
            struct.pack_into("<I", head, reference, target - reference)
        flatbuffer_size = size
        for distance, chunk in self._positions:
            struct.pack_into("<Q", head, tables - distance, append(chunk, b""))
        return Packed(tuple(pieces), flatbuffer_size)
