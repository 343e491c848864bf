"""Loads and saves models in any format that circlet knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from circlet.runtime.errors import InputError, LimitError, ModelError, UnsupportedError
from circlet.runtime.ir.model import Model, Provenance
from circlet.runtime.ir.verify import verify
from circlet.runtime.late import LOADING
from circlet.runtime.passes.manager import Heard, Pipeline, unheard
from circlet.runtime.passes.pipelines import IMPORTED
from circlet.runtime.records import dataclass, replace
from circlet.schema.content import map_file, read_file, weights_beside
from circlet.schema.format import Format
from circlet.schema.formats import FORMATS, WRITTEN, chosen, parsed, recognized, titles, uncommon
from circlet.schema.importer.entry import Content, ModelFormat
from circlet.schema.recognize import refusal


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


def load_model(source: Source, weights: Source | None = None, *, mmap: bool = False,
               options: Mapping[str, str] | None = None, verified: bool = False, pipeline: Pipeline = IMPORTED,
               hear: Heard = unheard, content: memoryview | None = None, digest: bytes = b"") -> Model:
    """Loads a model; the content says which format it has.

    Constants are read-only views of the content. Bytes that are given must therefore not change while the model is in
    use; a file may, as it is read first, unless it is mapped.

    Args:
        source: the path of a file, the content of one, a file opened for reading bytes, of which the rest is read, or
            an `onnx.ModelProto`.
        weights: the `.bin` file of an OpenVINO model, or its content; by default the file beside the `.xml` file that
            differs in the suffix alone.
        mmap: map files instead of reading them: processes share the memory, and a file may be larger than that. If
            somebody writes to the file while the model is in use, constants change; if it becomes shorter, the system
            ends the process (SIGBUS). Data that ONNX models keep in other files is always read.
        options: choices among those of `circlet.schema.formats.OPTIONS`; the first one of each where there is none.
        verified: verify the model; else it may be malformed, where no pass changed it.
        pipeline: is run on models of formats with channels first.
        hear: is told of these passes.
        content: what the file of a path holds, if it was read before.
        digest: `Provenance.digest` of what the model is read from, if it was made before. The model then has no content
            of which no constant is a view.

    Raises:
        OSError: the file cannot be read.
        InputError: `source` is nothing of that, there are weights of a model whose format has none, or no such option.
        ModelError: it is malformed, or no model at all.
        UnsupportedError: it is a model of another kind, or uses a feature that circlet cannot express.
        LimitError: there is not memory enough to read it.
    """
    choices, open_file = chosen(options or {}), map_file if mmap else read_file
    format, path, beside = parsed(source), None, _Weights(weights, None, open_file)
    if format is not None:
        found = Content(source, None, beside.needed)
    else:
        data, path = _opened(source, open_file if content is None else lambda _: content)
        beside = _Weights(weights, path, open_file)
        found = Content(data, None if path is None else path.parent, beside.needed)
        format = recognized(data)
    try:
        if weights is not None:
            _expect_weights(format)
        if format is None:
            raise refusal(found.data, titles())
        read, model = _read(format, found, choices, pipeline, hear)
    except (ModelError, UnsupportedError, LimitError) as problem:
        if path is None:
            raise
        raise type(problem)(f"{path}: {problem}") from None
    if verified and model is read:
        verify(model)
    is_known = isinstance(found.data, memoryview) and pipeline is IMPORTED and format.is_complete(found.data)
    if not is_known:
        return model
    own = (beside.data if format.has_weights else None) or memoryview(b"")
    kept = found.data if format.has_views or not digest else memoryview(b"")
    return replace(model, provenance=Provenance(kept, uncommon(choices), model.subgraphs, model.signatures,
                                                own, digest))


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


@np.errstate(all="ignore")
def _read(format: ModelFormat, content: Content, choices: Mapping[str, str], pipeline: Pipeline,
          hear: Heard) -> tuple[Model, Model]:
    """The model before passes, and after them."""
    try:
        model = format.read(content, choices)
        return model, pipeline.run(model, hear) if format.is_channels_first else model
    except MemoryError as error:
        raise LimitError(f"out of memory: {error}") from None


def _expect_weights(format: ModelFormat | None) -> None:
    if format is None or not format.has_weights:
        named = " and ".join(each.title for each in FORMATS if each.has_weights)
        raise InputError(f"only models of {named} have weights in a file of their own")


@dataclass(frozen=True, eq=False)
class _Weights:
    """The weights of a model, which are opened once, when somebody asks for them."""

    given: Source | None
    path: Path | None
    """Of the model's file."""
    open: _Open

    @cached_property
    def data(self) -> memoryview | None:
        """Their content; None where there are none."""
        if self.given is not None:
            return _opened(self.given, self.open)[0]
        if self.path is None or not weights_beside(self.path).is_file():
            return None
        return self.open(os.fspath(weights_beside(self.path)))

    def needed(self) -> memoryview:
        """Their content.

        Raises:
            ModelError: there are none.
        """
        if self.data is not None:
            return self.data
        if self.path is None:
            raise ModelError("expected weights beside the content of the .xml file, found none")
        raise ModelError(f"expected the weights in {weights_beside(self.path)}, found no such file")


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
    pieces = _written(model, _format(format or target.suffix.removeprefix(".").lower()), external_bytes)
    temporary = target.with_name(f".{target.name}.{os.urandom(16).hex()}")
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
    return b"".join(_written(model, _format(format), external_bytes))


def _written(model: Model, format: Format, external_bytes: int | None) -> Iterable[bytes | bytearray | memoryview]:
    with LOADING:
        from circlet.schema.writer import write_model

    return write_model(model, format, external_bytes)


def _format(name: str) -> Format:
    if name not in WRITTEN:
        raise UnsupportedError(f"expected a format among {', '.join(WRITTEN)}, found {name!r}")
    return WRITTEN[name]
