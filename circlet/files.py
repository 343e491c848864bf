"""Models from files, and to files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from circlet.backends.platform import Feature, current
from circlet.given import Given
from circlet.runtime.ir.model import Model
from circlet.runtime.late import LOADING

if TYPE_CHECKING:
    from circlet.schema.files import Source
    from circlet.schema.onnx.format import AbsentCond
    from circlet.schema.openvino.format import SliceOverrun


def load(source: Source, weights: Source | None = None, *, mmap: bool = False,
         onnx_absent_cond: AbsentCond = "spec", slice_overrun: SliceOverrun = "error") -> Model:
    """Reads a model; the format is recognised by content.

    Constants are views of the content. Bytes that are given must not change while the model is in use; a file may. What
    native code was kept for is read from the content when the model is looked into, as it was read and verified before.

    Args:
        source: a path, or the content of a `.tflite`, `.circle`, `.onnx` or OpenVINO `.xml` file: as bytes, or a file
            opened for reading bytes, such as `io.BytesIO`; or an `onnx.ModelProto`. An `.onnx` file needs the package
            `onnx`, which `circlet[onnx]` installs.
        weights: the `.bin` file of an OpenVINO model, or its content; by default the file beside the `.xml` file that
            differs in the suffix alone.
        mmap: map files instead of reading them, for models that many processes share or that are larger than memory.
            The file must then stay as it is while the model is in use: if it becomes shorter, the system ends the
            process.
        onnx_absent_cond: what an ONNX Loop without the input `cond` does with the condition that its body gives: `spec`
            ignores it, as the specification says; `ort` stops when it is false, as ONNX Runtime does.
        slice_overrun: what happens where a Loop or TensorIterator of OpenVINO asks for a slice that leaves its axis:
            `error` ends the run; `hold_last` takes the last slice that fits instead. In ONNX it is always an error.

    Raises:
        InputError: `source` is nothing of that, there are weights of a model whose format has none, or no such choice.
        ModelError: it is not a model, or a malformed one.
        UnsupportedError: it uses a part of the format that circlet cannot read.
        LimitError: there is not memory enough for the content of a file.
        OSError: the file cannot be opened.
    """
    is_plain = weights is None and not mmap and (onnx_absent_cond, slice_overrun) == ("spec", "error")
    given = Given(source)
    known = _planned(given) if is_plain and not isinstance(source, Model) else None
    if known is not None:
        return known
    with LOADING:
        from circlet.schema.files import load_model

    options = {"onnx_absent_cond": onnx_absent_cond, "slice_overrun": slice_overrun}
    return load_model(source, given.weights if weights is None else weights, mmap=mmap, options=options, verified=True,
                      content=given.content)


def _planned(given: Given) -> Model | None:
    """The model, if it was run before and there is a plan of it."""
    provenance = None if Feature.LLVM in current().lacks else given.provenance()
    if provenance is None:
        return None
    with LOADING:
        from circlet.backends.native.plans.key import is_planned

    if not is_planned(provenance):
        return None
    with LOADING:
        from circlet.unread import Unread

    return Unread.of(provenance, given.read)


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Writes a model in the format that the ending of `path` names, `.tflite` or `.circle`.

    Raises:
        UnsupportedError: the format cannot say something that the model holds.
    """
    with LOADING:
        from circlet.runtime.ir.verify import verify
        from circlet.schema.files import save_model

    verify(model)
    save_model(model, path)
