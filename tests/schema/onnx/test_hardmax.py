"""Where the greatest element is, of lengths that only the run tells."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from tests.needs import NATIVE
from tests.schema.onnx.graphs import f32, load

ROWS = "g (float[b, n] x) => (float[b, n] y) { y = Hardmax<axis = 1>(x) }"
COLUMNS = "g (float[b, n] x) => (float[b, n] y) { y = Hardmax<axis = 0>(x) }"
LEAST = f32([-np.inf, -np.inf, -np.inf], [1, 3, 3])


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize(("text", "opset", "axis"), [(ROWS, 17, 1), (ROWS, 11, 1), (COLUMNS, 13, 0)])
def test_of_any_number_of_elements_none_among_them(text: str, opset: int, axis: int, backend: str) -> None:
    session = circlet.Session(load(text, opset), backend)
    random = np.random.default_rng(1)
    for given in (LEAST, np.zeros((2, 0)), np.zeros((0, 3)), np.zeros((0, 0)), random.standard_normal((4, 9)), LEAST):
        x = given.astype(np.float32)
        expected = np.zeros(x.shape, np.float32)
        if x.size:
            np.put_along_axis(expected, x.argmax(axis, keepdims=True), 1.0, axis)
        np.testing.assert_array_equal(session.run({"x": x})["y"], expected, strict=True)
