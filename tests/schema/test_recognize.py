"""Content that is no model is named for what it is."""

from __future__ import annotations

import gzip
import inspect
import io
import zipfile
from pathlib import Path
from typing import get_args

import pytest

import circlet
import circlet.schema.onnx.format
import circlet.schema.openvino.format
from circlet.runtime.errors import CircletError, InputError, ModelError, UnsupportedError
from circlet.schema.files import dump_model, load_model
from circlet.schema.formats import OPTIONS
from tests.schema import samples


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a"), "b")  # of no date: it is part of the name of a test
    return file.getvalue()


@pytest.mark.parametrize(("content", "error", "message"), [
    (b"", ModelError, "the file is empty"),
    (b"\x08\x08\x12\x07pytorch\x1a\x03", ModelError, "truncated or corrupt"),
    (b"\x08\x0a:\xb1\x01\x0a\x10", ModelError, "truncated or corrupt"),
    (b"\x08\x01\x12\x80\x02\x0a", UnsupportedError, "a TensorFlow SavedModel"),
    (b'<?xml version="1.0"?>\n<net name="x" version="11">', ModelError, "expected XML"),
    (b'\xef\xbb\xbf<net name="x" version="7"/>', ModelError, "expected version 10 or 11 of OpenVINO IR, found '7'"),
    (b"<?xml version='1.0'?><nothing/>", ModelError, "an element <net>, found <nothing>"),
    (_zip(), UnsupportedError, "a zip archive"),
    (gzip.compress(b"x", mtime=0), UnsupportedError, "gzip"),
    (b"\x89HDF\r\n\x1a\n", UnsupportedError, "HDF5"),
    (b'{"version": 3}', UnsupportedError, "JSON"),
    (b"\x00\x00\x00\x00CTR0", UnsupportedError, "Circle training data"),
    (b"<!DOCTYPE html><html>", ModelError, "a web page"),
    (b"version https://git-lfs.github.com/spec/v1\noid", ModelError, "a Git LFS pointer"),
    (b"\x1c\x00\x00\x00TFL2", ModelError, "TFL3 or CIR0 at byte 4"),
    (b"abc", ModelError, "found b'abc'"),
])
def test_other_content(tmp_path: Path, content: bytes, error: type[CircletError], message: str) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    for source in (content, path):
        with pytest.raises(error, match=message) as caught:
            load_model(source)
        assert (str(path) in str(caught.value)) == (source is path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "missing.tflite")


def test_sources(tmp_path: Path) -> None:
    content = dump_model(samples.chain(), "circle")
    path = tmp_path / "named.tflite"
    path.write_bytes(content)
    for source in (path, str(path), content, bytearray(content), memoryview(content)):
        model = load_model(source)
        assert model.format == "circle"
        samples.assert_same(model, samples.chain())


@pytest.mark.parametrize(("options", "message"), [
    ({"absent_cond": "ort"}, "expected options of reading among onnx_absent_cond, slice_overrun, found 'absent_cond'"),
    ({"slice_overrun": "hold"}, "slice_overrun: expected error or hold_last, found 'hold'"),
])
def test_options_that_no_format_has(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model(dump_model(samples.chain(), "tflite"), options=options)


def test_the_keywords_of_load_are_the_options_of_the_formats() -> None:
    keywords = {name: each for name, each in inspect.signature(circlet.load).parameters.items()
                if each.kind is each.KEYWORD_ONLY and name != "mmap"}
    names = {**vars(circlet.schema.onnx.format), **vars(circlet.schema.openvino.format)}
    assert {name: (get_args(names[each.annotation]), each.default) for name, each in keywords.items()} == {
        option.name: (option.choices, option.choices[0]) for option in OPTIONS.values()}


def test_choices_that_no_option_has() -> None:
    """Type checkers see them too: these comments are errors where there is nothing to ignore."""
    content = dump_model(samples.chain(), "tflite")
    with pytest.raises(InputError, match="slice_overrun: expected error or hold_last, found 'nope'"):
        circlet.load(content, slice_overrun="nope")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="onnx_absent_cond: expected spec or ort, found 'nope'"):
        circlet.load(content, onnx_absent_cond="nope")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="absent_cond"):
        circlet.load(content, absent_cond="ort")  # type: ignore[call-arg]
