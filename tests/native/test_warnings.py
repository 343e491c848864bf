"""LLVM says nothing on stderr while it compiles."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.types import DType, Quantization
from circlet.runtime.ops.matmul import FullyConnected
from tests.native.quantized_models import Network, stored

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
