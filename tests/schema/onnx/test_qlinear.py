"""Operators of `com.microsoft` that ONNX Runtime's quantiser writes, against ONNX Runtime: equal, but that what lies
half-way between two stored values may be rounded to either."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper, numpy_helper

import circlet
from circlet.runtime.records import dataclass

Array: TypeAlias = npt.NDArray[Any]
LENGTHS = (3, 1, 2, 17)
"""Of the open axis, the first of all inputs that are not constant."""


@dataclass(frozen=True)
class Call:
    """A node.

    Attributes:
        op: its operator.
        inputs: the shape and type of each live one, of which the first axis is open; constants; None where absent.
        made: the type of the result.
        attributes: of the node.
    """

    op: str
    inputs: tuple[tuple[tuple[int, ...], str] | Array | None, ...]
    made: str
    attributes: dict[str, Any]


def scale(number: float) -> Array:
    return np.array(number, np.float32)


def zero(number: int, kind: str = "uint8") -> Array:
    return np.array(number, kind)


def weights(shape: tuple[int, ...], kind: str = "int8") -> Array:
    """Of seven bits: sums of two products of more overflow in ONNX Runtime's kernels for processors without VNNI."""
    limits = np.iinfo(kind)
    return np.random.default_rng(5).integers(limits.min // 2, limits.max // 2, shape).astype(kind)


def unary(op: str, kind: str, shape: tuple[int, ...] = (5, 6), **attributes: Any) -> Call:
    return Call(op, ((shape, kind), scale(0.04), zero(100, kind), scale(0.005), zero(3, kind)), kind, attributes)


def binary(op: str, kind: str) -> Call:
    return Call(op, (((4, 5), kind), scale(0.031), zero(100, kind), ((4, 5), kind), scale(0.017), zero(7, kind),
                     scale(0.05), zero(90, kind)), kind, {})


BYTES = ("uint8", "int8")
COLUMNS = np.linspace(0.001, 0.02, 7, dtype=np.float32)
CALLS = [
    *(binary(op, kind) for op in ("QLinearAdd", "QLinearMul") for kind in BYTES),
    *(unary(op, kind) for op in ("QLinearSigmoid", "QLinearLeakyRelu") for kind in BYTES),
    *(unary("QLinearSoftmax", kind, axis=-1, opset=13) for kind in BYTES),
    *(unary("QLinearGlobalAveragePool", kind, (3, 4, 5, 6)) for kind in BYTES),
    unary("QLinearGlobalAveragePool", "uint8", (3, 4, 5, 6), channels_last=1),
    unary("QLinearAveragePool", "uint8", (2, 3, 6, 7), kernel_shape=[2, 3], strides=[2, 2], pads=[0, 1, 0, 1]),
    Call("QLinearConcat", (scale(0.05), zero(90), ((4, 5), "uint8"), scale(0.031), zero(100), ((4, 3), "uint8"),
                           scale(0.017), zero(7)), "uint8", {"axis": 1}),
    Call("QLinearWhere", (((4, 5), "bool"), ((4, 5), "uint8"), scale(0.031), zero(100), ((4, 5), "uint8"),
                          scale(0.017), zero(7), scale(0.05), zero(90)), "uint8", {}),
    *(Call("QGemm", (((4, 6), "uint8"), scale(0.03), zero(100), weights((7, 6) if turned else (6, 7)), COLUMNS,
                     np.zeros(7, np.int8), np.arange(7, dtype=np.int32) * 300, *made),
           "uint8" if made else "float32", {"transB": turned, "alpha": 1.0})
      for turned in (0, 1) for made in ((), (scale(0.1), zero(120)))),
    Call("MatMulIntegerToFloat", (((4, 6), "uint8"), weights((6, 7)), scale(0.03), COLUMNS, zero(100),
                                  np.zeros(7, np.int8), np.arange(7, dtype=np.float32)), "float32", {}),
    Call("DynamicQuantizeMatMul", (((4, 6), "float32"), weights((6, 7)), COLUMNS, None,
                                   np.arange(7, dtype=np.float32)), "float32", {}),
    *(Call("DynamicQuantizeLSTM",
           (((4, 2, 5), "float32"), weights((2, 5, 12), kind), weights((2, 3, 12), kind),
            np.linspace(-1, 1, 48, dtype=np.float32).reshape(2, 24), None, None, None, None,
            np.full((2, *each), 0.005, np.float32), np.full((2, *each), point, kind),
            np.full((2, *each), 0.007, np.float32), np.full((2, *each), point, kind)),
           "float32", {"hidden_size": 3, "direction": "bidirectional"})
      for kind, point, each in (("int8", 0, (12,)), ("uint8", 120, ()))),
    Call("QuantizeLinear", (((4, 6), "float32"), scale(0.0001), zero(30000, "uint16")), "uint16", {}),
    Call("DequantizeLinear", (((4, 6), "int16"), scale(0.0001), zero(-5, "int16")), "float32", {}),
]


def value(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if kind == "float32":
        return rng.standard_normal(shape).astype(kind)
    low, high = (0, 2) if kind == "bool" else (np.iinfo(kind).min, np.iinfo(kind).max + 1)
    return rng.integers(low, high, shape).astype(kind)


def content(call: Call) -> bytes:
    names = ["" if each is None else f"x{k}" for k, each in enumerate(call.inputs)]
    live, known = [], []
    for name, each in zip(names, call.inputs, strict=True):
        if isinstance(each, np.ndarray):
            known.append(numpy_helper.from_array(each, name))
        elif each is not None:
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(each[1]))
            live.append(helper.make_tensor_value_info(name, kind, ["n", *each[0][1:]]))
    node = helper.make_node(call.op, names, ["y"], domain="com.microsoft", **call.attributes)
    made = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype(call.made)), None)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(helper.make_graph([node], "g", live, [made], known), opset_imports=domains,
                                   ir_version=8).SerializeToString())


def inference(model: bytes) -> Any:
    """ONNX Runtime's own session, of the nodes as they are: up to 1.24 at least, its optimiser
    breaks convolutions with a sum."""
    onnxruntime: Any = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("call", CALLS, ids=[f"{call.op}-{k}" for k, call in enumerate(CALLS)])
def test_as_onnxruntime(call: Call, backend: str) -> None:
    if call.op == "QLinearSoftmax" and call.made == "int8":
        pytest.importorskip("onnxruntime", minversion="1.29", reason="ONNX Runtime takes int8 for uint8 up to 1.27")
    model = content(call)
    peer = inference(model)
    session = circlet.Session(circlet.load(model), backend=backend)
    for n in LENGTHS:
        given = {f"x{k}": value((n, *each[0][1:]), each[1], n + k) for k, each in enumerate(call.inputs)
                 if isinstance(each, tuple)}
        (expected,), (found,) = peer.run(None, given), session.run(given).values()
        assert found.dtype == expected.dtype
        if call.made == "float32":
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        else:
            assert found.shape == expected.shape
            apart = np.abs(found.astype(np.int64) - expected)
            assert apart.max() <= 1
            assert apart.mean() < 0.02
    assert {*session.backend_of(0)} - {"none", "controlflow"} == {backend}
