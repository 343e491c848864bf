"""Records as bytes: JSON of lists, a record as the name of its class and the values of its fields, in order.

Reading makes nothing but the classes that were named for it, each field by its annotation; whatever else is found is
`DamageError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import TypeAlias, TypeVar

from circlet.runtime.ir.types import DType

RecordT = TypeVar("RecordT")


class DamageError(ValueError):
    """The bytes are not what were written."""


def encode(record: object) -> bytes:
    """A record as bytes."""
    return json.dumps(_plain(record), separators=(",", ":")).encode()


def decode(kind: type[RecordT], content: bytes) -> RecordT:
    """The record of a class, which `one_of` named, that was encoded.

    Raises:
        DamageError: it is none.
    """
    try:
        found = FIELDS[kind.__name__](json.loads(content))
    except (ValueError, RecursionError) as problem:
        raise DamageError(str(problem)) from None
    assert isinstance(found, kind)
    return found


def _plain(value: object) -> object:
    """A value in terms of JSON."""
    if isinstance(value, DType):
        return value.value
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if type(value) in _RECORDS:
        return [type(value).__name__, *(_plain(getattr(value, name)) for name in _RECORDS[type(value)])]
    assert value is None or isinstance(value, (bool, int, str)), f"{value!r} cannot be written"
    return value


Read: TypeAlias = Callable[[object], object]
"""From a plain value to what it stands for; raises DamageError."""
_MOST = 1 << 63
"""Integers are of 64 bits: what offsets, sizes and stored values fit into."""


def integer(value: object) -> int:
    """An integer of 64 bits; no truth value."""
    if type(value) is not int or not -_MOST <= value < _MOST:
        raise DamageError(f"expected an integer, found {value!r}")
    return value


def _text(value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise DamageError(f"expected text, found {value!r}")
    return value


def _truth(value: object) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise DamageError(f"expected true or false, found {value!r}")
    return value


def _dtype(value: object) -> DType:
    """An element type, by its name."""
    return DType(_text(value))


def optional(read: Read) -> Read:
    """Something or None."""
    return lambda value: None if value is None else read(value)


def several(read: Read) -> Read:
    """A list, as a tuple."""
    def listed(value: object) -> object:
        if not isinstance(value, list):
            raise DamageError(f"expected a list, found {value!r}")
        return tuple([read(each) for each in value])

    return listed


FIELDS: dict[str, Read] = {}
"""How a field is read, by its annotation."""
_RECORDS: dict[type, tuple[str, ...]] = {}
"""The fields of every class that a manifest is made of."""


def annotate(name: str, read: Read) -> None:
    """Says how fields with an annotation are read, and with those for several and for none of it."""
    FIELDS.update({name: read, f"tuple[{name}, ...]": several(read), f"{name} | None": optional(read),
                   f"tuple[{name} | None, ...]": several(optional(read))})


def one_of(*kinds: type) -> Read:
    """Reads a record of one of these classes."""
    _RECORDS.update({each: tuple(field.name for field in fields(each)) for each in kinds})
    known = {each.__name__: (each, [FIELDS[str(field.type)] for field in fields(each)]) for each in kinds}

    def record(value: object) -> object:
        if not isinstance(value, list) or not value or not isinstance(value[0], str) or value[0] not in known:
            raise DamageError(f"expected one of {', '.join(known)}, found {value!r}")
        kind, reads = known[value[0]]
        if len(value) != len(reads) + 1:
            raise DamageError(f"expected the {len(reads)} fields of {value[0]}, found {value!r}")
        return kind(*[read(each) for read, each in zip(reads, value[1:], strict=True)])

    return record


annotate("int", integer)
annotate("bool", _truth)
annotate("str", _text)
annotate("DType", _dtype)
annotate("Shape", several(integer))
