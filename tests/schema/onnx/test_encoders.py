"""Encoders of the set `ai.onnx.ml` against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper, numpy_helper

import circlet
from circlet.runtime.errors import ExecutionError, ModelError, UnsupportedError
from tests.schema.onnx.test_qlinear import inference

NAN = float("nan")
INTEGERS = np.array([3, 7, -1, 9, 7, 2, 100, -2**63, 2**63 - 1])
REALS = np.array([1.5, NAN, 2, -0.0, 0, np.inf, 7], np.float32)
FAR = [-10**12, 7, 10**12]
CLOSE = [(each * 7919) % 2003 - 500 for each in range(900)]


def encoder(operator: str, attributes: dict[str, Any], x: npt.NDArray[Any], version: int = 2) -> bytes:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype) if x.dtype != object else 8
    node = helper.make_node(operator, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", kind, [None] * x.ndim)],
                              [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def tensor(*numbers: float, dtype: Any) -> Any:
    return numpy_helper.from_array(np.array(numbers, dtype))


ENCODED: dict[str, tuple[str, dict[str, Any], npt.NDArray[Any], int]] = {
    "integers": ("LabelEncoder", {"keys_int64s": [7, 3, 2, 7], "values_int64s": [10, 20, 30, 40]}, INTEGERS, 2),
    "many": ("LabelEncoder", {"keys_int64s": CLOSE, "values_int64s": [*range(900)]}, np.arange(-510, 1510), 2),
    "far apart": ("LabelEncoder", {"keys_int64s": FAR, "values_int64s": [10, 20, 30]}, np.array([*FAR, 8]), 2),
    "to reals": ("LabelEncoder", {"keys_int64s": [7], "values_floats": [1.5], "default_float": 9.0}, INTEGERS, 2),
    "to text": ("LabelEncoder", {"keys_int64s": [7, 3], "values_strings": ["a", "b"]}, INTEGERS, 2),
    "from reals": ("LabelEncoder", {"keys_floats": [1.5, 0.0], "values_int64s": [1, 2], "default_int64": -5}, REALS, 2),
    "of NaN": ("LabelEncoder", {"keys_floats": [1.5, NAN, 0.0, 1.5], "values_int64s": [1, 2, 3, 4]}, REALS, 4),
    "no NaN": ("LabelEncoder", {"keys_floats": [1.5, NAN], "values_floats": [1.0, 2.0]}, REALS, 2),
    "reals to text": ("LabelEncoder", {"keys_floats": [1.5], "values_strings": ["q"], "default_string": "?"}, REALS, 2),
    "tensors": ("LabelEncoder", {"keys_tensor": tensor(7, 3, dtype=np.float64), "values_tensor": tensor(
        4, 5, dtype=np.float64)}, INTEGERS.astype(np.float64), 4),
    "by names": ("LabelEncoder", {"classes_strings": ["a", "b"], "default_string": "?", "default_int64": -1},
                 np.array([0, 1, 2, -1]), 1),
    "matrix": ("LabelEncoder", {"keys_int64s": [7, 3], "values_int64s": [10, 20]}, INTEGERS.reshape(3, 3), 2),
    "categories": ("OneHotEncoder", {"cats_int64s": [7, 3, 7, 2]}, INTEGERS.reshape(3, 3), 1),
    "categories of reals": ("OneHotEncoder", {"cats_int64s": [1, 0, 7]}, np.array([1.9, -0.9, 7.2, 3], np.float32), 1),
    "categories, all there": ("OneHotEncoder", {"cats_int64s": [7, 10**9, 3], "zeros": 0}, np.array([[7], [3]]), 1),
    "categories of doubles": ("OneHotEncoder", {"cats_int64s": [1, 0, 7]}, np.array([1.9, -0.9, 7.2, 3]), 1),
}


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_encoded(name: str, backend: str) -> None:
    operator, attributes, x, version = ENCODED[name]
    model = encoder(operator, attributes, x, version)
    peer, session = inference(model), circlet.Session(model, backend)
    for given in (x, x[:1], x[:0], x[1:3]):
        (wanted,), found = peer.run(None, {"x": given}), session.run({"x": given})["y"]
        np.testing.assert_array_equal(found, wanted, strict=wanted.dtype != object)


REFUSED: dict[str, tuple[str, dict[str, Any], npt.NDArray[Any], type[Exception], str]] = {
    "text": ("LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}, np.array(["a"], object), UnsupportedError,
             "keys of type string"),
    "other keys": ("LabelEncoder", {"keys_floats": [1.0], "values_int64s": [1]}, INTEGERS, UnsupportedError, "float32"),
    "counts": ("LabelEncoder", {"keys_int64s": [1, 2], "values_int64s": [1]}, INTEGERS, ModelError, "found 2 and 1"),
    "no keys": ("LabelEncoder", {"values_int64s": [1]}, INTEGERS, ModelError, "expected keys of one type, found 0"),
    "categories of text": ("OneHotEncoder", {"cats_strings": ["a"]}, INTEGERS, UnsupportedError, "of text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    operator, attributes, x, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        circlet.load(encoder(operator, attributes, x))


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_one_category_must_be_there(backend: str) -> None:
    x = np.array([7, 3])
    session = circlet.Session(encoder("OneHotEncoder", {"cats_int64s": [7, 3], "zeros": 0}, x, 1), backend)
    for _ in range(2):
        with pytest.raises(ExecutionError, match="index 2 is out of range"):
            session.run({"x": np.array([7, 4])})
        assert session.run({"x": x})["y"].tolist() == [[1, 0], [0, 1]]
