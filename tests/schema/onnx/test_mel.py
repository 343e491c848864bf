"""Triangles along the mel scale, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import circlet
from circlet.runtime.errors import ModelError, UnsupportedError
from tests.schema.onnx.test_qlinear import inference


def content(numbers: tuple[float, ...], given: int = 0) -> bytes:
    """A spectrum (n, bins) times the weights, of whose numbers the first ones are inputs."""
    kinds = [np.int64] * 3 + [np.float32] * 2
    names = ["count", "length", "rate", "least", "most"]
    constants = [numpy_helper.from_array(np.array(number, kind), name)
                 for number, kind, name in zip(numbers, kinds, names, strict=True)][given:]
    nodes = [helper.make_node("MelWeightMatrix", names, ["weights"]),
             helper.make_node("MatMul", ["x", "weights"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", 1, ["n", int(numbers[1]) // 2 + 1]),
              *(helper.make_tensor_value_info(name, 7, []) for name in names[:given])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("numbers", [(8, 16, 8192, 0, 4096), (40, 400, 16000, 20, 7600), (80, 512, 22050, 0, 11025),
                                     (20, 64, 8000, 0, 4000)])
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_as_onnxruntime(numbers: tuple[float, ...], backend: str) -> None:
    model, bins = content(numbers), int(numbers[1]) // 2 + 1
    given = {"x": np.random.default_rng(0).random((3, bins)).astype(np.float32)}
    (expected,) = inference(model).run(None, given)
    np.testing.assert_allclose(circlet.Session(model, backend).run(given)["y"], expected, rtol=1e-4, atol=1e-5)


def test_refused() -> None:
    with pytest.raises(UnsupportedError, match="MelWeightMatrix with numbers that are not constant"):
        circlet.load(content((8, 16, 8192, 0, 4096), given=1))
    with pytest.raises(ModelError, match=r"edges in order, found 8, 16, 8192, 100\.0 and 50\.0"):
        circlet.load(content((8, 16, 8192, 100, 50)))
    with pytest.raises(ModelError, match=r"upper edge within the spectrum, found 9000\.0"):
        circlet.load(content((8, 16, 8192, 0, 9000)))
