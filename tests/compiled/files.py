"""Files of models with code, for tests."""

from __future__ import annotations

import json
import platform
import sys
from binascii import crc32
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import circlet
from circlet.compiled import CompiledModel, load
from circlet.embed.container import container
from circlet.runtime.digests import sha256
from circlet.runtime.ir.model import Model
from circlet.schema.container import HEADER, MAGIC, VERSION, Container, interface, read_table

HERE = sys.platform == "linux" and platform.machine() == "x86_64"
here = pytest.mark.skipif(not HERE, reason="shared objects are made for x86-64 Linux")
COLLATZ = Path(__file__).parents[2] / "examples" / "collatz.tflite"


def opened(model: Model, folder: Path, limits: circlet.Limits | None = None, **options: Any) -> CompiledModel:
    """A model, compiled for this machine."""
    path = folder / "model.circlet"
    path.write_bytes(container(model, ("host",), **options))
    found = load(path, limits, fallback=False)
    assert isinstance(found, CompiledModel)
    return found


def described(content: bytes | memoryview) -> Container:
    """What the table of a file says."""
    return read_table(lambda offset, size: content[offset:offset + size], len(content))


def changed(content: bytes, change: Callable[[Any], object], is_honest: bool = False) -> bytes:
    """A file with another table, of which the digest is right; if it is honest, the checksums of the code are, too."""
    size = HEADER.unpack_from(content)[3]
    table = json.loads(content[HEADER.size:HEADER.size + size])
    change(table)
    for each in table["variants"] if is_honest else ():
        code = content[each["offset"]:each["offset"] + each["bytes"]]
        each["crc32"] = crc32(code + interface(table["functions"], each))
    return with_table(content, json.dumps(table).encode())


def with_table(content: bytes, text: bytes) -> bytes:
    """A file with another table, which has room where there was the one before and the gap behind it."""
    header = HEADER.pack(MAGIC, VERSION, 0, len(text), sha256(text).digest())
    return header + text + content[len(header) + len(text):]


def only(content: bytes, number: int) -> bytes:
    """A file with the code for one processor alone, by its place."""
    return changed(content, lambda table: table.update(variants=[table["variants"][number]]))
