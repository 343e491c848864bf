"""ONNX files that are malformed, or that circlet cannot run, are refused with the place and the reason."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import circlet
from circlet.schema.onnx import format as entry
from tests.schema.onnx.graphs import f32, load, parse

SECONDS = 30.0
GOOD = parse("g (float[2] a) => (float[2] b) { k = Constant<value = float[2] {1.0, 2.0}>() b = Add(a, k) }")

MANY = ", ".join(["1"] * 33)


@pytest.mark.parametrize(("text", "message"), [
    ("g (float a) => (float b) { b = Neg(a) b = Abs(a) }", "node 1 .*'b' is defined twice"),
    ("g (float a) => (float b) { c = Neg(b) b = Abs(c) }", "'b' is read, but nothing defines it"),
    ("g (float a) => (float b) { b = Cast(a) }", "attribute 'to' is required"),
    ("g (float a) => (float b) { b = Cast<to = 1.5>(a) }", "attribute 'to': expected type INT, found FLOAT"),
    ("g (float a) => (float b) { b = Cast<to = 99>(a) }", "element type 99 is not known"),
    ("g (float[2] a) => (float b) { b = Concat<axis = 0>() }", r"\(Concat\): expected at least 1 inputs, found 0"),
    ("g (float[2] a) => (float b) { b = Neg(a, a) }", r"\(Neg\): expected 1 inputs, found 2"),
    ("g (float[2] a) => (float b) { b = Range(a, a) }", r"\(Range\): expected 3 inputs, found 2"),
    ("g (float[2] a, int64 i) => (float b) { b = Gather<axis = 2>(a, i) }", "expected -1 to 0 for rank 1, found 2"),
    ("g (float[2] a) => (float b, float c) { b, c = Split<axis = -3>(a) }", "expected -1 to 0 for rank 1, found -3"),
    ("g (float[2,3] a) => (float b) { b = Transpose<perm = [0, 9223372036854775807]>(a) }", "perm: expected each axis"),
    ("g (float[2,3] a) => (float b) { b = MaxPool<kernel_shape = [2]>(a) }", r"spatial axes .* shape \(2, 3\)"),
    ("g (float[1,1,4,4] a, float[1,1,2,2] w) => (float b) { b = ConvTranspose<strides = [1]>(a, w) }",
     r"expected 2 strides, .* found \[1\]"),
    ("g (float[1,1,4,4] a) => (float b) { b = DepthToSpace<blocksize = 0>(a) }", "blocksize: expected a positive"),
    ("g (float[4] a) => (float b) { b = DepthToSpace<blocksize = 2>(a) }", r"expected rank 4, found shape \(4,\)"),
    ("g (float[1,1,4,4] a, float[1,4,4,2] i) => (float b) { b = GridSample<mode = \"x\">(a, i) }", "mode: .*found 'x'"),
    ("g (float[4] a, int64[1,1] i) => (float b) { b = ScatterND<reduction = \"x\">(a, i, a) }",
     "attribute 'reduction': expected none, add, .* found 'x'"),
    ("g (float[3,1,2] x, float[1,6,2] w, float[1,6,3] r) => (float y) { y = GRU(x, w, r) }",
     r"input 1: expected rank 3 and \(9, 2\) behind the directions, found \(1, 6, 2\)"),
    ("g (float a, float b) => (float c) { c = Gemm(a, b) }", "input 1: expected a matrix"),
    (f"g (float[{MANY}] a) => (float b) {{ b = Neg(a) }}", "expected at most 32 dimensions, found 33"),
    (f"g (float[1] a) => (float b) {{ k = Constant<value = int64[33] {{{MANY}}}>() c = Reshape(a, k) b = Add(c, c) }}",
     r"\(Reshape\): expected at most 32 dimensions, found 33"),
    ("g (float[4] a) => (float b) { k = Constant<value = int64[2] {-4, 1}>() b = Reshape(a, k) }",
     r"\(Reshape\): input 1: expected sizes of at least -1, found \[-4, 1\]"),
])
def test_malformed(text: str, message: str) -> None:
    with pytest.raises(circlet.ModelError, match=message):
        load(text)


@pytest.mark.parametrize("old", [b"graph_of_it", b"result_of_it"])
def test_names_that_are_no_text(old: bytes) -> None:
    content = parse("graph_of_it (float[2] a) => (float[2] result_of_it) { result_of_it = Neg(a) }")
    with pytest.raises(circlet.ModelError, match=r"expected a name in UTF-8, found b'.*\\xff"):
        circlet.load(content.replace(old, old[:-1] + b"\xff"))


def test_a_string_that_is_none() -> None:
    node = onnx.helper.make_node("Gelu", ["a"], ["b"], approximate=b"\xff")
    value = onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [2])
    graph = onnx.helper.make_graph([node], "g", [value], [onnx.ValueInfoProto(name="b")])
    content = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]).SerializeToString()
    with pytest.raises(circlet.ModelError, match=r"'approximate': expected UTF-8, found b'\\xff'"):
        circlet.load(content)


HUGE = 1 << 40


@pytest.mark.parametrize("text", [
    f"g (float[1,1,{HUGE},4] a) => (float b) {{ b = AveragePool<kernel_shape = [3,3], pads = [1,1,1,1]>(a) }}",
    f"g (float[4,4] a, int64[{HUGE},1] i) => (float b) {{ b = GatherND<batch_dims = 1>(a, i) }}",
    f"g (float[4,4] a, int64[4,{HUGE}] i) => (float b) {{ b = GatherND(a, i) }}",
    f"g (float[4] a, int64[{HUGE}] i) => (float b) {{ b = Slice(a, i, i) }}",
    f"g (float[4] a, int64[{HUGE}] i) => (float b) {{ b = Unsqueeze(a, i) }}",
    f"g (float[1,1,2] x, float[1,{HUGE},2] w, float[1,3,1] r) => (float y) {{ y = GRU(x, w, r) }}",
])
def test_declared_lengths_make_no_large_tables(text: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(circlet.CircletError, match=r"node 0 .*(a table of|expected)"):
        load(text)
    assert time.perf_counter() - begin < SECONDS


@pytest.mark.parametrize("text", [
    f"g (int64[{HUGE}] a) => (float b) {{ b = ConstantOfShape(a) }}",
    f"g (float[4] a, int64[{HUGE}] i) => (float b) {{ b = Reshape(a, i) }}",
])
def test_declared_lengths_that_may_be_wrong_are_left_to_the_run(text: str) -> None:
    assert load(text).subgraphs[0].operators


@pytest.mark.parametrize(("size", "count"), [("100, 256, 2", 51200), ("65, 64, 1", 4160)])
def test_windows_whose_elements_would_be_too_many_operators(size: str, count: int) -> None:
    for pool in ("AveragePool", "MaxPool"):
        text = f"g (float[1,1,4,4,4] a) => (float b) {{ b = {pool}<kernel_shape = [{size}], dilations = [2,2,2]>(a) }}"
        with pytest.raises(circlet.UnsupportedError, match=rf"{pool} with windows of {count} elements one by one"):
            load(text)


def test_constants_that_do_not_fit_are_left_to_the_run() -> None:
    """The branch that could not be computed is not taken."""
    text = """g (bool c, float[2] a) => (float y) {
        y = If(c) <then_branch = t () => (p) { p = Abs(a) },
                   else_branch = e () => (q) {
                       k = Constant<value = int64[3] {1, 2, 3}>() s = Constant<value = int64[2] {2, 2}>()
                       r = Reshape(k, s) z = Constant<value = int64[2,1] {1, 2}>()
                       j = Concat<axis = 0>(k, z) f = Cast<to = 1>(r) h = Cast<to = 1>(j) q = Mul(f, h) }> }"""
    session = circlet.Session(load(text))
    np.testing.assert_array_equal(session.run([np.array(True), f32(-1, 2)])["y"], f32(1, 2))
    with pytest.raises(circlet.ExecutionError, match=r"\(RESHAPE\): cannot reshape \(3,\)"):
        session.run([np.array(False), f32(-1, 2)])


def calls(depth: int, body: str, first: str = "") -> bytes:
    """Functions f0, f1, ... each of which calls the next one twice, the last one `body`."""
    functions = [f"""<domain: "d", opset_import: ["" : 17, "d" : 1]> f{k} (x) => (y) {{
        {first} a = {name}(x) y = {name}(a) }}""" for k in range(depth)
                 for name in ("d.f" + str(k + 1) if k + 1 < depth else body,)]
    head = '<ir_version: 8, opset_import: ["" : 17, "d" : 1]> g (float[2] a) => (float[2] b) { b = d.f0(a) }'
    return bytes(onnx.parser.parse_model("\n".join([head, *functions])).SerializeToString())


@pytest.mark.slow
def test_functions_that_multiply() -> None:
    """Ten levels are 1024 operators; of forty the file is a kilobyte longer."""
    session = circlet.Session(circlet.load(calls(10, "Neg")), "cpu")
    np.testing.assert_array_equal(session.run([f32(1, 2)])["b"], f32(1, 2))
    begin = time.perf_counter()
    with pytest.raises(circlet.UnsupportedError, match=r"\(d.f1\): .*\(d.f12\): .*repeat nodes .* too often"):
        circlet.load(calls(40, "Neg"))
    assert time.perf_counter() - begin < SECONDS


def test_data_in_functions_that_multiply() -> None:
    numbers = ", ".join(["1"] * 5000)
    constant = f"k = Constant<value = float[5000] {{{numbers}}}>()"
    begin = time.perf_counter()
    with pytest.raises(circlet.UnsupportedError, match=r"\(d.f5\): .*repeat nodes and their data too often"):
        circlet.load(calls(13, "Neg", constant))
    assert time.perf_counter() - begin < SECONDS


def test_groups_that_multiply() -> None:
    begin = time.perf_counter()
    with pytest.raises(circlet.UnsupportedError, match=r"\(ConvTranspose\): .*groups repeat nodes .* too often"):
        load("g (float[1, 65536, 2, 2] a, float[65536, 1, 2, 2] w) => (float b) "
             "{ b = ConvTranspose<group = 65536>(a, w) }")
    assert time.perf_counter() - begin < SECONDS


def test_a_body_that_onnx_cannot_make() -> None:
    """It writes names into the text of the body as they are."""
    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [1, 1, 2, 2])
    scores, found = (onnx.helper.make_value_info(each, kind) for each in ("s", "t"))
    name = onnx.numpy_helper.from_array(f32(1), "%s")
    inner = onnx.helper.make_graph([onnx.helper.make_node("Mul", ["s", "%s"], ["t"])], "m", [scores], [found], [name])
    node = onnx.helper.make_node("FlexAttention", ["a", "a", "a"], ["b"], domain="ai.onnx.preview", score_mod=inner)
    graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_value_info("a", kind)],
                                   [onnx.helper.make_value_info("b", kind)])
    opsets = [onnx.helper.make_opsetid("", 26), onnx.helper.make_opsetid("ai.onnx.preview", 1)]
    with pytest.raises(circlet.ModelError, match=r"\(ai.onnx.preview.FlexAttention\): onnx cannot make the body"):
        circlet.load(onnx.helper.make_model(graph, opset_imports=opsets).SerializeToString())


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


def narrow(kind: int, values: list[float], operator: str, domain: str = "") -> bytes:
    """A model that applies an operator to a constant of a narrow type and a scale for each row."""
    constants = [onnx.helper.make_tensor("w", kind, [2, 2], values),
                 onnx.numpy_helper.from_array(np.array([2, 0.5], np.float32), "s")]
    inputs = ["w", "s"] if operator == "DequantizeLinear" else ["w"]
    node = onnx.helper.make_node(operator, inputs, ["y"], domain=domain)
    if operator == "DequantizeLinear":
        node.attribute.append(onnx.helper.make_attribute("axis", 0))
    graph = onnx.helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], constants)
    return bytes(onnx.helper.make_model(graph, opset_imports=[
        onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]).SerializeToString())


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize(("kind", "values"), NARROW)
def test_constants_of_narrow_types_are_dequantised_and_nothing_else(kind: int, values: list[float], domain: str
                                                                    ) -> None:
    """ONNX Runtime's quantiser writes an operator of its own into models of operator sets before 21."""
    (found,) = circlet.Session(circlet.load(narrow(kind, values, "DequantizeLinear", domain))).run().values()
    expected = np.array(values, np.float32).reshape(2, 2) * np.array([[2], [0.5]], np.float32)
    np.testing.assert_array_equal(found, expected, strict=True)
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
    assert circlet.load(path).provenance is None
    np.testing.assert_array_equal(circlet.Session(circlet.load(path)).run([zeros])["b"], zeros + 2)
    with pytest.raises(circlet.ModelError, match="tensor 'k': its data lies in another file; load the model by"):
        circlet.load(path.read_bytes())
    (tmp_path / "data.bin").unlink()
    with pytest.raises(circlet.ModelError, match=r"model\.onnx: tensor 'k'"):
        circlet.load(path)


def test_names_are_no_data_in_other_files() -> None:
    """What a model was read from is known, so that there can be a plan, whatever its values are called."""
    model = circlet.load(parse("g (float[4] location_of_x) => (float[4] y) { my_location = Neg(location_of_x) "
                               "y = Neg(my_location) }"))
    assert model.provenance is not None


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "find_spec", lambda name: None)
    with pytest.raises(circlet.UnsupportedError, match=r"needs the package onnx, as circlet\[onnx\] installs it"):
        circlet.load(GOOD)
