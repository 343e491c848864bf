"""ONNX files that are malformed, or that circlet cannot run, are refused with the place and the reason."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import circlet
from circlet.schema import files
from tests.schema.onnx.graphs import f32, load, parse

GOOD = parse("g (float[2] a) => (float[2] b) { k = Constant<value = float[2] {1.0, 2.0}>() b = Add(a, k) }")


@pytest.mark.parametrize(("text", "message"), [
    ("g (float a) => (float b) { b = Neg(a) b = Abs(a) }", "node 1 .*'b' is defined twice"),
    ("g (float a) => (float b) { c = Neg(b) b = Abs(c) }", "'b' is read, but nothing defines it"),
    ("g (float a) => (float b) { b = Cast(a) }", "attribute 'to' is required"),
    ("g (float a) => (float b) { b = Cast<to = 1.5>(a) }", "attribute 'to': expected type INT, found FLOAT"),
    ("g (float a) => (float b) { b = Cast<to = 99>(a) }", "element type 99 is not known"),
    ("g (float[2] a) => (float b) { b = Concat<axis = 0>() }", "input 0 is required"),
])
def test_malformed(text: str, message: str) -> None:
    with pytest.raises(circlet.ModelError, match=message):
        load(text)


def test_all_unknown_operators_are_named() -> None:
    text = """<ir_version: 8, opset_import: ["" : 16, "other" : 2]> g (bool c, float a) => (float y) {
        b = other.Thing(a) y = If(c) <then_branch = t () => (p) { p = ImageDecoder(b) }, else_branch = e () => (q) {
            q = Abs(b) }> }"""
    content = onnx.parser.parse_model(text).SerializeToString()
    with pytest.raises(circlet.UnsupportedError, match=r"2 kinds .*other.Thing \(version 2\), ImageDecoder \(version"):
        circlet.load(content)


@pytest.mark.parametrize("text", [
    "g (float8e4m3fn[2] a) => (float8e4m3fn[2] b) { b = Identity(a) }",
    "g (sparse_tensor(float[2]) a) => (float b) { b = Neg(a) }",
])
def test_types_are_refused_by_name(text: str) -> None:
    with pytest.raises(circlet.UnsupportedError, match=r"element type float8e4m3fn|values of type sparse_tensor"):
        load(text)


NARROW = [(onnx.TensorProto.INT4, [-8, 7, 1, 2]), (onnx.TensorProto.UINT4, [15, 7, 1, 2]),
          (onnx.TensorProto.FLOAT8E4M3FN, [-448, 0.5, 1, 2])]


def narrow(kind: int, values: list[float], operator: str) -> bytes:
    """A model that applies an operator to a constant of a narrow type and a scale for each row."""
    constants = [onnx.helper.make_tensor("w", kind, [2, 2], values),
                 onnx.numpy_helper.from_array(np.float32([2, 0.5]), "s")]
    node = onnx.helper.make_node(operator, ["w", "s"][:2 if operator == "DequantizeLinear" else 1], ["y"])
    if operator == "DequantizeLinear":
        node.attribute.append(onnx.helper.make_attribute("axis", 0))
    graph = onnx.helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], constants)
    return bytes(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]).SerializeToString())


@pytest.mark.parametrize(("kind", "values"), NARROW)
def test_constants_of_narrow_types_are_dequantised_and_nothing_else(kind: int, values: list[float]) -> None:
    (found,) = circlet.Session(circlet.load(narrow(kind, values, "DequantizeLinear"))).run().values()
    np.testing.assert_array_equal(found, np.float32(values).reshape(2, 2) * np.float32([[2], [0.5]]), strict=True)
    with pytest.raises(circlet.UnsupportedError, match=r"\(Identity\): element type (int4|uint4|float8e4m3fn)"):
        circlet.load(narrow(kind, values, "Identity"))


def test_old_operator_sets_are_refused_where_operators_meant_something_else() -> None:
    check = "g (float[2] a) => (float[2] b) { b = Neg(a) }"
    np.testing.assert_array_equal(circlet.Session(load(check, opset=6)).run([f32(1, 2)])["b"], f32(-1, -2))
    with pytest.raises(circlet.UnsupportedError, match=r"Add \(version 6\)"):
        load("g (float[2] a) => (float[2] b) { b = Add(a, a) }", opset=6)


@pytest.mark.parametrize("size", [3, 10, len(GOOD) // 2, len(GOOD) - 3])
def test_truncated(size: int) -> None:
    with pytest.raises((circlet.ModelError, circlet.UnsupportedError)):
        circlet.load(GOOD[:size])


def test_flipped_bytes_never_crash() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        content = bytearray(GOOD)
        content[rng.integers(len(content))] = rng.integers(256)
        with suppress(circlet.CircletError):
            circlet.Session(circlet.load(bytes(content)), backend="cpu")


def test_data_in_other_files(tmp_path: Path) -> None:
    proto = onnx.ModelProto.FromString(parse("g (float[64] a) => (float[64] b) { b = Add(a, k) }".replace(
        ") {", ") <float[64] k = {" + ", ".join(["2.0"] * 64) + "}> {")))
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.full(64, 2, np.float32), "k"))
    path = tmp_path / "model.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, location="data.bin", size_threshold=0)
    zeros = np.zeros(64, np.float32)
    np.testing.assert_array_equal(circlet.Session(circlet.load(path)).run([zeros])["b"], zeros + 2)
    with pytest.raises(circlet.ModelError, match="tensor 'k': its data lies in another file; load the model by"):
        circlet.load(path.read_bytes())
    (tmp_path / "data.bin").unlink()
    with pytest.raises(circlet.ModelError, match=r"model\.onnx: tensor 'k'"):
        circlet.load(path)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(circlet.UnsupportedError, match=r"needs the package onnx, as circlet\[onnx\] installs it"):
        circlet.load(GOOD)
