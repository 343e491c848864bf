"""The greatest elements of windows over images, large ones by columns, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import circlet
from tests.needs import NATIVE
from tests.schema.onnx.test_qlinear import inference

CASES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "even": (2, 1, {"kernel_shape": [9, 9], "pads": [4, 4, 4, 4]}),
    "uneven": (2, 3, {"kernel_shape": [5, 7], "pads": [1, 3, 2, 0], "strides": [2, 1]}),
    "apart": (2, 4, {"kernel_shape": [9, 8], "strides": [2, 3]}),
    "lower": (2, 2, {"kernel_shape": [11, 11], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "upper": (2, 3, {"kernel_shape": [7, 6], "auto_pad": "SAME_UPPER"}),
    "rounded up": (2, 2, {"kernel_shape": [9, 9], "strides": [2, 2], "pads": [3, 3, 3, 3], "ceil_mode": 1}),
    "bytes": (2, 3, {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}),
    "small": (1, 3, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "far apart": (1, 2, {"kernel_shape": [5, 5], "strides": [5, 5]}),
}
"""How many operators pool, channels, and attributes."""


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name: str, backend: str) -> None:
    count, channels, attributes = CASES[name]
    kind, dtype = (3, np.int8) if name == "bytes" else (1, np.float32)
    graph = helper.make_graph([helper.make_node("MaxPool", ["x"], ["y"], **attributes)], "g",
                              [helper.make_tensor_value_info("x", kind, ["b", channels, "h", "w"])],
                              [helper.make_tensor_value_info("y", kind, None)])
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    peer, model = inference(file), circlet.load(file)
    session = circlet.Session(model, backend)
    assert [each.name for each in model.subgraphs[0].operators].count("MAX_POOL_2D") == count
    for shape in ((2, channels, 12, 17), (1, channels, 23, 11)):
        x = (np.random.default_rng(1).standard_normal(shape) * 40).astype(dtype)
        np.testing.assert_array_equal(session.run({"x": x})["y"], peer.run(None, {"x": x})[0], strict=True)
    assert set(session.backend_of(0)) <= {backend, "none"}
