"""Every model of tests/models gives what is expected of it on the native backend."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlet
from tests.models.expectations import Expectation, agrees, read

MODELS = sorted((Path(__file__).parents[1] / "models").glob("*.tflite"))


def _wrong(session: circlet.Session, calls: list[Expectation]) -> list[str]:
    """The outputs that differ from what is expected, in words."""
    found = [(call, session.signature(call.signature).run(call.inputs)) for call in calls]
    return [f"call {call.number}, {name}: expected {call.outputs[name]}, found {outputs[name]}"
            for call, outputs in found for name in call.outputs if not agrees(outputs[name], call.outputs[name])]


@pytest.mark.parametrize("copy_elision", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["elision", "copies"])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_model(path: Path, copy_elision: bool) -> None:
    """The calls give the same again once the state is reset."""
    session = circlet.Session(circlet.load(path), backend="native", copy_elision=copy_elision)
    calls = read(path.with_suffix(".npz"))
    for _ in range(2):
        wrong = _wrong(session, calls)
        assert not wrong, "\n".join(wrong)
        session.reset_state()
