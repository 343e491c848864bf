"""Models of one operator of the set `ai.onnx.ml`, and what ONNX Runtime makes of them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

import circlet
from tests.schema.onnx.test_qlinear import inference


def learned(operator: str, attributes: dict[str, Any], kind: int = 1,
            shape: tuple[int | None, ...] = (None, 3)) -> bytes:
    outputs = ["label", "scores"] if operator.endswith("Classifier") else ["y"]
    node = helper.make_node(operator, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", kind, shape)],
                              [helper.make_empty_tensor_value_info(each) for each in outputs])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def same(model: bytes, backend: str, given: list[npt.NDArray[Any]]) -> None:
    """As ONNX Runtime, at each of some lengths in one session."""
    peer, session = inference(model), circlet.Session(model, backend)
    for x in given:
        for found, wanted in zip(session.run({"x": x}).values(), peer.run(None, {"x": x}), strict=True):
            if wanted.dtype == np.float32:
                np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, strict=True)
            else:
                np.testing.assert_array_equal(found, wanted, strict=wanted.dtype != object)


def needs_release_that_transforms_shares() -> None:
    """Skips a test of what LOGISTIC makes of two classes that one score without negative weights tells apart: 1.23
    gives the score as it is, 1.32 its function, as operators of more classes do."""
    if tuple(map(int, version("onnxruntime").split(".")[:2])) < (1, 32):
        pytest.skip("this release of ONNX Runtime does not transform the share of one class")
