"""Options of custom operators: numbers by their names in a flexbuffer, a format of the library FlatBuffers of which the
root is at the end, and every vector has its length before it; or a structure of integers, as TFLite has it in memory.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias, get_type_hints

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.op import Op
from circlet.runtime.records import dataclass

Number: TypeAlias = bool | int | float
"""What a name stands for."""

PREFIX = "CUSTOM:"
"""Begins the names of custom operators."""
_INT, _UINT, _FLOAT, _INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _BOOL = 1, 2, 3, 6, 7, 8, 9, 26
"""Types of values."""
_CODES = {_INT: "bhiq", _UINT: "BHIQ", _BOOL: "BHIQ", _FLOAT: " efd"}
"""The codes of `struct` for one, two, four and eight bytes."""
_DIRECT = {_INDIRECT_INT: _INT, _INDIRECT_UINT: _UINT, _INDIRECT_FLOAT: _FLOAT}
"""The types of what an offset leads to."""
_MEMBER = 4
"""Bytes of a member of a structure."""
_WIDE = 8
"""Bytes of everything that is written."""


def custom_op(cls: type[Op], data: bytes) -> Op:
    """An operator of which a flexbuffer has fields by their names, or a structure; others are as they are by default.

    Raises:
        ModelError: the flexbuffer is damaged, or a number is none of the field's type.
    """
    hints, found = get_type_hints(cls), _members(cls, data) if cls.struct else numbers(data) if data else {}
    try:
        return cls(**{each.name: hints[each.name](found[each.name]) for each in dataclasses.fields(cls)
                      if each.name in found})
    except (ValueError, OverflowError) as problem:
        raise ModelError(f"an option of {cls.name}: {problem}") from None


def custom_options(op: Op) -> bytes:
    """A flexbuffer with an operator's fields, or a structure."""
    if op.struct:
        return struct.pack(f"<{len(op.struct)}i", *(_stored(getattr(op, each)) for each in op.struct))
    return flexbuffer({each.name: getattr(op, each.name) for each in dataclasses.fields(op)})


def _members(cls: type[Op], data: bytes) -> dict[str, Number]:
    """The numbers in a structure by the names of an operator's fields.

    Raises:
        ModelError: it is too short, or says what the operator cannot express.
    """
    hints, size = get_type_hints(cls), _MEMBER * len(cls.struct)
    if len(data) < size or any(data[size:]):
        raise ModelError(f"expected {size} bytes of options of {cls.name}, found {data.hex() or 'none'}")
    found = zip(cls.struct, struct.unpack_from(f"<{len(cls.struct)}i", data), strict=True)
    return {name: value - issubclass(hints[name], IntEnum) for name, value in found}


def _stored(value: int) -> int:
    """A field's value as a member of a structure, where 0 is no value of an enumeration."""
    return value + isinstance(value, IntEnum)


def numbers(data: bytes) -> dict[str, Number]:
    """The numbers in a flexbuffer by their names; values of other types are left out.

    Raises:
        ModelError: it is damaged, or holds no map.
    """
    try:
        return _Buffer(data).map()
    except (struct.error, IndexError, ValueError) as problem:
        raise ModelError(f"expected a flexbuffer with a map: {problem}") from None


def flexbuffer(values: Mapping[str, Number]) -> bytes:
    """A flexbuffer with numbers by their names."""
    names, out = sorted(values), bytearray()
    places = []
    for name in names:
        places.append(len(out))
        out += name.encode() + b"\0"
    out += bytes(-len(out) % _WIDE) + struct.pack("<Q", len(names))
    keys = len(out)
    for place in places:
        out += struct.pack("<Q", len(out) - place)
    out += struct.pack("<3Q", len(out) - keys, _WIDE, len(names))
    start, kinds = len(out), bytearray()
    for name in names:
        kind, code = next(found for of, found in ((bool, (_BOOL, "<Q")), (int, (_INT, "<q")), (float, (_FLOAT, "<d")))
                          if isinstance(values[name], of))
        out += struct.pack(code, values[name])
        kinds.append(kind << 2 | 3)
    out += kinds
    return bytes(out + struct.pack("<IBB", len(out) - start, _MAP << 2 | 3, 4))


@dataclass(frozen=True)
class _Buffer:
    data: bytes

    def map(self) -> dict[str, Number]:
        """The root, a map."""
        width, packed = self.data[-1], self.data[-2]
        if packed >> 2 != _MAP:
            raise ValueError(f"the root has type {packed >> 2}")
        start, width = self._target(len(self.data) - 2 - width, width), 1 << (packed & 3)
        keys, key_width = self._target(start - 3 * width, width), self._integer(start - 2 * width, width)
        count = self._integer(start - width, width)
        found: dict[str, Number] = {}
        for k in range(count):
            name = self._target(keys + k * key_width, key_width)
            value = self._number(start + k * width, width, self.data[start + count * width + k])
            if value is not None:
                found[self.data[name:self.data.index(b"\0", name)].decode()] = value
        return found

    def _number(self, place: int, width: int, packed: int) -> Number | None:
        kind = packed >> 2
        if kind in _DIRECT:
            return self._read(self._target(place, width), 1 << (packed & 3), _DIRECT[kind])
        return self._read(place, width, kind) if kind in _CODES else None

    def _target(self, place: int, width: int) -> int:
        """Where an offset leads, which counts backwards."""
        found = place - self._integer(place, width)
        if found < 0:
            raise ValueError(f"an offset at byte {place} leads out of it")
        return found

    def _integer(self, place: int, width: int) -> int:
        return int(self._read(place, width, _UINT))

    def _read(self, place: int, width: int, kind: int) -> Number:
        if place < 0 or width not in (1, 2, 4, 8):
            raise ValueError(f"a number of {width} bytes at byte {place}")
        (found,) = struct.unpack_from("<" + _CODES[kind][width.bit_length() - 1], self.data, place)
        return bool(found) if kind == _BOOL else found
