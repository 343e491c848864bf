"""The table of formats: how each is recognised and read, with which options, and which can be written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from circlet.runtime.errors import InputError, ModelError
from circlet.runtime.ir.model import Model
from circlet.schema.circle import CIRCLE
from circlet.schema.container import expect_checksum, is_container, read_table
from circlet.schema.format import Format
from circlet.schema.importer.entry import Content, ModelFormat, ReadOption
from circlet.schema.onnx.format import ONNX
from circlet.schema.openvino.format import OPENVINO
from circlet.schema.reader import read_model
from circlet.schema.tflite import TFLITE

WRITTEN = {format.name: format for format in (TFLITE, CIRCLE)}
"""The formats that can be written, by name."""


def _flatbuffer(format: Format) -> ModelFormat:
    """The entry of a dialect of TensorFlow Lite's schema."""
    return ModelFormat(format.name, f".{format.name}", partial(_has_identifier, format), partial(_read, format),
                       is_complete=lambda content: True)


def _has_identifier(format: Format, data: memoryview) -> bool:
    return data[4:8] == format.identifier


def _read(format: Format, content: Content, options: Mapping[str, str]) -> Model:
    return read_model(content.data, format)


def _contained(content: Content, options: Mapping[str, str]) -> Model:
    """The model inside; the code beside it is let be."""
    format, data = model_inside(content.data)
    return read_model(data, format)


def model_inside(data: memoryview) -> tuple[Format, memoryview]:
    """The model in a `.circlet` file.

    Raises:
        ModelError: the file is damaged.
        UnsupportedError: it has another version.
    """
    table = read_table(lambda offset, size: data[offset:offset + size], len(data))
    if table.format not in WRITTEN:
        raise ModelError(f"expected a model of a format among {', '.join(WRITTEN)}, found {table.format!r}")
    found = data[table.model.offset:table.model.offset + table.model.size]
    expect_checksum(table.model, [found], "the model")
    return WRITTEN[table.format], found


CONTAINER = ModelFormat("circlet", ".circlet", is_container, _contained, is_complete=lambda content: True)
"""Models with code of theirs, as `circlet compile` writes them."""
FORMATS: tuple[ModelFormat, ...] = (*map(_flatbuffer, WRITTEN.values()), CONTAINER, ONNX, OPENVINO)
"""The formats that can be read, in the order in which content is compared with them."""
OPTIONS: dict[str, ReadOption] = {option.name: option for format in FORMATS for option in format.options}
"""All options of reading by name."""


def recognized(data: memoryview) -> ModelFormat | None:
    """The format of content; None where it has none of the table."""
    return next((each for each in FORMATS if each.recognizes(data)), None)


def parsed(source: object) -> ModelFormat | None:
    """The format of a model that a format's own package has parsed; None where it is nothing of that."""
    return next((each for each in FORMATS if each.parsed(source)), None)


def titles() -> str:
    """The formats in words."""
    return f"{', '.join(each.title for each in FORMATS[:-1])} or {FORMATS[-1].title}"


def uncommon(choices: Mapping[str, str]) -> str:
    """The choices that nobody has who chooses nothing, in words."""
    return ", ".join(f"{name}={choice}" for name, choice in choices.items() if choice != OPTIONS[name].choices[0])


def chosen(given: Mapping[str, str]) -> dict[str, str]:
    """The choice for each option of reading.

    Raises:
        InputError: there is no such option, or no such choice.
    """
    for name, choice in given.items():
        if name not in OPTIONS:
            raise InputError(f"expected options of reading among {', '.join(OPTIONS)}, found {name!r}")
        if choice not in OPTIONS[name].choices:
            raise InputError(f"{name}: expected {' or '.join(OPTIONS[name].choices)}, found {choice!r}")
    return {name: given.get(name, option.choices[0]) for name, option in OPTIONS.items()}
