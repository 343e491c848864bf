"""Resizing by factors: what float32 makes of lengths, and factors that only a run tells."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from numpy.typing import NDArray

import circlet
from tests.native.conftest import compiled as compiled
from tests.needs import NATIVE
from tests.ops.cases import check
from tests.schema.onnx.graphs import load

BETWEEN = """g (float[b, 2, h, w] x, float[b, 2, h2, w2] like) => (float[b, 2, h2, w2] y, float[b, 2, h3, w3] z) {{
    two = Constant<value = int64[2] {{2, 3}}>() ones = Constant<value = float[2] {{1.0, 1.0}}>()
    here = Shape(x) there = Shape(like) some = Gather(here, two) wanted = Gather(there, two)
    from = Cast<to = 1>(some) to = Cast<to = 1>(wanted) factor = Div(to, from)
    factors = Concat<axis = 0>(ones, factor)
    up = Resize<mode = "{mode}", coordinate_transformation_mode = "{places}">(x, "", factors) y = Add(up, like)
    z = Resize<mode = "{mode}", coordinate_transformation_mode = "{places}">(up, "", factors) }}"""
"""An image resized to the size of another one, as exporters wrote it that knew no sizes."""
BY = """g (float[b, 2, h, w] x) => (float[b, 2, h2, w2] y) {{
    factors = Constant<value = float[4] {{1.0, 1.0, {tall}, {wide}}}>()
    y = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(x, "", factors) }}"""
SHAPES = ((1, 8, 10, 16, 20), (2, 10, 10, 5, 30), (2, 7, 40, 30, 33), (3, 30, 9, 10, 12), (1, 49, 90, 7, 60),
          (2, 64, 3, 9, 9))


def floats(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("places", ["half_pixel", "asymmetric", "pytorch_half_pixel"])
@NATIVE
def test_factors_of_the_run(mode: str, places: str, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    model = load(BETWEEN.format(mode=mode, places=places))
    native, cpu = (circlet.Session(model, backend=each) for each in ("native", "cpu"))
    for batch, height, width, tall, wide in SHAPES:
        given = [floats(batch, 2, height, width), floats(batch, 2, tall, wide)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            check(found, expected, 1e-5)
    assert len(compiled) == 1


@pytest.mark.parametrize(("factor", "length", "size"), [(0.7, 10, 7), (0.9, 70, 63), (2.3, 10, 23), (0.65, 100, 65),
                                                        (0.65, 180, 116), (0.5, 7, 3)])
@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
def test_products_are_rounded(factor: float, length: int, size: int, backend: str) -> None:
    session = circlet.Session(load(BY.format(tall=factor, wide=1.0)), backend=backend)
    for _ in range(2):
        assert session.run({"x": floats(2, 2, length, 4)})["y"].shape == (2, 2, size, 4)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("places", ["half_pixel", "asymmetric"])
def test_what_lies_between_bytes_is_cut_off(kind: str, places: str, backend: str) -> None:
    """As ONNX Runtime does it, and the reference of ONNX: towards zero."""
    ort = pytest.importorskip("onnxruntime")
    text = f"""g ({kind}[b, 2, h, w] x) => ({kind}[b, 2, h2, w2] y) {{
        factors = Constant<value = float[4] {{1.0, 1.0, 2.0, 4.0}}>()
        y = Resize<mode = "linear", coordinate_transformation_mode = "{places}">(x, "", factors) }}"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
    peer = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    session = circlet.Session(circlet.load(model), backend=backend)
    for batch, height, width in ((1, 3, 5), (2, 6, 4)):
        x = np.random.default_rng(width).integers(0, 256, (batch, 2, height, width)).astype(np.uint8).view(kind)
        np.testing.assert_array_equal(session.run({"x": x})["y"], peer.run(None, {"x": x})[0], strict=True)
