"""Operators on half precision that circlet computes in float32, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import circlet
from tests.needs import NATIVE
from tests.schema.onnx.graphs import parse

onnxruntime = pytest.importorskip("onnxruntime")

STEPS, HALF = 5, np.float16
"""How long sequences are; what elements are."""


def network(operator: str, gates: int, states: str) -> str:
    """Of sequences (t, b, 2), with a state of 2."""
    numbers = ", ".join(str(round(0.1 + (k * 7 % 11) / 10, 1)) for k in range(4 * gates))
    return f"""g (float16[t, b, 2] x) => (float16[t, 1, b, 2] y) {{
        wide = Constant<value = float[1, {2 * gates}, 2] {{{numbers}}}>() w = Cast<to = 10>(wide)
        {states} = {operator}<hidden_size = 2>(x, w, w) }}"""


NUMBERS = ", ".join(str(round(0.1 + (k * 7 % 11) / 10, 1)) for k in range(48))
CASES = {
    "Attention": (f"""g (float16[b, t, 4] x) => (float16[b, t, 4] y) {{
        wide = Constant<value = float[4, 12] {{{NUMBERS}}}>() w = Cast<to = 10>(wide)
        flat = Constant<value = float[12] {{{", ".join(["0.25"] * 12)}}}>() b = Cast<to = 10>(flat)
        y = com.microsoft.Attention<num_heads = 2>(x, w, b) }}""", (2, STEPS, 4)),
    "FusedMatMul": (f"""g (float16[b, t, 4] x) => (float16[b, t, 12] y) {{
        wide = Constant<value = float[4, 12] {{{NUMBERS}}}>() w = Cast<to = 10>(wide)
        y = com.microsoft.FusedMatMul<alpha = 0.5>(x, w) }}""", (2, STEPS, 4)),
    "FusedGemm": (f"""g (float16[b, 4] x) => (float16[b, 12] y) {{
        wide = Constant<value = float[4, 12] {{{NUMBERS}}}>() w = Cast<to = 10>(wide)
        y = com.microsoft.FusedGemm<activation = "Relu">(x, w) }}""", (3, 4)),
    "GlobalLpPool": ("""g (float16[b, 2, h, w] x) => (float16[b, 2, 1, 1] y) {
        y = GlobalLpPool<p = 2>(x) }""", (2, 2, 6, 7)),
    "MeanVarianceNormalization": ("""g (float16[b, 2, h, w] x) => (float16[b, 2, h, w] y) {
        y = MeanVarianceNormalization(x) }""", (2, 2, 6, 7)),
    "DeformConv": ("""g (float16[b, 1, h, w] x) => (float16[b, 1, p, q] y) {
        k = Constant<value = float[1, 1, 1, 1] {2.0}>() w16 = Cast<to = 10>(k) two = Constant<value = float {0.25}>()
        near = Cast<to = 10>(two) twice = Concat<axis = 1>(x, x) places = Mul(twice, near)
        y = DeformConv<kernel_shape = [1, 1]>(x, w16, places) }""", (2, 1, 6, 7)),
    "LSTM": (network("LSTM", 4, "y, h, cell"), (STEPS, 3, 2)),
    "GRU": (network("GRU", 3, "y, h"), (STEPS, 3, 2)),
    "RNN": (network("RNN", 1, "y, h"), (STEPS, 3, 2)),
    "RoiAlign": ("""g (float16[b, 1, h, w] x) => (float16[2, 1, 2, 2] y) {
        wide = Constant<value = float[2, 4] {0.0, 0.0, 3.0, 4.0, 1.0, 0.5, 5.0, 3.0}>() boxes = Cast<to = 10>(wide)
        of = Constant<value = int64[2] {0, 1}>()
        y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 2>(x, boxes, of) }""", (2, 1, 6, 7)),
}


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name: str, backend: str) -> None:
    if name == "DeformConv":
        pytest.importorskip("onnxruntime", minversion="1.32", reason="ONNX Runtime 1.23 has no DeformConv")
    text, shape = CASES[name]
    x = np.random.default_rng(1).standard_normal(shape).astype(HALF)
    model = onnx.ModelProto.FromString(parse(text, 19))
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = peer.run(None, {"x": x})
    (found,) = circlet.Session(circlet.load(model), backend).run({"x": x}).values()
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3, strict=True)
