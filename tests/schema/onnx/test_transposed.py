"""Transposed convolutions of which each channel is a group, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import circlet
from tests.needs import NATIVE

onnxruntime = pytest.importorskip("onnxruntime")

CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "doubled": ((5, 1, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "more": ((3, 1, 3, 2), {"strides": [2, 3], "output_padding": [1, 2], "pads": [1, 0, 0, 1]}),
    "several": ((2, 3, 2, 3), {"strides": [1, 2]}),
    "gaps": ((4, 1, 2, 3), {"strides": [2, 1], "dilations": [3, 2], "pads": [1, 2, 0, 1]}),
    "inside": ((3, 1, 2, 1), {"strides": [3, 2], "pads": [2, 1, 4, 3]}),
    "same": ((3, 1, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "signal": ((4, 2, 5), {"strides": [3], "pads": [1, 2], "output_padding": [1]}),
}
"""The shape of the filters, and attributes."""


def content(shape: tuple[int, ...], attributes: dict[str, Any]) -> bytes:
    channels, several, *sizes = shape
    rng = np.random.default_rng(3)
    weights = [numpy_helper.from_array(rng.standard_normal(each).astype(np.float32), name)
               for name, each in (("w", shape), ("bias", (channels * several,)))]
    node = helper.make_node("ConvTranspose", ["x", "w", "bias"], ["y"], group=channels, **attributes)
    x = helper.make_tensor_value_info("x", 1, ["b", channels, *(f"d{k}" for k in range(len(sizes)))])
    graph = helper.make_graph([node], "g", [x], [helper.make_tensor_value_info("y", 1, None)], weights)
    domains = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=domains, ir_version=8).SerializeToString())


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", CASES)
def test_each_channel_alone(name: str, backend: str) -> None:
    shape, attributes = CASES[name]
    file = content(shape, attributes)
    peer = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    model = circlet.load(file)
    assert "TRANSPOSE_CONV" not in {each.name for each in model.subgraphs[0].operators}
    session = circlet.Session(model, backend)
    for batch, length in ((2, 5), (1, 9)):
        x = np.random.default_rng(length).standard_normal((batch, shape[0], length, length + 2)[:len(shape)])
        given = {"x": x.astype(np.float32)}
        (found,), (wanted,) = session.run(given).values(), peer.run(None, given)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, strict=True)
