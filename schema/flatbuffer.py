"""Reads flatbuffers that nobody has checked: within the file, and within a budget of work."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.schema.layout import SCALAR_CODES, Field, Kind, Layout

T = TypeVar("T")
Value: TypeAlias = "int | float | str | bytes | tuple[int, ...] | tuple[float, ...]"

_UNPACK: dict[str, Callable[..., tuple[Any, ...]]] = {
    code: struct.Struct(f"<{code}").unpack_from for code in SCALAR_CODES
}
_SIZES = {code: struct.calcsize(f"<{code}") for code in SCALAR_CODES}
_UNSIGNED = _UNPACK["I"]
_SIGNED = _UNPACK["i"]
_SLOTS = 64
"""More slots than any table of the schemas has; a vtable may claim 32 thousand."""


class Content:
    """The bytes of a model file.

    A malicious file may refer to the same bytes over and over, so that little content takes long to read. Honest
    files hardly share anything: what is read is counted, and reading ends when it is far more than the file holds.
    """

    def __init__(self, data: memoryview, layouts: Mapping[str, Layout]) -> None:
        self.data = data
        self.size = len(data)
        self.layouts = layouts
        self._left = 4 * self.size + (1 << 16)
        self._vtables: dict[int, tuple[int, ...]] = {}

    def root(self, table: str) -> Table:
        """The table at the root of the file."""
        return Table(self, self.layouts[table], self.follow(0, table))

    def charge(self, size: int) -> None:
        """Counts work that is proportional to `size` bytes.

        Raises:
            ModelError: the budget is spent.
        """
        self._left -= size
        if self._left < 0:
            raise ModelError("the same bytes are referred to over and over; reading stopped")

    def follow(self, position: int, what: str) -> int:
        """Where the reference at `position` leads to.

        Raises:
            ModelError: there are not four bytes there.
        """
        if 0 <= position <= self.size - 4:
            target: int = position + _UNSIGNED(self.data, position)[0]
            if target <= self.size - 4:
                return target
        raise self.outside(what, position)

    def outside(self, what: str, position: int) -> ModelError:
        return ModelError(f"{what} at byte {position} leads outside of the file, which has {self.size} bytes")

    def vector(self, position: int, item: int, what: str) -> tuple[int, int]:
        """Position and number of the elements, of `item` bytes each, of the vector that `position` refers to."""
        start = self.follow(position, what)
        count: int = _UNSIGNED(self.data, start)[0]
        if start + 4 + count * item > self.size:
            raise ModelError(f"{what} claims {count} elements at byte {start} of a file of {self.size} bytes")
        return start + 4, count

    def slots(self, start: int, what: str) -> tuple[int, ...]:
        """Where each field lies relative to the table at `start`; 0 where the file leaves it out."""
        self.charge(8)
        vtable: int = start - _SIGNED(self.data, start)[0]
        found = self._vtables.get(vtable)
        if found is None:
            found = self._vtables[vtable] = self._read_vtable(vtable, what)
        return found

    def _read_vtable(self, vtable: int, what: str) -> tuple[int, ...]:
        try:
            if vtable < 0:
                raise struct.error
            size = struct.unpack_from("<H", self.data, vtable)[0]
            return struct.unpack_from(f"<{min(max(size // 2 - 2, 0), _SLOTS)}H", self.data, vtable + 4)
        except struct.error:
            raise self.outside(f"the field list of {what}", vtable) from None


class Table:
    """A table in a file. Every method names fields as the schema does.

    All methods raise `ModelError`, naming the field, where the file is cut short or its bytes make no sense.
    """

    __slots__ = ("_content", "_slots", "_start", "layout")

    def __init__(self, content: Content, layout: Layout, start: int) -> None:
        self._content = content
        self._start = start
        self._slots = content.slots(start, layout.name)
        self.layout = layout

    def _at(self, field: Field) -> int:
        """The position of a field in the file; 0 where it is absent."""
        slot = field.slot
        if slot < len(self._slots):
            offset = self._slots[slot]
            if offset:
                return self._start + offset
        return 0

    def _name(self, name: str) -> str:
        return f"{self.layout.name}.{name}"

    def has(self, name: str) -> bool:
        """Whether the file holds the field."""
        return self._at(self.layout.fields[name]) != 0

    def has_unknown(self) -> bool:
        """Whether the file holds fields newer than the layout."""
        return any(self._slots[self.layout.size:])

    def scalar(self, name: str) -> int | float:
        field = self.layout.fields[name]
        position = self._at(field)
        if not position:
            return field.default
        try:
            value: int | float = _UNPACK[field.code](self._content.data, position)[0]
        except struct.error:
            raise self._content.outside(self._name(name), position) from None
        return value

    def integer(self, name: str) -> int:
        return int(self.scalar(name))

    def boolean(self, name: str) -> bool:
        return bool(self.scalar(name))

    def values(self, name: str) -> tuple[Any, ...]:
        """The elements of a vector of scalars; none where it is absent."""
        field = self.layout.fields[name]
        position = self._at(field)
        if not position:
            return ()
        content, item = self._content, _SIZES[field.code]
        start, count = content.vector(position, item, self._name(name))
        content.charge(4 + count * item)
        return struct.unpack_from(f"<{count}{field.code}", content.data, start)

    def bytes(self, name: str) -> bytes:
        """A copy of a vector of bytes or of a string; empty where it is absent."""
        start, count = self.span(name) or (0, 0)
        self._content.charge(4 + count)
        return bytes(self._content.data[start:start + count])

    def span(self, name: str) -> tuple[int, int] | None:
        """Position and size of a vector of bytes or of a string; None where it is absent."""
        position = self._at(self.layout.fields[name])
        return self._content.vector(position, 1, self._name(name)) if position else None

    def string(self, name: str) -> str:
        try:
            return self.bytes(name).decode()
        except UnicodeDecodeError as problem:
            raise ModelError(f"{self._name(name)} is not UTF-8: {problem}") from None

    def table(self, name: str) -> Table | None:
        return self._table(name, self.layout.fields[name].table)

    def union(self, name: str, table: str) -> Table | None:
        """The member of a union, which the field beside it says to be a `table`."""
        return self._table(name, table)

    def _table(self, name: str, table: str) -> Table | None:
        position = self._at(self.layout.fields[name])
        content = self._content
        return Table(content, content.layouts[table], content.follow(position, self._name(name))) if position else None

    def tables(self, name: str) -> Sequence[Table]:
        """The elements of a vector of tables; none where it is absent."""
        field = self.layout.fields[name]
        position = self._at(field)
        if not position:
            return ()
        content, what = self._content, self._name(name)
        start, count = content.vector(position, 4, what)
        content.charge(4 + 4 * count)
        layout = content.layouts[field.table]
        return [Table(content, layout, content.follow(each, what)) for each in range(start, start + 4 * count, 4)]

    def value(self, name: str) -> Value:
        """A scalar, string or vector of scalars; bytes where the elements are."""
        field = self.layout.fields[name]
        if field.kind is Kind.SCALAR:
            return self.scalar(name)
        if field.kind is Kind.STRING:
            return self.string(name)
        return self.bytes(name) if field.code == "B" else self.values(name)


def read_each(tables: Sequence[Table], noun: str, read: Callable[[Table], T],
              name: Callable[[Table], str] | None = None, separator: str = ": ") -> tuple[T, ...]:
    """Reads each table; errors say which one it was, by index and name."""
    done: list[T] = []
    try:
        for table in tables:
            done.append(read(table))
    except (ModelError, UnsupportedError) as problem:
        index = len(done)
        raise type(problem)(f"{noun} {index}{_called(tables[index], name)}{separator}{problem}") from None
    return tuple(done)


def _called(table: Table, name: Callable[[Table], str] | None) -> str:
    try:
        return "" if name is None else f" ({name(table)})"
    except (ModelError, IndexError):
        return ""
