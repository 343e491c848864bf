"""A model stays as it was loaded, whatever becomes of its files, unless they are mapped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.elementwise import Add
from tests.schema.openvino import text

LENGTH = 3000
"""Elements, of more than a page."""
STORED = np.arange(LENGTH, dtype=np.float32)
WEIGHTS = np.arange(3, dtype=np.float32).tobytes()


def flatbuffer(path: Path) -> tuple[Path, Path]:
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(Add(), main.input("x", DType.FLOAT32, (LENGTH,)), main.constant(STORED)))
    circlet.save(b.build(), path / "model.tflite")
    return path / "model.tflite", path / "model.tflite"


def openvino(path: Path) -> tuple[Path, Path]:
    (path / "net.xml").write_text(text.relu())
    (path / "net.bin").write_bytes(WEIGHTS)
    return path / "net.xml", path / "net.bin"


def constants(model: circlet.Model) -> list[Array]:
    return [each.data.copy() for each in model.subgraphs[0].tensors if each.data is not None]


@pytest.mark.parametrize("make", [flatbuffer, openvino])
@pytest.mark.parametrize("mmap", [False, True], ids=["read", "mapped"])
def test_what_was_read_stays(tmp_path: Path, make: Callable[[Path], tuple[Path, Path]], mmap: bool) -> None:
    path, data = make(tmp_path)
    model = circlet.load(path, mmap=mmap)
    before = constants(model)
    with data.open("r+b") as file:
        file.write(b"\x40" * data.stat().st_size)
    same = [np.array_equal(one, other) for one, other in zip(before, constants(model), strict=True)]
    assert before
    assert same == [not mmap] * len(same)
    if not mmap:
        os.truncate(data, 0)
        assert all(np.array_equal(one, other) for one, other in zip(before, constants(model), strict=True))


@pytest.mark.parametrize("mmap", [False, True], ids=["read", "mapped"])
def test_an_empty_file_is_no_model(tmp_path: Path, mmap: bool) -> None:
    (tmp_path / "model.tflite").write_bytes(b"")
    with pytest.raises(circlet.ModelError, match=r"model\.tflite"):
        circlet.load(tmp_path / "model.tflite", mmap=mmap)


def test_data_of_onnx_in_another_file_is_read(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    graph = onnx.parser.parse_graph(f"g (float[{LENGTH}] x) => (float[{LENGTH}] y) {{ y = Add(x, w) }}")
    graph.initializer.append(onnx.numpy_helper.from_array(STORED, "w"))
    onnx.save_model(onnx.helper.make_model(graph), tmp_path / "m.onnx", save_as_external_data=True, location="data.bin",
                    size_threshold=0)
    model = circlet.load(tmp_path / "m.onnx", mmap=True)
    os.truncate(tmp_path / "data.bin", 0)
    (found,) = constants(model)
    assert np.array_equal(found, STORED)
