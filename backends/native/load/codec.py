"""Records as bytes, and back: pickles that name nothing but records of circlet's and its enumerations.

Who can write to what is kept can change the code in it as well; so what is read here is trusted as far as that, but it
runs nothing, whatever it names.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from copyreg import __newobj__ as new_object  # type: ignore[attr-defined]  # which pickles write by one byte
from enum import Enum
from importlib import import_module
from io import BytesIO
from typing import TypeVar

RecordT = TypeVar("RecordT")
_PACKAGE = "circlet."
_PROTOCOL = 5


class DamageError(ValueError):
    """The bytes are not what were written."""


class UnwritableError(TypeError):
    """A value is no record, nor part of one."""


class _Writer(pickle.Pickler):
    """Writes fields of records; what is derived from them, which objects keep beside them, is derived anew."""

    def reducer_override(self, value: object) -> tuple[Callable[..., object], tuple[object, ...], object]:
        if isinstance(value, type):
            return NotImplemented  # type: ignore[no-any-return]  # as the base asks for
        kind = type(value)
        if not _is_known(kind):
            raise UnwritableError(f"{value!r} is no record")
        if isinstance(value, Enum):
            return kind, (value.value,), None
        names: tuple[str, ...] = getattr(kind, "__match_args__", ())
        return new_object, (kind,), {name: getattr(value, name) for name in names}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if not module.startswith(_PACKAGE):
            raise DamageError(f"expected records, found {module}.{name}")
        found: object = getattr(sys.modules.get(module) or import_module(module), name)
        if not isinstance(found, type) or not _is_known(found):
            raise DamageError(f"expected a record, found {found!r}")
        return found


def _is_known(kind: type) -> bool:
    return hasattr(kind, "__record_fields__") or (issubclass(kind, Enum) and kind.__module__.startswith(_PACKAGE))


def encode(record: object) -> bytes:
    """A record of numbers, texts, members of enumerations, tuples of them and other records, as bytes.

    Raises:
        UnwritableError: it has other parts.
    """
    into = BytesIO()
    _Writer(into, _PROTOCOL).dump(record)
    return into.getvalue()


def decode(kind: type[RecordT], content: bytes | memoryview) -> RecordT:
    """The record of a class that was encoded.

    Raises:
        DamageError: it is none.
    """
    try:
        found = _Reader(BytesIO(content)).load()
    except Exception as problem:  # bytes that are no pickle raise whatever comes of them
        raise DamageError(f"{type(problem).__name__}: {problem}") from None
    if not isinstance(found, kind):
        raise DamageError(f"expected a {kind.__name__}, found {found!r}")
    return found
