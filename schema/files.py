"""Loads and saves models in any format that circlet knows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable
from uuid import uuid4

import numpy as np

from circlet.runtime.errors import InputError, LimitError, ModelError, UnsupportedError
from circlet.runtime.exec import fork
from circlet.runtime.ir.model import Model
from circlet.runtime.ops.loop_options import Overrun
from circlet.schema.circle import CIRCLE
from circlet.schema.content import map_file, read_file
from circlet.schema.format import Format
from circlet.schema.openvino import is_openvino
from circlet.schema.openvino import read_model as read_openvino
from circlet.schema.reader import read_model
from circlet.schema.recognize import is_onnx, refusal
from circlet.schema.tflite import TFLITE
from circlet.schema.writer import write_model


@runtime_checkable
class ReadableFile(Protocol):
    """A file that gives bytes, such as `io.BytesIO`."""

    def read(self) -> bytes:
        """What is left of it."""
        ...


class Message(Protocol):
    """A message of protocol buffers: `onnx.ModelProto`."""

    def SerializeToString(self, **options: Any) -> bytes:  # noqa: N802  # protobuf's name
        """The bytes of a file of it."""
        ...


Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | ReadableFile | Message"
"""A path, or the content of a file."""
_Open: TypeAlias = "Callable[[str], memoryview]"
"""Gives the content of a file, as read-only bytes."""
AbsentCond: TypeAlias = Literal["spec", "ort"]
"""How an ONNX Loop without the input `cond` treats the condition that its body gives."""
SliceOverrun: TypeAlias = Literal["error", "hold_last"]
"""What happens where a loop of OpenVINO asks for a slice that leaves its axis."""

FORMATS = {format.name: format for format in (TFLITE, CIRCLE)}
"""The formats by name."""


def load_model(source: Source, weights: Source | None = None, onnx_absent_cond: AbsentCond = "spec",
               slice_overrun: SliceOverrun = "error", mmap: bool = False) -> Model:
    """Loads a model; the content says which format it has.

    Constants are read-only views of the content. Bytes that are given must therefore not change while the model is in
    use; a file may, as it is read first, unless it is mapped.

    Args:
        source: the path of a file, the content of one, a file opened for reading bytes, of which the rest is read, or
            an `onnx.ModelProto`.
        weights: the `.bin` file of an OpenVINO model, or its content; by default the file beside the `.xml` file that
            differs in the suffix alone.
        onnx_absent_cond: what an ONNX Loop without the input `cond` does with the condition that its body gives:
            `spec` ignores it, as the specification says; `ort` stops when it is false, as ONNX Runtime does.
        slice_overrun: what happens where a Loop or TensorIterator of OpenVINO asks for a slice that leaves its axis:
            `error` ends the run; `hold_last` takes the last slice that fits instead. In ONNX it is always an error.
        mmap: map files instead of reading them: processes share the memory, and a file may be larger than that. If
            somebody writes to the file while the model is in use, constants change; if it becomes shorter, the system
            ends the process (SIGBUS). Data that ONNX models keep in other files is always read.

    Raises:
        OSError: the file cannot be read.
        InputError: `source` is nothing of that, or there are weights of a model whose format has none.
        ModelError: it is malformed, or no model at all.
        UnsupportedError: it is a model of another kind, or uses a feature that circlet cannot express.
        LimitError: there is not memory enough to read it.
    """
    if _is_model_proto(source):
        _refuse_weights(weights)
        return _load_onnx(source, None, onnx_absent_cond)
    open_file = map_file if mmap else read_file
    data, path = _opened(source, open_file)
    try:
        return _load(data, weights, path, open_file, onnx_absent_cond, slice_overrun)
    except (ModelError, UnsupportedError, LimitError) as problem:
        if path is None:
            raise
        raise type(problem)(f"{path}: {problem}") from None


def _is_model_proto(source: object) -> bool:
    """Whether it is the package `onnx`'s; who has one has imported the package."""
    package = sys.modules.get("onnx")
    return package is not None and isinstance(source, package.ModelProto)


def _opened(source: Source, open_file: _Open) -> tuple[memoryview, Path | None]:
    """The bytes of a source, and where they lie if it is a path.

    Raises:
        InputError: it is neither content nor a path.
    """
    if isinstance(source, (str, os.PathLike)):
        return open_file(os.fspath(source)), Path(source)
    content = source.read() if isinstance(source, ReadableFile) else source
    if isinstance(content, (bytes, bytearray, memoryview)):
        return memoryview(content).cast("B").toreadonly(), None
    raise InputError("expected a path, the content of a file, a file opened for reading bytes or an onnx.ModelProto, "
                     f"found {type(source).__name__}")


def _load(data: memoryview, weights: Source | None, path: Path | None, open_file: _Open, absent_cond: AbsentCond,
          slice_overrun: SliceOverrun) -> Model:
    try:
        return _read(data, weights, path, open_file, absent_cond, slice_overrun)
    except MemoryError as error:
        raise LimitError(f"out of memory: {error}") from None


@np.errstate(all="ignore")
def _read(data: memoryview, weights: Source | None, path: Path | None, open_file: _Open, absent_cond: AbsentCond,
          slice_overrun: SliceOverrun) -> Model:
    if is_openvino(data):
        return read_openvino(data, partial(_weights, weights, path, open_file), Overrun(slice_overrun))
    _refuse_weights(weights)
    for format in FORMATS.values():
        if data[4:8] == format.identifier:
            return read_model(data, format)
    if is_onnx(data):
        return _load_onnx(data, None if path is None else path.parent, absent_cond)
    raise refusal(data)


def _refuse_weights(weights: Source | None) -> None:
    if weights is not None:
        raise InputError("only models of OpenVINO have weights in a file of their own")


def _weights(given: Source | None, path: Path | None, open_file: _Open) -> memoryview:
    if given is not None:
        return _opened(given, open_file)[0]
    if path is None:
        raise ModelError("expected weights beside the content of the .xml file, found none")
    beside = path.with_suffix(".bin")
    if not beside.is_file():
        raise ModelError(f"expected the weights in {beside}, found no such file")
    return open_file(os.fspath(beside))


def _load_onnx(source: Any, folder: Path | None, absent_cond: AbsentCond) -> Model:
    if find_spec("onnx") is None:
        raise UnsupportedError("an ONNX model: reading it needs the package onnx, as circlet[onnx] installs it")
    # Not all who load models have the package.
    with fork.LOADING:
        from circlet.schema.onnx.read import Options, read_onnx

    return read_onnx(source, folder, Options(absent_cond))


def save_model(model: Model, path: str | os.PathLike[str], format: str | None = None,
               external_bytes: int | None = None) -> None:
    """Saves a model. The file appears complete or not at all, and may be the one that the model was loaded from.

    Args:
        model: what to save.
        path: where to; its suffix tells the format.
        format: `tflite` or `circle`, where the suffix does not tell.
        external_bytes: constants and custom options of at least this many bytes lie behind the flatbuffer rather than
            inside, which LiteRT can read and not every other program; by default only in models of more than 2 GB.

    Raises:
        OSError: the file cannot be written.
        ModelError: the model is malformed.
        UnsupportedError: the format cannot express the model.
    """
    target = Path(os.path.realpath(path))
    pieces = write_model(model, _format(format or target.suffix.removeprefix(".").lower()), external_bytes)
    temporary = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            file.writelines(pieces)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def dump_model(model: Model, format: str, external_bytes: int | None = None) -> bytes:
    """The file that `save_model` would write.

    Raises:
        ModelError: the model is malformed.
        UnsupportedError: the format cannot express the model.
    """
    return b"".join(write_model(model, _format(format), external_bytes))


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise UnsupportedError(f"expected a format among {', '.join(FORMATS)}, found {name!r}")
    return FORMATS[name]
