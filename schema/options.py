"""Operators' options: dataclass fields here, an options table in a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass, field
from circlet.schema.flatbuffer import Table, Value
from circlet.schema.format import Format
from circlet.schema.layout import Kind, Layout

Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Option:
    """One option of an operator: a field of its dataclass and one of its table."""

    name: str
    field: str
    """The schema's name."""
    decode: Convert
    """From a value of the file; raises ValueError."""
    encode: Convert
    """To a value of the file; raises ValueError."""


@dataclass(frozen=True, eq=False)
class OptionsCodec:
    """Reads and writes the options of one class of operators in one format."""

    cls: type[Op]
    table: str | None
    """The options table; None where the format has none for the operator."""
    known: tuple[Option, ...] = ()
    default: Op | None = None
    """What the operator is without a table; None where an option has no default."""
    absent: Mapping[str, object] = field(default_factory=dict)
    """Options that the format cannot say, and the values for which it need not."""
    foreign: tuple[str, ...] = ()
    """Fields of the table that circlet's operator has no option for."""

    def decode(self, table: Table | None) -> Op:
        """The operator with the options of a table.

        Raises:
            ModelError: an option has a value that the schema does not know.
        """
        if table is None:
            if self.default is None:
                raise ModelError(f"{self.cls.name} has no {self.table}")
            return self.default
        values = {}
        for option in self.known:
            value = table.value(option.field)
            try:
                values[option.name] = option.decode(value)
            except ValueError:
                raise ModelError(f"{self.table}.{option.field} is {value!r}, which the schema does not know") from None
        return self.cls(**values)

    def unknown(self, table: Table) -> str:
        """What of a table the operator has no option for; empty if nothing."""
        if table.has_unknown():
            return f"{table.layout.name} has options newer than this version of circlet"
        for name in table.layout.fields if self.table is None else self.foreign:
            if table.has(name) and table.value(name) not in (table.layout.fields[name].default, (), "", b""):
                return f"option {name} of {table.layout.name} is not known"
        return ""

    def encode(self, op: Op) -> dict[str, Value]:
        """The fields of the operator's table.

        Raises:
            UnsupportedError: the format cannot say an option.
        """
        for name, value in self.absent.items():
            if getattr(op, name) != value:
                raise UnsupportedError(f"the format has no option {name} (here {getattr(op, name)})")
        fields = {}
        for option in self.known:
            try:
                fields[option.field] = option.encode(getattr(op, option.name))
            except ValueError as problem:
                raise UnsupportedError(f"option {option.name}: {problem}") from None
        return fields


@cache
def options_codec(cls: type[Op], format: Format) -> OptionsCodec:
    """Matches the fields of an operator's dataclass with those of its options table, by name."""
    hints = get_type_hints(cls)
    options = {each.name: each for each in dataclasses.fields(cls)}
    required = any(each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
                   for each in options.values())
    default = None if required else cls()
    if cls.table is None or cls.table not in format.options:
        return OptionsCodec(cls, None, (), default, _defaults(default, options))
    layout = format.layouts[cls.table]
    renamed = format.renamed_options.get(cls.table, {})
    names = {name: _find(layout, renamed.get(name, name)) for name in options}
    known = tuple(Option(name, field, *_conversion(hints[name], format)) for name, field in names.items()
                  if field is not None)
    absent = _defaults(default, [name for name, field in names.items() if field is None])
    foreign = tuple(name for name in layout.fields if name not in names.values())
    return OptionsCodec(cls, cls.table, known, default, absent, foreign)


def _defaults(default: Op | None, names: Iterable[str]) -> dict[str, object]:
    return {} if default is None else {name: getattr(default, name) for name in names}


def _find(layout: Layout, name: str) -> str | None:
    bare = name.replace("_", "")
    return next((each for each in layout.fields if each.replace("_", "") == bare), None)


def _conversion(hint: Any, format: Format) -> tuple[Convert, Convert]:
    """How values of an annotated type are read from and written to a file."""
    if get_origin(hint) is tuple:
        decode, encode = _conversion(get_args(hint)[0], format)
        return lambda values: tuple(map(decode, values)), lambda values: tuple(map(encode, values))
    if hint is DType:
        return lambda number: _dtype(format, number), lambda dtype: dtype_number(format, dtype)
    if issubclass(hint, IntEnum):
        return hint, int
    if hint in (bool, int, float, str, bytes):
        return hint, hint
    raise TypeError(f"no field of a schema holds {hint}")


def _dtype(format: Format, number: int) -> DType:
    if number not in format.dtypes:
        raise ValueError(number)
    return format.dtypes[number]


def dtype_number(format: Format, dtype: DType) -> int:
    """The number of an element type.

    Raises:
        ValueError: the format has no such type.
    """
    if dtype not in format.dtype_numbers:
        raise ValueError(f"the format {format.name} has no element type {dtype.value}")
    return format.dtype_numbers[dtype]


def raw_options(table: Table) -> tuple[tuple[str, Value], ...]:
    """The fields that a table holds, whatever they mean."""
    return tuple((name, table.value(name)) for name, field in table.layout.fields.items()
                 if field.kind in (Kind.SCALAR, Kind.STRING, Kind.VECTOR) and table.has(name))
