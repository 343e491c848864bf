"""Operators of the set `ai.onnx.ml` against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

import circlet
from circlet.runtime.errors import ExecutionError, ModelError, UnsupportedError
from tests.schema.onnx.learned import learned, needs_release_that_transforms_shares, same
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


ROWS = np.array([[-1, 2, 3], [0, 0, 0], [-5, -2, -1], [-2, -1, 0], [0.25, 1.5, -0.5]], np.float32)
TWO: dict[str, Any] = {"coefficients": [1.0, 2.0, 3.0, -1.0, 0.0, 1.0], "intercepts": [0.1, 0.2]}
ONE: dict[str, Any] = {"coefficients": [1.0, 2.0, 3.0], "intercepts": [0.1]}
PER_FEATURE: dict[str, Any] = {"offset": [1.0, 2.0, 3.0], "scale": [2.0, 1.0, -1.0]}
LEARNED: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"normalized, {norm}": ("Normalizer", {"norm": norm}) for norm in ("MAX", "L1", "L2")},
    "scaled by one": ("Scaler", {"offset": [1.0], "scale": [2.0]}),
    "scaled each": ("Scaler", PER_FEATURE),
    "above": ("Binarizer", {"threshold": 0.5}),
    "imputed": ("Imputer", {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": -1.0}),
    "imputed by one": ("Imputer", {"imputed_value_floats": [7.0], "replaced_value_float": float("nan")}),
    "one target": ("LinearRegressor", ONE),
    "one target, nothing added": ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0]}),
    **{f"two targets, {of}": ("LinearRegressor", {**TWO, "targets": 2, "post_transform": of})
       for of in ("NONE", "LOGISTIC", "SOFTMAX")},
    **{f"two classes, {of}": ("LinearClassifier", {**TWO, "classlabels_ints": [5, 3], "post_transform": of})
       for of in ("NONE", "LOGISTIC", "SOFTMAX")},
    **{f"two classes by one score, {of}": ("LinearClassifier", {
        **ONE, "classlabels_ints": [5, 3], "post_transform": of}) for of in ("NONE", "LOGISTIC", "SOFTMAX")},
    "text": ("LinearClassifier", {**TWO, "classlabels_strings": ["no", "yes"]}),
}


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_learned(name: str, backend: str) -> None:
    if name == "two classes by one score, LOGISTIC":
        needs_release_that_transforms_shares()
    same(learned(*LEARNED[name]), backend, [ROWS, ROWS[:1], ROWS[:0], ROWS[1:4]])


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_missing_numbers_are_imputed(backend: str) -> None:
    x = ROWS.copy()
    x[[0, 2], [1, 2]] = np.nan
    same(learned(*LEARNED["imputed by one"]), backend, [x])


@pytest.mark.parametrize("name", ["normalized, L1", "scaled each", "two classes, SOFTMAX"])
def test_a_vector_is_a_row(name: str) -> None:
    same(learned(*LEARNED[name], shape=(3,)), "native", [ROWS[0]])


@pytest.mark.parametrize("name", ["normalized, L2", "scaled each", "two classes, SOFTMAX"])
def test_integers(name: str) -> None:
    same(learned(*LEARNED[name], kind=7), "native", [ROWS.astype(np.int64)])


REFUSED: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
    "transform": ("LinearRegressor", {**TWO, "targets": 2, "post_transform": "PROBIT"}, UnsupportedError, "'PROBIT'"),
    "transform of one": ("LinearRegressor", {**ONE, "post_transform": "LOGISTIC"}, UnsupportedError, "of one target"),
    "norm": ("Normalizer", {"norm": "L3"}, ModelError, "'L3'"),
    "labels": ("LinearClassifier", TWO, ModelError, "found neither"),
    "three labels": ("LinearClassifier", {**TWO, "classlabels_ints": [1, 2, 3]}, ModelError, "found 2 and 3"),
    "coefficients": ("LinearRegressor", {**ONE, "targets": 2}, ModelError, "for 2 results, found 3 and 1"),
    "features": ("Scaler", {"offset": [1.0, 2.0], "scale": [1.0]}, ModelError, "expected 1 or 3 numbers, found 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    operator, attributes, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        circlet.load(learned(operator, attributes))


def test_numbers_of_64_bits_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="float64"):
        circlet.load(learned("Scaler", PER_FEATURE, kind=11))
