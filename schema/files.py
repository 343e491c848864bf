"""Loads and saves models in any format that circlet knows."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import uuid4

from circlet.runtime.errors import InputError, ModelError, UnsupportedError
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

Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview"
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
        source: the path of a file, or the content of one.
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
        LimitError: there is not memory enough for the content of a file.
        InputError: there are weights of a model whose format has none.
        ModelError: it is malformed, or no model at all.
        UnsupportedError: it is a model of another kind, or uses a feature that circlet cannot express.
    """
    open_file = map_file if mmap else read_file
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _load(_view(source), weights, None, open_file, onnx_absent_cond, slice_overrun)
    path = os.fspath(source)
    try:
        return _load(open_file(path), weights, Path(path), open_file, onnx_absent_cond, slice_overrun)
    except (ModelError, UnsupportedError) as problem:
        raise type(problem)(f"{path}: {problem}") from None


def _view(content: bytes | bytearray | memoryview) -> memoryview:
    return memoryview(content).cast("B").toreadonly()


def _load(data: memoryview, weights: Source | None, path: Path | None, open_file: _Open, absent_cond: AbsentCond,
          slice_overrun: SliceOverrun) -> Model:
    if is_openvino(data):
        return read_openvino(data, partial(_weights, weights, path, open_file), Overrun(slice_overrun))
    if weights is not None:
        raise InputError("only models of OpenVINO have weights in a file of their own")
    for format in FORMATS.values():
        if data[4:8] == format.identifier:
            return read_model(data, format)
    if is_onnx(data):
        return _load_onnx(data, None if path is None else path.parent, absent_cond)
    raise refusal(data)


def _weights(given: Source | None, path: Path | None, open_file: _Open) -> memoryview:
    if isinstance(given, (bytes, bytearray, memoryview)):
        return _view(given)
    if given is not None:
        return open_file(os.fspath(given))
    if path is None:
        raise ModelError("expected weights beside the content of the .xml file, found none")
    beside = path.with_suffix(".bin")
    if not beside.is_file():
        raise ModelError(f"expected the weights in {beside}, found no such file")
    return open_file(os.fspath(beside))


def _load_onnx(data: memoryview, folder: Path | None, absent_cond: AbsentCond) -> Model:
    if find_spec("onnx") is None:
        raise UnsupportedError("an ONNX model: reading it needs the package onnx, as circlet[onnx] installs it")
    # Not all who load models have the package.
    with fork.LOADING:
        from circlet.schema.onnx.read import Options, read_onnx

    return read_onnx(data, folder, Options(absent_cond))


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
