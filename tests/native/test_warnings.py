"""LLVM says nothing on stderr while it compiles."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType, Quantization
from circlet.runtime.ops.layout import Pack, Transpose
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.shape import Reshape
from tests.native.quantized_models import Network, stored
from tests.native.test_lengths import Graph

UNITS = (8, 12, 40, 1000)
"""Of 1000 units the last tile is 40 wide, over which LLVM complained on a processor with AVX-512."""


def said(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], units: int) -> str:
    """What appears on stderr while a layer of an int8 network is compiled."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    network = Network()
    x = network.input(stored((1, 1280), DType.INT8, 0), Quantization((0.02,), (3,)))
    scales = Quantization(tuple(np.linspace(0.001, 0.002, units).tolist()), (0,) * units, axis=0)
    weights = network.constant(stored((units, 1280), DType.INT8, 1), scales)
    bias = network.constant(stored((units,), DType.INT16, 2).astype(np.int32))
    network.op(FullyConnected(), x, weights, bias, quantization=Quantization((0.08,), (2,)))
    model, given = network.finished()
    capfd.readouterr()
    circlet.Session(model, backend="native").invoke(0, given)
    return capfd.readouterr().err


@pytest.mark.parametrize("units", UNITS)
def test_nothing_is_said(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], units: int) -> None:
    assert said(monkeypatch, capfd, units) == ""


def test_nothing_is_said_of_rows_that_are_kept_as_they_are_computed(monkeypatch: pytest.MonkeyPatch,
                                                                    capfd: pytest.CaptureFixture[str]) -> None:
    """A softmax of the places of an image of any size, by channel: elements are found by division."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x = g.builder.input("x", DType.FLOAT32, (-1, -1, -1, 7))
    shape = g(Pack(3), g.length(x, 0), g.number(7), g.number(-1), dtype=DType.INT32)
    g.builder.output(g(Softmax(1.0), g(Reshape(), g(Transpose(), x, g.ints(0, 3, 1, 2)), shape)))
    native, cpu = (circlet.Session(b.build(), backend=each) for each in ("native", "cpu"))
    given = [np.random.default_rng(0).standard_normal((2, 9, 11, 7)).astype(np.float32)]
    capfd.readouterr()
    (found,), (expected,) = (each.invoke(0, given) for each in (native, cpu))
    assert capfd.readouterr().err == ""
    np.testing.assert_allclose(found, expected, rtol=1e-5)
