"""ONNX in the table of formats. The package `onnx` is imported when a model is read: not all have it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Literal, TypeAlias, get_args

from circlet.runtime.errors import UnsupportedError
from circlet.runtime.ir.model import Model
from circlet.runtime.late import LOADING
from circlet.schema.importer.entry import Content, ModelFormat, ReadOption

_VERSIONS = range(2, 32)
_FIELDS = frozenset(b"\x12\x1a\x22\x28\x32\x3a\x42\x72")
"""How a field of ONNX's ModelProto can begin after its `ir_version`."""
AbsentCond: TypeAlias = Literal["spec", "ort"]
ABSENT_COND = ReadOption(
    "onnx_absent_cond", get_args(AbsentCond),
    "whether an ONNX Loop without the input cond ignores the condition of its body, as the specification says "
    "(default), or stops when it is false, as ONNX Runtime does")


def _recognizes(data: memoryview) -> bool:
    return len(data) > 2 and data[0] == 8 and data[1] in _VERSIONS and data[2] in _FIELDS


def _parsed(source: object) -> bool:
    """Whether it is a ModelProto; who has one has imported the package."""
    package = sys.modules.get("onnx")
    return package is not None and isinstance(source, package.ModelProto)


def _read(content: Content, options: Mapping[str, str]) -> Model:
    if find_spec("onnx") is None:
        raise UnsupportedError("an ONNX model: reading it needs the package onnx, as circlet[onnx] installs it")
    with LOADING:
        from circlet.schema.onnx.read import Options, read_onnx

    return read_onnx(content.data, content.folder, Options(options[ABSENT_COND.name]))


def _is_complete(data: memoryview) -> bool:
    """Whether no tensor says that it lies in another file, which it does by an entry `location`, a text of its own: its
    length stands before it. The pattern begins with letters, which Python looks for ten times as fast as for a choice
    of bytes."""
    return re.search(b"location(?<=[\\x08\\x00]location)", data) is None


ONNX = ModelFormat("onnx", ".onnx", _recognizes, _read, (ABSENT_COND,), has_views=False, is_channels_first=True,
                   parsed=_parsed, is_complete=_is_complete)
