"""Models that are compiled ahead of time for other processors give what every backend does, under emulators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import circlet
from circlet.embed import compile_model
from circlet.embed.names import identifier
from circlet.runtime.ir.types import DType
from tests.embed.devices import DEVICES, VARIED, Device, run
from tests.embed.models import TOO_LARGE, accepted, compiled
from tests.models.expectations import Expectation, agrees
from tests.native.test_narrow import model

FEW = ("collatz", "cnn_int8", "lstm")
"""The models that are run whenever tests are; the others are slow."""


def few() -> Iterator[ParameterSet]:
    """The models that are compiled, most of them slow."""
    for each in accepted():
        (path,) = each.values
        assert isinstance(path, Path)
        yield pytest.param(path, id=each.id, marks=() if path.stem in FEW else pytest.mark.slow)


@pytest.mark.parametrize("device", [pytest.param(each, id=each.target) for each in DEVICES])
@pytest.mark.parametrize("path", list(few()))
def test_model(path: Path, device: Device, tmp_path: Path) -> None:
    if device.missing:
        pytest.skip(f"not installed: {', '.join(device.missing)}")
    if path.stem in TOO_LARGE and device.target.startswith("cortex"):
        pytest.skip("the board has too little memory")
    for number, (found, calls) in enumerate(compiled(path, device.target, is_small=True)):
        assert {*found.contents.needed} <= {"memcpy", "memset"}
        if not device.has_room(found, calls):
            pytest.skip("the board has too little memory")
        folder = tmp_path / str(number)
        folder.mkdir()
        for call, (status, outputs) in zip(calls, run(device, found, calls, folder), strict=True):
            assert status == 0
            for name, expected in call.outputs.items():
                assert agrees(outputs[identifier(name)], expected), name


@pytest.mark.parametrize("device", [
    pytest.param(each, id=each.target, marks=() if each.target in VARIED else pytest.mark.slow) for each in DEVICES])
@pytest.mark.parametrize("dtype", [
    DType.INT8, *(pytest.param(each, marks=pytest.mark.slow) for each in (DType.UINT8, DType.INT4))])
@pytest.mark.parametrize("kind", ["eight", *(pytest.param(each, marks=pytest.mark.slow) for each in ("row", "conv"))])
def test_dequantised_weights(kind: str, dtype: DType, device: Device, tmp_path: Path) -> None:
    """With a scale and a zero point for each column."""
    if device.missing:
        pytest.skip(f"not installed: {', '.join(device.missing)}")
    built, x = model(kind, dtype, 0, 1)
    call = Expectation(1, "", {"x": x}, circlet.Session(built, "cpu").run({"x": x}))
    ((status, outputs),) = run(device, compile_model(built, device.target, is_small=True), [call], tmp_path)
    assert status == 0
    for name, expected in call.outputs.items():
        assert agrees(outputs[identifier(name)], expected)
