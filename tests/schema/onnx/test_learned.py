"""Operators of the set `ai.onnx.ml` against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

import circlet
from circlet.runtime.errors import ExecutionError
from tests.schema.onnx.test_qlinear import inference

X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
EXTRACTED: dict[str, tuple[npt.NDArray[Any], npt.NDArray[np.int64]]] = {
    "matrix": (X[0], np.array([4, 0, 0])),
    "more axes": (X, np.array([[1], [3]])),
    "vector": (np.array([7, -3, 9]), np.array([2, 1, 1, 0])),
    "one place": (np.array([7, -3, 9], np.int32), np.array([1])),
    "strings": (np.array([["a", "b", "c"]], object), np.array([2, 0])),
}


def extractor(x: npt.NDArray[Any], places: npt.NDArray[np.int64]) -> bytes:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype) if x.dtype != object else 8
    node = helper.make_node("ArrayFeatureExtractor", ["x", "places"], ["y"], domain="ai.onnx.ml")
    inputs = [helper.make_tensor_value_info("x", kind, [None] * x.ndim),
              helper.make_tensor_value_info("places", 7, [None] * places.ndim)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", kind, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


@pytest.mark.parametrize("name", EXTRACTED)
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_extracted(name: str, backend: str) -> None:
    x, places = EXTRACTED[name]
    model = extractor(x, places)
    (wanted,) = inference(model).run(None, {"x": x, "places": places})
    found = circlet.Session(model, backend).run({"x": x, "places": places})["y"]
    np.testing.assert_array_equal(found, wanted, strict=x.dtype != object)


@pytest.mark.parametrize("place", [5, -1])
def test_places_beyond_the_axis(place: int) -> None:
    with pytest.raises(ExecutionError, match=f"index {place}"):
        circlet.Session(extractor(X, np.array([5]))).run({"x": X, "places": np.array([place])})
