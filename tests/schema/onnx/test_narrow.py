"""Integers of four bits against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import circlet
from tests.schema.onnx.test_qlinear import Array, inference

RANDOM = np.random.default_rng(0)
KINDS = {"int4": (TensorProto.INT4, -8, 8), "uint4": (TensorProto.UINT4, 0, 16)}
PARAMETERS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "tensor": ((), {}), "rows": ((8,), {"axis": 0}), "columns": ((6,), {"axis": -1}),
    "blocks_of_rows": ((3, 6), {"axis": 0, "block_size": 3}), "blocks": ((8, 2), {"axis": 1, "block_size": 3}),
}
"""The shapes of scales and zero points, and what else nodes have."""
REAL = (4 * RANDOM.standard_normal((8, 6))).astype(np.float32)


def model(kind: str, name: str, domain: str, has_zero: bool, stored: Array | None = None) -> bytes:
    """A constant as integers, or such, as numbers again."""
    (number, least, end), (shape, attributes) = KINDS[kind], PARAMETERS[name]
    known = [numpy_helper.from_array(np.random.default_rng(1).uniform(0.1, 1, shape).astype(np.float32), "scale"),
             numpy_helper.from_array(REAL, "x")]
    if has_zero:
        zeros = np.random.default_rng(2).integers(least, end, shape).reshape(-1)
        known.append(helper.make_tensor("zero", number, shape, zeros.tolist()))
    parameters = ["scale", *(["zero"] if has_zero else [])]
    nodes = [helper.make_node("DequantizeLinear", ["q", *parameters], ["y"], domain=domain, **attributes)]
    if stored is None:
        typed: dict[str, Any] = {} if has_zero else {"output_dtype": number}
        nodes.insert(0, helper.make_node("QuantizeLinear", ["x", *parameters], ["q"], domain=domain, **attributes,
                                         **typed))
    else:
        known.append(helper.make_tensor("q", number, stored.shape, stored.reshape(-1).tolist()))
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", 1, None)], known)
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=domains, ir_version=10).SerializeToString())


@pytest.mark.parametrize("is_stored", [False, True], ids=["numbers", "integers"])
@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("kind", KINDS)
def test_constants_as_onnxruntime(kind: str, name: str, is_stored: bool) -> None:
    _, least, end = KINDS[kind]
    stored = np.random.default_rng(3).integers(least, end, REAL.shape) if is_stored else None
    for domain in ("", "com.microsoft") if "blocks" not in name else ("",):
        for has_zero in (False, True) if is_stored or not domain else (True,):
            content = model(kind, name, domain, has_zero, stored)
            (found,) = circlet.Session(circlet.load(content), backend="cpu").run().values()
            np.testing.assert_array_equal(found, inference(content).run(None, {})[0], strict=True)


@pytest.mark.parametrize("has_zero", [False, True])
def test_results_that_are_not_constant_are_refused(has_zero: bool) -> None:
    content = onnx.load_model_from_string(model("int4", "tensor", "", has_zero))
    kept = [each for each in content.graph.initializer if each.name != "x"]
    del content.graph.initializer[:]
    content.graph.initializer.extend(kept)
    content.graph.input.append(helper.make_tensor_value_info("x", 1, REAL.shape))
    with pytest.raises(circlet.UnsupportedError, match="type int4 of a result that is not constant"):
        circlet.load(content.SerializeToString())
