"""Products and convolutions of stored integers, against those of int64 and doubles: both backends, to the bit."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import circlet
from tests.properties import holds

Array: TypeAlias = npt.NDArray[Any]
BYTES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
SHAPES = [((3, 5), (5, 4)), ((2, 3, 64), (64, 70)), ((1, 40), (40, 20)), ((2, 2, 3, 5), (2, 5, 4)), ((5,), (5, 3)),
          ((4, 5), (5,)), ((33, 100), (100, 17))]
POINTS = st.sampled_from(["absent", "zero", "one", "each", "live"])
"""Of zero points: whether there is one, and whether for each row or column; a live one is an input."""


def values(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    limits = np.iinfo(kind)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(kind)


def point(kind: str, of: str, count: int, seed: int) -> Array | None:
    if of == "absent":
        return None
    return np.zeros((), kind) if of == "zero" else values((count,) if of == "each" else (), kind, seed)


def model(op: str, operands: dict[str, Array | None], constants: set[str], result: int,
          attributes: dict[str, Any] | None = None) -> bytes:
    """One node with some inputs; an axis of the first one is open."""
    present = {name: each for name, each in operands.items() if each is not None}
    declared = [helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(each.dtype), ["n", *each.shape[1:]] if name == "a" else each.shape)
        for name, each in present.items() if name not in constants]
    node = helper.make_node(op, [name if name in present else "" for name in operands], ["y"],
                            **(attributes or {}))
    graph = helper.make_graph([node], "g", declared, [helper.make_tensor_value_info("y", result, None)],
                              [numpy_helper.from_array(present[name], name) for name in present if name in constants])
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
                 .SerializeToString())


def agree(content: bytes, given: dict[str, Array], expected: Array) -> None:
    for backend in ("cpu", "native"):
        session = circlet.Session(circlet.load(content), backend=backend)
        (found,) = session.run(given).values()
        np.testing.assert_array_equal(found, expected, strict=True)
        assert {*session.backend_of(0)} - {"none"} == {backend}


@holds(st.sampled_from(SHAPES), st.sampled_from([*BYTES]), st.sampled_from([*BYTES]), POINTS, POINTS, st.booleans(),
       st.integers(0, 99), few=12, many=60)
def test_matrix_products(shapes: tuple[tuple[int, ...], tuple[int, ...]], one: str, other: str, p: str, q: str,
                         is_constant: bool, seed: int) -> None:
    a, b = values(shapes[0], one, seed), values(shapes[1], other, seed + 1)
    has_rows, has_columns = a.ndim == 2, b.ndim > 1
    a_point = point(one, p if has_rows or p != "each" else "one", len(a), seed + 2)
    b_point = point(other, q if has_columns or q != "each" else "one", b.shape[-1], seed + 3)
    operands = {"a": a, "b": b, "p": a_point, "q": b_point}
    live = {"a", *("p" for _ in [0] if p == "live"), *("q" for _ in [0] if q == "live"), *(
        () if is_constant else ("b",))}
    left, right = a.astype(np.int64), b.astype(np.int64)
    if a_point is not None:
        left = left - (a_point.astype(np.int64)[:, None] if a_point.ndim else a_point.astype(np.int64))
    if b_point is not None:
        right = right - b_point.astype(np.int64)
    given_now = {name: each for name, each in operands.items() if name in live and each is not None}
    agree(model("MatMulInteger", operands, {*operands} - live, TensorProto.INT32), given_now,
          np.asarray(np.matmul(left, right), np.int32))


@pytest.mark.parametrize("kind", BYTES)
def test_a_layer_with_dynamic_quantisation(kind: str) -> None:
    """As ONNX Runtime's `quantize_dynamic` writes it: no part of it is left to numpy."""
    weights, zero = values((64, 48), kind, 1), np.array(0 if kind == "int8" else 121, kind)
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["stored", "scale", "zero"]),
             helper.make_node("MatMulInteger", ["stored", "w", "zero", "point"], ["sums"]),
             helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["real", "scale"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 48])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(zero, "point")])
    content = onnx.helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = {}
    for backend in ("cpu", "native"):
        session = circlet.Session(circlet.load(content.SerializeToString()), backend=backend)
        for n in (7, 1, 3):
            x = np.random.default_rng(n).standard_normal((n, 64)).astype(np.float32)
            found[backend, n] = session.run({"x": x})["y"]
        assert {*session.backend_of(0)} - {"none"} == {backend}
    for n in (7, 1, 3):
        np.testing.assert_array_equal(found["native", n], found["cpu", n])


WINDOWS = [{}, {"pads": [1, 1, 1, 1]}, {"strides": [2, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
           {"pads": [0, 1, 2, 0], "dilations": [2, 1]}]


def convolved(x: Array, weights: Array, groups: int, attributes: dict[str, Any]) -> Array:
    """ONNX's own, of doubles, which hold all sums."""
    given, filters = x.astype(np.float64), weights.astype(np.float64)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=groups, **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.DOUBLE, given.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)],
                              [numpy_helper.from_array(filters, "w")])
    (found,) = ReferenceEvaluator(helper.make_model(graph)).run(None, {"x": given})
    return np.asarray(found, np.int32)


@holds(st.sampled_from([*BYTES]), st.sampled_from([*BYTES]), POINTS, POINTS, st.sampled_from([1, 2, 4]),
       st.sampled_from(WINDOWS), st.sampled_from([(3, 2), (1, 1)]), st.integers(0, 99), few=12, many=60)
def test_convolutions(one: str, other: str, p: str, q: str, groups: int, attributes: dict[str, Any],
                      size: tuple[int, int], seed: int) -> None:
    x, weights = values((2, 4, 7, 6), one, seed), values((8, 4 // groups, *size), other, seed + 1)
    x_point = point(one, "one" if p == "each" else p, 1, seed + 2)
    w_point = point(other, "one" if q == "live" else q, 8, seed + 3)
    operands = {"a": x, "w": weights, "p": x_point, "q": w_point}
    live = {"a", "p"} if p == "live" else {"a"}
    moved = x.astype(np.int64) - (0 if x_point is None else x_point.astype(np.int64))
    filters = weights.astype(np.int64)
    if w_point is not None:
        filters = filters - w_point.astype(np.int64).reshape(-1, 1, 1, 1)
    content = model("ConvInteger", operands, {*operands} - live, TensorProto.INT32,
                    {"group": groups, **attributes})
    agree(content, {name: each for name, each in operands.items() if name in live and each is not None},
          convolved(moved, filters, groups, attributes))


@pytest.mark.parametrize("p", ["one", "live", "absent"])
@pytest.mark.parametrize("one", BYTES)
def test_windows_of_one_element_are_summed_up_without_a_convolution(one: str, p: str) -> None:
    """Of weights of nine bits."""
    x, weights, x_point = values((2, 4, 7, 6), one, 0), values((8, 4, 1, 1), "uint8", 1), point(one, p, 1, 2)
    weights[0, 0] = 255
    operands = {"a": x, "w": weights, "p": x_point, "q": np.array(3, np.uint8)}
    live = {"a", "p"} if p == "live" else {"a"}
    content = model("ConvInteger", operands, {*operands} - live, TensorProto.INT32)
    moved = x.astype(np.int64) - (0 if x_point is None else x_point.astype(np.int64))
    agree(content, {name: each for name, each in operands.items() if name in live and each is not None},
          convolved(moved, weights.astype(np.int64) - 3, 1, {}))
    (graph,) = circlet.load(content).subgraphs
    assert [each.name for each in graph.operators].count("CONV_2D") == 1
