"""Elements that are put back to where windows found them, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import circlet
from tests.schema.onnx.test_qlinear import inference


def content(sizes: int, **attributes: Any) -> bytes:
    """MaxPool, and what it found put back."""
    nodes = [helper.make_node("MaxPool", ["x"], ["least", "places"], **attributes),
             helper.make_node("MaxUnpool", ["least", "places"], ["y"], **attributes)]
    inputs = [helper.make_tensor_value_info("x", 1, ["n", 2, *("d" + str(k) for k in range(sizes))])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("shapes", "attributes"), [
    ([(1, 2, 8), (2, 2, 6)], {"kernel_shape": [2], "strides": [2]}),
    ([(1, 2, 6, 8), (2, 2, 4, 4)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ([(1, 2, 7, 6), (3, 2, 9, 8)], {"kernel_shape": [3, 2], "strides": [2, 2]}),
], ids=["signal", "image", "overlapping"])
def test_as_onnxruntime(backend: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    model = content(len(shapes[0]) - 2, **attributes)
    peer, session = inference(model), circlet.Session(model, backend)
    for shape in shapes:
        given = {"x": np.random.default_rng(shape[0]).normal(size=shape).astype(np.float32)}
        np.testing.assert_array_equal(session.run(given)["y"], peer.run(None, given)[0])


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_a_larger_result_begins_with_it(backend: str) -> None:
    """As the specification's example has it."""
    node = helper.make_node("MaxUnpool", ["x", "places", "shape"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    inputs = [helper.make_tensor_value_info("x", 1, [1, 1, 2, 2]),
              helper.make_tensor_value_info("places", 7, [1, 1, 2, 2]), helper.make_tensor_value_info("shape", 7, [4])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    found = circlet.Session(model, backend).run({
        "x": np.array([[[[5, 6], [7, 8]]]], np.float32), "places": np.array([[[[5, 7], [13, 15]]]]),
        "shape": np.array([1, 1, 5, 5])})["y"]
    expected = np.zeros((1, 1, 5, 5), np.float32)
    expected[0, 0, 1, [1, 3]], expected[0, 0, 3, [1, 3]] = (5, 6), (7, 8)
    np.testing.assert_array_equal(found, expected)
