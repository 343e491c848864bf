"""Reads the layouts of tables off the accessors that flatc generated, by calling each of them on a table that records
what is asked of it."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

from circlet.schema.layout import Field, Kind

SCALARS = {
    "BoolFlags": "?", "Int8Flags": "b", "Uint8Flags": "B", "Int16Flags": "h", "Uint16Flags": "H", "Int32Flags": "i",
    "Uint32Flags": "I", "Int64Flags": "q", "Uint64Flags": "Q", "Float32Flags": "f", "Float64Flags": "d",
}
"""The `struct` code of each scalar type of flatbuffers."""


def generated(package: str, name: str) -> Any:
    """The class that flatc generated for a table, an enumeration or a union."""
    return getattr(import_module(f"{package}.{name}"), name)


def generated_members(enumeration: Any) -> dict[str, int]:
    """The members of a generated class; Python's own attributes, such as `__firstlineno__`, may be numbers too."""
    return {name: value for name, value in vars(enumeration).items()
            if isinstance(value, int) and not name.startswith("_")}


_NOT_A_FIELD = re.compile(r"_|Init$|GetRootAs|.*(AsNumpy|IsNone|BufferHasIdentifier)$")


def generated_fields(table: Any) -> dict[str, Field]:
    """The fields of a generated table class, by their names in snake case."""
    accessors = {name: each for name, each in vars(table).items() if callable(each) and not _NOT_A_FIELD.match(name)}
    lengths = {f"{name}Length" for name in accessors}
    return {_snake(name): _field(table, accessor) for name, accessor in accessors.items() if name not in lengths}


def _snake(name: str) -> str:
    return re.sub(r"(?<=.)([A-Z])", r"_\1", name).lower()


class _Recorder:
    """Stands for the table that an accessor reads."""

    Bytes = b""
    Pos = 0

    def __init__(self, present: bool) -> None:
        self.slot = -1
        self.calls: list[str] = []
        self.codes: list[str] = []
        self._present = present

    def Offset(self, offset: int) -> int:  # noqa: N802
        self.slot = (offset - 4) // 2 if self.slot < 0 else self.slot
        return int(self._present)

    def Get(self, flags: Any, offset: int) -> int:  # noqa: N802
        self.codes.append(SCALARS[flags.__name__])
        return 0

    def Vector(self, offset: int) -> int:  # noqa: N802
        self.calls.append("vector")
        return 0

    def Indirect(self, offset: int) -> int:  # noqa: N802
        self.calls.append("table")
        return 0

    def String(self, offset: int) -> bytes:  # noqa: N802
        self.calls.append("string")
        return b""

    def Union(self, table: Any, offset: int) -> None:  # noqa: N802
        self.calls.append("union")


_KINDS = {
    (): Kind.SCALAR, ("string",): Kind.STRING, ("vector",): Kind.VECTOR, ("table",): Kind.TABLE,
    ("vector", "table"): Kind.TABLES, ("union",): Kind.UNION,
}


def _field(table: Any, accessor: Any) -> Field:
    present, value = _record(table, accessor, True)
    kind = _KINDS[tuple(present.calls)]
    default = _record(table, accessor, False)[1] if kind is Kind.SCALAR else 0
    child = type(value).__name__ if kind in (Kind.TABLE, Kind.TABLES) else ""
    return Field(present.slot, kind, present.codes[0] if present.codes else "", default, child)


def _record(table: Any, accessor: Any, present: bool) -> tuple[_Recorder, Any]:
    reader = table()
    reader._tab = recorder = _Recorder(present)
    indices = (0,) * (len(inspect.signature(accessor).parameters) - 1)
    return recorder, accessor(reader, *indices)
