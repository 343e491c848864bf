"""What a function needs beside its code, and how that is written on the disk.

It is JSON of lists: a record is the name of its class and the values of its fields, in order. Reading makes nothing but
these classes, each field by its annotation; whatever else is found is `DamageError`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TypeAlias

from circlet.backends.native.check.watched import Watched
from circlet.backends.native.program import (
    Called,
    Cell,
    Evidence,
    External,
    Held,
    Holder,
    HostCall,
    Marks,
    OpenLengths,
    Quote,
    RunNumber,
    Site,
    Staging,
    Tally,
    Variable,
)
from circlet.runtime.errors import Place
from circlet.runtime.ir.length import Assumption
from circlet.runtime.ir.terms import Computed, Maximum, Quotient, Symbol, Terms, value_of
from circlet.runtime.ir.types import DType
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class Constant:
    """A constant of the model, as it is there."""

    subgraph: int
    tensor: int


@dataclass(frozen=True)
class Stored:
    """A part of the bytes that are kept with the function."""

    offset: int
    size: int


Origin: TypeAlias = ("OpenLengths | Held | Variable | Cell | Marks | Holder | RunNumber | Called | Evidence | Tally | "
                     "Constant | Stored")
"""Where a frame finds an array that its function reads or writes."""


@dataclass(frozen=True)
class Manifest:
    """What a function needs beside its code."""

    sites: tuple[Site, ...] = ()
    host_calls: tuple[HostCall, ...] = ()
    origins: tuple[Origin, ...] = ()
    arena_tops: tuple[Terms, ...] = ()
    """The arena has as many bytes as the largest of them."""
    scratch_bytes: Terms = ()
    """Of the memory that each thread has for itself."""
    shares_loops: bool = False
    is_brief: bool = False
    """Whether it is over in microseconds, whatever it computes."""
    outline: tuple[str, ...] = ()
    watched: Watched | None = None
    assumptions: tuple[Assumption, ...] = ()
    """For which open lengths the code is."""
    quotes: tuple[Quote, ...] = ()
    """Lengths that messages of sites quote."""
    pieces: tuple[int, ...] = ()
    """The bytes of each object file, where it is kept."""

    def arena_bytes(self, lengths: Sequence[int]) -> int:
        """How large the arena is for some open lengths."""
        return max((value_of(each, lengths) for each in self.arena_tops), default=0)

    def fits(self, lengths: Sequence[int]) -> bool:
        """Whether the code is for some open lengths."""
        return all(each.fits(lengths) for each in self.assumptions)


class DamageError(ValueError):
    """The bytes are not what `encode` gave."""


def encode(manifest: Manifest) -> bytes:
    """The manifest as bytes."""
    return json.dumps(_plain(manifest), separators=(",", ":")).encode()


def decode(content: bytes) -> Manifest:
    """The manifest that was encoded.

    Raises:
        DamageError: it is none.
    """
    try:
        found = _MANIFEST(json.loads(content))
    except (ValueError, RecursionError) as problem:
        raise DamageError(str(problem)) from None
    assert isinstance(found, Manifest)
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


_Read: TypeAlias = Callable[[object], object]
"""From a plain value to what it stands for; raises DamageError."""
_MOST = 1 << 63
"""Integers are of 64 bits: what offsets, sizes and stored values fit into."""


def _integer(value: object) -> int:
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


def _optional(read: _Read) -> _Read:
    """Something or None."""
    return lambda value: None if value is None else read(value)


def _several(read: _Read) -> _Read:
    """A list, as a tuple."""
    def several(value: object) -> object:
        if not isinstance(value, list):
            raise DamageError(f"expected a list, found {value!r}")
        return tuple([read(each) for each in value])

    return several


_FIELDS: dict[str, _Read] = {
    "int": _integer,
    "bool": _truth,
    "str": _text,
    "str | None": _optional(_text),
    "DType": _dtype,
    "Shape": _several(_integer),
    "tuple[int, ...]": _several(_integer),
    "tuple[int | None, ...]": _several(_optional(_integer)),
    "tuple[str, ...]": _several(_text),
}
"""How a field is read, by its annotation."""
_RECORDS: dict[type, tuple[str, ...]] = {}
"""The fields of every class that a manifest is made of."""


def _one_of(*kinds: type) -> _Read:
    """Reads a record of one of these classes."""
    _RECORDS.update({each: tuple(field.name for field in fields(each)) for each in kinds})
    known = {each.__name__: (each, [_FIELDS[str(field.type)] for field in fields(each)]) for each in kinds}

    def record(value: object) -> object:
        if not isinstance(value, list) or not value or not isinstance(value[0], str) or value[0] not in known:
            raise DamageError(f"expected one of {', '.join(known)}, found {value!r}")
        kind, reads = known[value[0]]
        if len(value) != len(reads) + 1:
            raise DamageError(f"expected the {len(reads)} fields of {value[0]}, found {value!r}")
        return kind(*[read(each) for read, each in zip(reads, value[1:], strict=True)])

    return record


_FIELDS["Place"] = _one_of(Place)
_BUFFER = _one_of(External, Staging)
"""Reads where an operand of a host call is."""
_FIELDS.update({
    "tuple[Place, ...]": _several(_FIELDS["Place"]),
    "tuple[External | Staging, ...]": _several(_BUFFER),
    "tuple[External | Staging | None, ...]": _several(_optional(_BUFFER)),
    "tuple[Origin, ...]": _several(
        _one_of(
            OpenLengths, Held, Variable, Cell, Marks, Holder, RunNumber, Called, Evidence, Tally, Constant, Stored)),
})
_FIELDS.update({
    "tuple[Site, ...]": _several(_one_of(Site)),
    "tuple[HostCall, ...]": _several(_one_of(HostCall)),
    "Watched | None": _optional(_one_of(Watched)),
})


def _term(value: object) -> object:
    if not isinstance(value, list) or len(value) != 2:
        raise DamageError(f"expected a coefficient and factors, found {value!r}")
    return _integer(value[0]), _several(_FIELDS["Atom"])(value[1])


_FIELDS["Terms"] = _several(_term)
_FIELDS["Atom"] = _one_of(Symbol, Computed, Quotient, Maximum)
_FIELDS.update({
    "tuple[Terms, ...]": _several(_FIELDS["Terms"]),
    "tuple[Assumption, ...]": _several(_one_of(Assumption)),
    "tuple[Quote, ...]": _several(_one_of(Quote)),
})
_MANIFEST = _one_of(Manifest)
"""Reads a manifest."""
