"""Reductions of which a node says in several ways over which axes they go, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, helper

import circlet

onnxruntime = pytest.importorskip("onnxruntime")

CASES: dict[str, tuple[str, int, list[int], int]] = {
    "none named": ("ReduceMax", 13, [], 0),
    "none named, kept": ("ReduceMin", 16, [], 1),
    "none named, mean": ("ReduceMean", 11, [], 0),
    "one named": ("ReduceMax", 13, [-1], 0),
}
"""The operator, its version, its axes, and whether they are kept."""


@pytest.mark.parametrize("name", CASES)
def test_axes(name: str) -> None:
    operator, version, axes, keepdims = CASES[name]
    node = helper.make_node(operator, ["x"], ["y"], keepdims=keepdims)
    node.attribute.append(helper.make_attribute("axes", axes, attr_type=AttributeProto.INTS))
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, ["a", 3, 4])],
                              [helper.make_tensor_value_info("y", 1, None)])
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8).SerializeToString()
    given = {"x": np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)}
    (wanted,) = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, given)
    np.testing.assert_allclose(circlet.Session(circlet.load(file)).run(given)["y"], wanted, rtol=1e-6, strict=True)
