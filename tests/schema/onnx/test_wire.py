"""The content of large tensors is taken out of a file before it is parsed; nothing is lost, nor read otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import circlet
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import Array
from circlet.schema.onnx import wire
from circlet.schema.onnx.wire import separated
from tests.native.test_plans import is_prepared
from tests.needs import NATIVE

LARGE = 1 << 12
"""Bytes of what is taken out."""


def tensors() -> list[TensorProto]:
    """Initializers of all types, small and large, with `raw_data` and without."""
    random = np.random.default_rng(0)
    found = [numpy_helper.from_array(random.integers(0, 2, LARGE).astype(kind), f"t{kind}") for kind in (
        "f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool")]
    found.append(numpy_helper.from_array(np.arange(3, dtype=np.float32), "small"))
    found.append(numpy_helper.from_array(np.empty((0, 4), np.float32), "none"))
    found.append(helper.make_tensor("typed", TensorProto.FLOAT, [LARGE], np.arange(LARGE, dtype=np.float32)))
    found.append(helper.make_tensor("half", TensorProto.BFLOAT16, [LARGE], np.arange(LARGE, dtype=np.float32)))
    found.append(helper.make_tensor("bits", TensorProto.INT4, [2 * LARGE], bytes(LARGE), raw=True))
    return found


def file(initializers: list[TensorProto]) -> bytes:
    """A model whose outputs are its initializers."""
    outputs = [helper.make_tensor_value_info(f"{each.name}_out", each.data_type, list(each.dims))
               for each in initializers]
    nodes = [helper.make_node("Identity", [each.name], [f"{each.name}_out"]) for each in initializers]
    graph = helper.make_graph(nodes, "g", [], outputs, initializer=initializers, doc_string="of a graph")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], producer_name="who")
    return bytes(model.SerializeToString())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models are looked through, too."""
    monkeypatch.setattr(wire, "SMALLEST", 0)


def constants(content: bytes) -> dict[str, Array]:
    return {each.name: each.data for each in circlet.load(content).subgraphs[0].tensors
            if each.data is not None and not each.name.endswith("_out")}


def test_nothing_is_lost(small: None) -> None:
    content = file(tensors())
    whole, parts = onnx.ModelProto.FromString(content), separated(memoryview(content))
    found = onnx.ModelProto.FromString(parts.model)
    assert sorted(parts.contents) == [k for k, each in enumerate(tensors()) if each.data_type in wire.PLAIN and len(
        each.raw_data) >= LARGE]
    assert len(parts.contents) == 12
    for number, data in parts.contents.items():
        assert not found.graph.initializer[number].HasField("raw_data")
        found.graph.initializer[number].raw_data = bytes(data)
    assert found == whole


def test_constants_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    content = file(tensors()[:-1])
    expected = constants(content)
    monkeypatch.setattr(wire, "SMALLEST", 0)
    found = constants(content)
    assert list(found) == list(expected)
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name], strict=True)
        assert array.flags.aligned
        assert not array.flags.writeable


def test_content_that_does_not_fit_is_told(small: None) -> None:
    tensor = numpy_helper.from_array(np.zeros(LARGE, np.float32), "w")
    tensor.raw_data += b"1234"
    with pytest.raises(ModelError, match="tensor 'w': cannot reshape array of size 4097 into shape \\(4096,\\)"):
        circlet.load(file([tensor]))
    tensor.raw_data += b"1"
    with pytest.raises(ModelError, match="tensor 'w': buffer size must be a multiple of element size"):
        circlet.load(file([tensor]))


def test_what_lies_in_other_files_is_left(small: None, tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(LARGE, np.float32), "w")
    tensor.data_location = TensorProto.EXTERNAL
    assert not separated(memoryview(file([tensor]))).contents


def test_a_graph_in_parts_is_left(small: None) -> None:
    one, other = (onnx.ModelProto.FromString(file([each])) for each in tensors()[:2])
    content = bytes(one.SerializeToString() + onnx.ModelProto(graph=other.graph).SerializeToString())
    assert separated(memoryview(content)) == (content, {})
    assert len(onnx.ModelProto.FromString(content).graph.initializer) == 2


@pytest.mark.usefixtures("small")
@given(st.data())
def test_damage_is_found_by_the_parser(data: Any) -> None:
    """What is cut off or changed anywhere is what it would be without."""
    content = bytearray(file(tensors()[:2]))
    place = data.draw(st.one_of(st.integers(0, 300), st.integers(0, len(content) - 1)))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    parts = separated(memoryview(content))
    try:
        whole = onnx.ModelProto.FromString(bytes(content))
    except Exception as error:
        with pytest.raises(type(error)):
            onnx.ModelProto.FromString(parts.model)
        return
    found = onnx.ModelProto.FromString(parts.model)
    for number, raw in parts.contents.items():
        found.graph.initializer[number].raw_data = bytes(raw)
    assert found == whole


@NATIVE
def test_models_that_are_compiled_have_no_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants are no views of it, and its digest is known: the plan is found by it."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "functions"))
    path, x = tmp_path / "model.onnx", np.arange(LARGE, dtype=np.float32)
    weights = numpy_helper.from_array(x + 1, "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [LARGE]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    session = circlet.Session(path, "native")
    np.testing.assert_array_equal(session.run({"x": x})["y"], 2 * x + 1)
    provenance = session.model.provenance
    assert provenance is not None
    assert session.model.is_as_read
    assert not provenance.content.nbytes
    again = circlet.Session(path, "native")
    np.testing.assert_array_equal(again.run({"x": x})["y"], 2 * x + 1)
    assert is_prepared(again)
    assert again.model.provenance is not None
    assert again.model.provenance.digest == provenance.digest
