"""Parts of images that boxes name, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import circlet
from circlet.runtime.errors import ModelError
from tests.schema.onnx.test_qlinear import inference

LAYOUTS = ((1, 9, 12, 4), (2, 7, 5, 3), (1, 16, 16, 1))
"""Images, their height and width, and boxes."""


def content(opset: int, **attributes: Any) -> bytes:
    node = helper.make_node("RoiAlign", ["x", "boxes", "images"], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info("x", 1, ["b", 3, "h", "w"]),
              helper.make_tensor_value_info("boxes", 1, ["n", 4]), helper.make_tensor_value_info("images", 7, ["n"])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    domains = [helper.make_opsetid("", opset)]
    return bytes(helper.make_model(graph, opset_imports=domains, ir_version=8).SerializeToString())


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("opset", "attributes"), [
    (16, {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5}),
    (16, {"output_height": 2, "output_width": 2, "sampling_ratio": 1,
          "coordinate_transformation_mode": "output_half_pixel"}),
    (11, {"output_height": 4, "output_width": 4, "sampling_ratio": 3}),
    (16, {"output_height": 3, "output_width": 2, "spatial_scale": 0.5}),
    (16, {"output_height": 2, "output_width": 5, "coordinate_transformation_mode": "output_half_pixel"}),
    (16, {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5, "mode": "max"}),
    (11, {"output_height": 2, "output_width": 5, "mode": "max"}),
], ids=["half", "whole", "old", "adaptive", "adaptive-whole", "max", "adaptive-max"])
def test_as_onnxruntime(opset: int, attributes: dict[str, Any], backend: str) -> None:
    model = content(opset, **attributes)
    peer, session = inference(model), circlet.Session(circlet.load(model), backend=backend)
    for count, height, width, boxes in LAYOUTS:
        rng = np.random.default_rng(height)
        corners = rng.uniform(-4, 2 * width, (boxes, 2)).astype(np.float32)
        given = {"x": rng.standard_normal((count, 3, height, width)).astype(np.float32),
                 "boxes": np.concatenate([corners, corners + rng.uniform(0, 12, (boxes, 2)).astype(np.float32)], 1),
                 "images": rng.integers(0, count, boxes)}
        np.testing.assert_allclose(session.run(given)["y"], peer.run(None, given)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_greatest_as_onnxruntime(backend: str) -> None:
    node = helper.make_node("MaxRoiPool", ["x", "boxes"], ["y"], pooled_shape=[3, 2], spatial_scale=0.5)
    inputs = [helper.make_tensor_value_info("x", 1, ["b", 3, "h", "w"]),
              helper.make_tensor_value_info("boxes", 1, ["n", 5])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8).SerializeToString()
    peer, session = inference(model), circlet.Session(circlet.load(model), backend=backend)
    for count, height, width, boxes in LAYOUTS:
        rng = np.random.default_rng(height)
        corners = rng.uniform(-4, 2 * width, (boxes, 2))
        of, ends = rng.integers(0, count, (boxes, 1)), corners + rng.uniform(0, 12, (boxes, 2))
        given = {"x": rng.standard_normal((count, 3, height, width)).astype(np.float32),
                 "boxes": np.concatenate([of, corners, ends], 1).astype(np.float32)}
        np.testing.assert_array_equal(session.run(given)["y"], peer.run(None, given)[0])


def test_bad_mode() -> None:
    with pytest.raises(ModelError, match="mode: expected avg or max, found 'min'"):
        circlet.load(content(16, sampling_ratio=2, mode="min"))
