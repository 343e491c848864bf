"""Convolutions and transposed ones of groups of channels, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import circlet
from tests.needs import NATIVE

onnxruntime = pytest.importorskip("onnxruntime")

TRANSPOSED: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "doubled": ((5, 1, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "more": ((3, 1, 3, 2), {"strides": [2, 3], "output_padding": [1, 2], "pads": [1, 0, 0, 1]}),
    "several": ((2, 3, 2, 3), {"strides": [1, 2]}),
    "gaps": ((4, 1, 2, 3), {"strides": [2, 1], "dilations": [3, 2], "pads": [1, 2, 0, 1]}),
    "inside": ((3, 1, 2, 1), {"strides": [3, 2], "pads": [2, 1, 4, 3]}),
    "same": ((3, 1, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "signal": ((4, 2, 5), {"strides": [3], "pads": [1, 2], "output_padding": [1]}),
}
"""Of which each channel is a group: the shape of the filters, and attributes."""
VOLUMES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "volumes": ((5, 1, 3, 3, 3), {"group": 5, "pads": [1, 1, 1, 1, 1, 1]}),
    "steps": ((6, 1, 2, 1, 3), {"group": 3, "strides": [2, 1, 2], "pads": [1, 0, 2, 0, 0, 1]}),
    "gaps": ((4, 1, 3, 2, 1), {"group": 4, "strides": [2, 2, 1], "dilations": [2, 1, 3], "pads": [1, 1, 0, 2, 0, 0]}),
    "same": ((3, 1, 2, 3, 2), {"group": 3, "strides": [2, 1, 1], "auto_pad": "SAME_UPPER"}),
    "groups": ((6, 2, 2, 2, 2), {"group": 3}),
}
"""The same of convolutions of volumes."""
TRANSPOSED_VOLUMES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "gaps": ((4, 2, 2, 2, 3), {"group": 1, "strides": [2, 1, 1], "dilations": [3, 1, 2], "pads": [1, 0, 2, 3, 0, 1]}),
    "groups": ((4, 3, 3, 2, 2), {"group": 2, "strides": [2, 1, 1], "dilations": [2, 1, 1], "pads": [0, 1, 0, 0, 1, 0]}),
}
"""The same of transposed ones of volumes."""


def content(operator: str, shape: tuple[int, ...], attributes: dict[str, Any]) -> bytes:
    first, second, *sizes = shape
    groups = attributes.get("group", first)
    given, made = (first, groups * second) if operator == "ConvTranspose" else (second * groups, first)
    rng = np.random.default_rng(3)
    weights = [numpy_helper.from_array(rng.standard_normal(each).astype(np.float32), name)
               for name, each in (("w", shape), ("bias", (made,)))]
    node = helper.make_node(operator, ["x", "w", "bias"], ["y"], **{"group": groups, **attributes})
    x = helper.make_tensor_value_info("x", 1, ["b", given, *(f"d{k}" for k in range(len(sizes)))])
    graph = helper.make_graph([node], "g", [x], [helper.make_tensor_value_info("y", 1, None)], weights)
    domains = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=domains, ir_version=8).SerializeToString())


def agree(file: bytes, backend: str) -> circlet.Session:
    """Compares results for two shapes."""
    peer = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    session, (_, channels, *sizes) = circlet.Session(circlet.load(file), backend), peer.get_inputs()[0].shape
    for batch, length in ((2, 5), (1, 9)):
        shape = batch, channels, *(length + 2 * k for k in range(len(sizes)))
        given = {"x": np.random.default_rng(length).standard_normal(shape).astype(np.float32)}
        (found,), (wanted,) = session.run(given).values(), peer.run(None, given)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-5, strict=True)
    return session


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed(name: str, backend: str) -> None:
    file = content("ConvTranspose", *TRANSPOSED[name])
    agree(file, backend)
    assert "TRANSPOSE_CONV" not in {each.name for each in circlet.load(file).subgraphs[0].operators}


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", VOLUMES)
def test_volumes(name: str, backend: str) -> None:
    session = agree(content("Conv", *VOLUMES[name]), backend)
    assert set(session.backend_of(0)) <= {backend, "none"}


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", TRANSPOSED_VOLUMES)
def test_transposed_volumes(name: str, backend: str) -> None:
    session = agree(content("ConvTranspose", *TRANSPOSED_VOLUMES[name]), backend)
    assert set(session.backend_of(0)) <= {backend, "none"}
