"""Convolutions and products between DequantizeLinear and QuantizeLinear: sums of integers times the scales, in both
backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import circlet
from circlet.runtime.ir.types import DType
from tests.schema.onnx.test_qlinear import Array, scale, value, weights, zero

COLUMNS = np.linspace(0.001, 0.01, 8, dtype=np.float32)
NONE = np.zeros(8, np.int8)
EACH = (weights((8, 4, 3)), COLUMNS, NONE)
"""A filter of signals, with a scale for each channel."""
CASES: dict[str, tuple[str, tuple[int, ...], tuple[Array, Array, Array], int, dict[str, Any]]] = {
    "signals": ("Conv", (2, 4, 20), EACH, 0, {"pads": [1, 1]}),
    "images-of-unsigned": ("Conv", (2, 4, 7, 6), (weights((8, 4, 3, 2), "uint8"), scale(0.01), zero(121)), 0, {}),
    "depthwise": ("Conv", (2, 8, 7, 6), (weights((8, 1, 3, 3)), COLUMNS, NONE), 0, {"group": 8, "pads": [1] * 4}),
    "matrices": ("MatMul", (2, 5, 6), (weights((6, 8)), COLUMNS, NONE), 1, {}),
    "layer": ("Gemm", (5, 6), (weights((8, 6)), COLUMNS, NONE), 0, {"transB": 1}),
}


def network(op: str, shape: tuple[int, ...], factor: tuple[Array, Array, Array], axis: int,
            attributes: dict[str, Any], kind: str, is_biased: bool) -> Any:
    """Two of the operators' kin in a row would hide which one is wrong, so there is one, and a quantised result."""
    data, scales, zeros = factor
    known = {"w_stored": data, "w_scale": scales, "w_zero": zeros, "x_scale": scale(0.02), "x_zero": zero(90, kind),
             "y_scale": scale(0.3), "y_zero": zero(7, kind), "b_stored": np.arange(8, dtype=np.int32) * 900 - 3000,
             "b_scale": np.float32(0.02) * np.broadcast_to(scales, (8,))}
    nodes = [helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["real"]),
             helper.make_node("DequantizeLinear", ["w_stored", "w_scale", "w_zero"], ["w"], axis=axis),
             helper.make_node("DequantizeLinear", ["b_stored", "b_scale"], ["b"], axis=0),
             helper.make_node(op, ["real", "w", *(["b"] if is_biased and op != "MatMul" else [])], ["sums"],
                              **attributes),
             helper.make_node("QuantizeLinear", ["sums", "y_scale", "y_zero"], ["y"])]
    byte = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", byte, ["n", *shape[1:]])],
        [helper.make_tensor_value_info("sums", TensorProto.FLOAT, None),
         helper.make_tensor_value_info("y", byte, None)],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in known.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


REAL: dict[str, tuple[str, tuple[int, ...], tuple[Array, Array, Array], int, dict[str, Any]]] = {
    "volumes": ("Conv", (2, 4, 5, 6, 7), (weights((8, 4, 3, 2, 3)), COLUMNS, NONE), 0, {"pads": [1] * 6}),
    "transposed": ("ConvTranspose", (2, 4, 7, 6), (weights((4, 8, 3, 2), "uint8"), scale(0.01), zero(121)), 0, {}),
}
"""Those that are computed with real weights."""


@pytest.mark.parametrize("name", REAL)
def test_weights_are_real_where_nothing_takes_integers(name: str) -> None:
    op, shape, factor, axis, attributes = REAL[name]
    content = network(op, shape, factor, axis, attributes, "int8", True)
    session = circlet.Session(content.SerializeToString(), backend="native")
    x = value(shape, "int8", 3)
    sums, stored = map(np.asarray, ReferenceEvaluator(content).run(None, {"x": x}))
    found = session.run({"x": x})
    np.testing.assert_allclose(found["sums"], sums, rtol=1e-4, atol=1e-4)
    assert np.abs(found["y"].astype(np.int64) - stored).max() <= 1
    assert {*session.backend_of(0)} - {"none"} == {"native"}


@pytest.mark.parametrize("is_biased", [False, True])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("name", CASES)
def test_as_defined(name: str, kind: str, is_biased: bool) -> None:
    op, shape, factor, axis, attributes = CASES[name]
    content = network(op, shape, factor, axis, attributes, kind, is_biased)
    model = circlet.load(content.SerializeToString())
    sessions = {backend: circlet.Session(model, backend=backend) for backend in ("cpu", "native")}
    for n in (3, 1, 2):
        x = value((n, *shape[1:]), kind, n)
        sums, stored = map(np.asarray, ReferenceEvaluator(content).run(None, {"x": x}))
        found = {backend: session.run({"x": x}) for backend, session in sessions.items()}
        for each in found.values():
            np.testing.assert_allclose(each["sums"], sums, rtol=1e-5, atol=1e-4)
            assert np.abs(each["y"].astype(np.int64) - stored).max() <= 1
            np.testing.assert_array_equal(each["sums"], found["cpu"]["sums"])
    assert {*sessions["native"].backend_of(0)} - {"none"} == {"native"}
    kinds = {tensor.dtype for operator in model.subgraphs[0].operators
             if operator.op.name in ("CONV_2D", "BATCH_MATMUL", "DEPTHWISE_CONV_2D")
             for tensor in (model.subgraphs[0].tensors[operator.inputs[1]],)}
    assert kinds == {DType.FLOAT32 if name == "depthwise" else DType.INT8}


def test_sums_of_unsigned_bytes_keep_channels_last() -> None:
    """Without biases: what sums begin with, as bytes have a zero point, is a constant, which transposes pass."""
    names = ["x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"]
    known = {"x_scale": scale(0.02), "x_zero": zero(90, "uint8"), "w": weights((96, 96, 1, 1)), "w_scale": scale(0.01),
             "w_zero": zero(0, "int8"), "y_scale": scale(0.3), "y_zero": zero(7, "uint8")}
    nodes = [helper.make_node("QLinearConv", [before, *names], [after])
             for before, after in (("x", "between"), ("between", "y"))]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, ["n", 96, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in known.items()])
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    model = circlet.load(content.SerializeToString())
    assert [each.op.name for each in model.subgraphs[0].operators].count("TRANSPOSE") == 2
    x = value((2, 96, 5, 6), "uint8", 1)
    (expected,) = ReferenceEvaluator(content).run(None, {"x": x})
    for backend in ("cpu", "native"):
        np.testing.assert_array_equal(circlet.Session(model, backend).run({"x": x})["y"], np.asarray(expected))
