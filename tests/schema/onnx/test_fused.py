"""What ONNX Runtime's optimiser writes, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, parser

import circlet
from circlet.runtime.errors import UnsupportedError
from tests.schema.onnx.test_qlinear import LENGTHS, Array, Call, content, inference, value

RANDOM = np.random.default_rng(9)


def weights(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def real(*shape: int) -> tuple[tuple[int, ...], str]:
    return (4, *shape), "float32"


def call(op: str, *inputs: tuple[tuple[int, ...], str] | Array | None, **attributes: Any) -> Call:
    return Call(op, inputs, "float32", attributes)


IMAGE, FILTER = real(3, 6, 7), weights(5, 3, 3, 3)
CALLS = [
    call("Gelu", real(9)),
    call("BiasGelu", real(3, 9), weights(9)),
    call("FastGelu", real(9)),
    call("FastGelu", real(3, 9), weights(9)),
    *(call("QuickGelu", real(9), alpha=alpha) for alpha in (1.0, 1.702)),
    *(call("FusedMatMul", real(*a), real(*b), alpha=0.25, transA=int(turned), transB=int(other))
      for turned, other, a, b in ((False, False, (5, 6), (6, 7)), (True, False, (6, 5), (6, 7)),
                                  (False, True, (5, 6), (7, 6)), (True, True, (6, 5), (7, 6)))),
    call("FusedMatMul", real(5, 6), weights(7, 6), transB=1),
    call("FusedMatMul", weights(5, 3, 6), weights(3, 6, 7), transBatchA=1),
    call("FusedMatMul", weights(3, 5, 6), weights(7, 3, 6), transBatchB=1, transB=1),
    *(call("FusedConv", IMAGE, FILTER, weights(5), kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 1],
           activation=name, **parameters)
      for name, parameters in (("Relu", {}), ("Sigmoid", {}), ("Tanh", {}),
                               ("LeakyRelu", {"activation_params": [0.1]}),
                               ("Clip", {"activation_params": [-0.5, 2.0]}),
                               ("HardSigmoid", {"activation_params": [0.1, 0.4]}))),
    call("FusedConv", IMAGE, FILTER, weights(5), real(5, 4, 5), kernel_shape=[3, 3], activation="Relu"),
    *(call("FusedGemm", real(6), weights(6, 7), weights(7), activation=name, **parameters)
      for name, parameters in (("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("Softplus", {}), ("Softsign", {}),
                               ("LeakyRelu", {"activation_alpha": 0.1}), ("Elu", {"activation_alpha": 0.7}),
                               ("ThresholdedRelu", {"activation_alpha": 0.3}),
                               ("Selu", {"activation_alpha": 1.6, "activation_gamma": 1.1}),
                               ("HardSigmoid", {"activation_alpha": 0.1, "activation_beta": 0.4}))),
    call("SkipLayerNormalization", real(3, 8), real(3, 8), weights(8), weights(8), weights(8), epsilon=1e-5),
    call("SkipLayerNormalization", real(3, 8), weights(3, 8), weights(8)),
    call("SkipSimplifiedLayerNormalization", real(3, 8), real(3, 8), weights(8), weights(8), epsilon=1e-5),
]


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("case", CALLS, ids=[f"{case.op}-{k}" for k, case in enumerate(CALLS)])
def test_as_onnxruntime(case: Call, backend: str) -> None:
    model = content(case)
    peer = inference(model)
    session = circlet.Session(circlet.load(model), backend=backend)
    for n in LENGTHS:
        given = {f"x{k}": value((n, *each[0][1:]), each[1], n + k) for k, each in enumerate(case.inputs)
                 if isinstance(each, tuple)}
        (expected,), (found,) = peer.run(None, given), session.run(given).values()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, strict=True)


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_normalisations_of_the_runtime_itself(backend: str) -> None:
    """They are in ONNX's own domain, of any version of it."""
    names = {"SimplifiedLayerNormalization": ["x", "s"], "LayerNormalization": ["x", "s", "b"]}
    nodes = [helper.make_node(op, given, [op], epsilon=1e-3) for op, given in names.items()]
    described = [helper.make_tensor_value_info("x", 1, ["n", 3, 8]),
                 *(helper.make_tensor_value_info(name, 1, [8]) for name in "sb")]
    graph = helper.make_graph(nodes, "g", described, [helper.make_tensor_value_info(op, 1, None) for op in names])
    model = bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
                  .SerializeToString())
    peer = inference(model)
    session = circlet.Session(circlet.load(model), backend=backend)
    for n in LENGTHS:
        given = {"x": value((n, 3, 8), "float32", n), "s": weights(8), "b": weights(8)}
        for expected, found in zip(peer.run(None, given), session.run(given).values(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, strict=True)


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="activation 'Mish'"):
        circlet.load(content(call("FusedGemm", real(6), weights(6, 7), weights(7), activation="Mish")))


@pytest.mark.parametrize("inputs", [("a", "b"), ("a", "b", "d")])
@pytest.mark.parametrize("kind", ["float", "int64"])
def test_a_range_of_a_model_that_says_no_version(inputs: tuple[str, ...], kind: str) -> None:
    """As TensorFlow's converter writes it; the step is 1 where there is none."""
    graph = parser.parse_graph(f"g ({kind} a, {kind} b, {kind} d) => ({kind}[n] y) {{ y = Range(a, b, d) }}")
    del graph.node[0].input[:]
    graph.node[0].input.extend(inputs)
    graph.node[0].domain = "com.microsoft"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    given = {name: np.array(number, np.float32 if kind == "float" else np.int64)
             for name, number in (("a", 2), ("b", 9), ("d", 3))}
    (expected,) = inference(made).run(None, given)
    np.testing.assert_array_equal(circlet.Session(circlet.load(made)).run(given)["y"], expected, strict=True)
