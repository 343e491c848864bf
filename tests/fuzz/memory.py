"""Changes files without regard to what they say, and models in memory."""

from __future__ import annotations

import dataclasses
import struct
from enum import Enum
from random import Random
from typing import Any

import numpy as np

from circlet.runtime.ir.model import Model
from tests.fuzz import boundary

WORDS = (0, 1, 2, 3, 4, 8, 16, 100, 255, 256, 1000, 65535, 1 << 20, 1 << 28, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
LEAST = 16
"""Shorter files are left as they are."""


def changed_file(content: bytes, r: Random) -> bytes:
    """A file with a few changed bits, bytes or words, or cut short."""
    if len(content) < LEAST:
        return content
    changed = bytearray(content)
    for _ in range(r.choice((1, 1, 1, 2, 5))):
        position, how = r.randrange(8, len(changed) - 4), r.randrange(4)
        if how == 0:
            changed[position] ^= 1 << r.randrange(8)
        elif how == 1:
            changed[position] = r.randrange(256)
        else:
            other = struct.unpack_from("<I", changed, r.randrange(len(changed) // 4) * 4)[0]
            word = r.choice((*WORDS, other))
            struct.pack_into("<I" if how == 2 else "<H", changed, position & ~3, word if how == 2 else word & 0xFFFF)
    return bytes(changed[:r.randrange(len(changed))] if r.random() < 0.05 else changed)


def changed_model(model: Model, r: Random) -> Model:
    """The model with one value in it changed, wherever that is."""
    return dataclasses.replace(model, subgraphs=changed(model.subgraphs, r))


def changed(value: Any, r: Random) -> Any:
    """A value of the same type that differs in one place, mostly."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = r.choice([each.name for each in dataclasses.fields(value)] or [""])
        return dataclasses.replace(value, **{name: changed(getattr(value, name), r)}) if name else value
    if isinstance(value, tuple):
        return _changed_tuple(value, r)
    if isinstance(value, np.ndarray):
        return _changed_array(value, r)
    if isinstance(value, bool):
        return not value
    if isinstance(value, Enum):
        return r.choice(list(type(value)))
    if isinstance(value, int):
        return boundary.integer(r, value, -(1 << 31), (1 << 31) - 1)
    if isinstance(value, float):
        return boundary.number(r, value)
    return value


def _changed_tuple(value: tuple[Any, ...], r: Random) -> tuple[Any, ...]:
    items, how = list(value), r.random()
    if not items:
        return value
    index = r.randrange(len(items))
    if how < 0.1:
        del items[index]
    elif how < 0.2:
        items.insert(index, r.choice(items))
    elif how < 0.3:
        items[index] = r.choice(items)
    else:
        items[index] = changed(items[index], r)
    return tuple(items)


def _changed_array(value: boundary.Array, r: Random) -> boundary.Array:
    if not value.size or value.dtype.kind not in "iuf":
        return value
    found: boundary.Array = value.copy()
    found.reshape(-1)[r.randrange(value.size)] = boundary.edge(r, value.dtype)
    found.flags.writeable = False
    return found
