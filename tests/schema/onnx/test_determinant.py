"""Determinants, against numpy's and ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import circlet
from circlet.runtime.errors import ModelError, UnsupportedError
from tests.schema.onnx.test_qlinear import inference

RANDOM = np.random.default_rng(0)
MATRICES = {
    **{f"{size} rows": RANDOM.standard_normal((3, 2, size, size)).astype(np.float32) for size in (1, 2, 3, 5, 8)},
    "one matrix": RANDOM.standard_normal((4, 4)).astype(np.float32),
    "permuted": np.stack([np.eye(5, dtype=np.float32)[RANDOM.permutation(5)] * 2 for _ in range(20)]),
    "singular": np.array([[[1, 2, 3], [2, 4, 6], [1, 0, 1]], [[0] * 3] * 3, [[0, 1, 2], [0, 3, 4], [0, 5, 7]]],
                         np.float32),
}


def content(shape: tuple[int | str, ...]) -> bytes:
    graph = helper.make_graph([helper.make_node("Det", ["x"], ["y"])], "g", [
        helper.make_tensor_value_info("x", 1, shape)], [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_as_peers(name: str, backend: str) -> None:
    x = MATRICES[name]
    model = content((*("abc"[:x.ndim - 2]), *x.shape[-2:]))
    found = circlet.Session(model, backend).run({"x": x})["y"]
    for expected in (np.linalg.det(x.astype(np.float64)), inference(model).run(None, {"x": x})[0]):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("shape", "kind"), [
    ((9, 9), UnsupportedError), (("n", "n"), UnsupportedError), ((2, 3), ModelError), ((3,), ModelError)])
def test_refused(shape: tuple[int | str, ...], kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"matrices"):
        circlet.load(content(shape))
