"""Recurrent networks with each activation and its parameters, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import circlet
from circlet.runtime.errors import ModelError, UnsupportedError
from tests.schema.onnx.test_qlinear import inference

GATES = {"RNN": (1, 1), "GRU": (3, 2), "LSTM": (4, 3)}
"""How many gates and activations each has."""
PARAMETERS = {"Affine": 2, "Elu": 1, "HardSigmoid": 2, "LeakyRelu": 1, "Relu": 0, "ScaledTanh": 2, "Sigmoid": 0,
              "Softplus": 0, "Softsign": 0, "Tanh": 0, "ThresholdedRelu": 1}
"""How many parameters each activation has."""


def content(kind: str, hidden: int = 3, depth: int = 2, **attributes: Any) -> bytes:
    rng, gates = np.random.default_rng(5), GATES[kind][0]
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    weights = [numpy_helper.from_array(rng.uniform(-1, 1, shape).astype(np.float32), name) for name, shape in (
        ("w", (directions, gates * hidden, depth)), ("r", (directions, gates * hidden, hidden)),
        ("b", (directions, 2 * gates * hidden)))]
    node = helper.make_node(kind, ["x", "w", "r", "b"], ["y"], hidden_size=hidden, **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, ["t", "b", depth])],
                              [helper.make_tensor_value_info("y", 1, None)], weights)
    domains = [helper.make_opsetid("", 14)]
    return bytes(helper.make_model(graph, opset_imports=domains, ir_version=8).SerializeToString())


def expect_equal(model: bytes, backend: str, same: bytes | None = None) -> None:
    """The model gives what ONNX Runtime makes of it, or of one that is to be the same."""
    session, peer = circlet.Session(circlet.load(model), backend=backend), inference(same or model)
    for steps, batch in ((4, 2), (7, 1)):
        x = np.random.default_rng(steps).standard_normal((steps, batch, 2)).astype(np.float32)
        np.testing.assert_allclose(session.run({"x": x})["y"], peer.run(None, {"x": x})[0], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("name", sorted(PARAMETERS))
@pytest.mark.parametrize("kind", sorted(GATES))
def test_activations_as_onnxruntime(kind: str, name: str, backend: str) -> None:
    """The last of a cell's activations; those before it keep what goes around bounded."""
    count, given = GATES[kind][1], dict[str, Any]()
    if PARAMETERS[name]:
        given["activation_alpha"] = [0.3]
    if PARAMETERS[name] > 1:
        given["activation_beta"] = [0.6]
    others = ["Sigmoid", "Tanh"][:count - 1]
    expect_equal(content(kind, activations=[*others, name], clip=2.0, **given), backend)


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_parameters_go_to_those_that_take_them(backend: str) -> None:
    names = ["Softsign", "LeakyRelu", "HardSigmoid", "Elu"]
    expect_equal(content("GRU", direction="bidirectional", activations=names, linear_before_reset=1,
                         activation_alpha=[0.2, 0.3, 0.7], activation_beta=[0.4]), backend)


@pytest.mark.parametrize(("name", "parameters"), [
    ("Elu", {"activation_alpha": [1.0]}), ("HardSigmoid", {"activation_alpha": [0.2], "activation_beta": [0.5]}),
    ("LeakyRelu", {"activation_alpha": [0.01]}), ("ThresholdedRelu", {"activation_alpha": [1.0]})])
def test_parameters_by_default(name: str, parameters: dict[str, Any]) -> None:
    """They are the specification's, which ONNX Runtime is told: it takes 0 for some, and 1.23 for all."""
    expect_equal(content("RNN", activations=[name]), "cpu", content("RNN", activations=[name], **parameters))


def test_refused() -> None:
    with pytest.raises(UnsupportedError, match="RNN with activation swish"):
        circlet.load(content("RNN", activations=["Swish"]))
    with pytest.raises(ModelError, match="activations: expected 3 for each direction, found 2"):
        circlet.load(content("LSTM", activations=["Sigmoid", "Tanh"]))
