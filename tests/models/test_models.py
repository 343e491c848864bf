"""Every model of this folder computes what TensorFlow, or for quantised ones LiteRT, computed when it was written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import circlet
from tests.models.expectations import Expectation, agrees, read

MODELS = sorted(Path(__file__).parent.glob("*.tflite"))


def _run(session: circlet.Session, calls: list[Expectation]) -> list[str]:
    """The outputs that differ from what is expected, in words."""
    wrong = []
    for call in calls:
        found = session.signature(call.signature).run(call.inputs)
        assert found.keys() == call.outputs.keys()
        wrong += [
            f"call {call.number}, {name}: expected {call.outputs[name]}, found {found[name]}"
            for name in found if not agrees(found[name], call.outputs[name])
        ]
    return wrong


@pytest.mark.parametrize("copy_elision", [True, False], ids=["elision", "copies"])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_model(path: Path, copy_elision: bool) -> None:
    session = circlet.Session(circlet.load(path), copy_elision=copy_elision)
    wrong = _run(session, read(path.with_suffix(".npz")))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_reset_state(path: Path) -> None:
    """The calls give the same again once the state is reset."""
    session = circlet.Session(circlet.load(path))
    calls = read(path.with_suffix(".npz"))
    _run(session, calls)
    session.reset_state()
    wrong = _run(session, calls)
    assert not wrong, "\n".join(wrong)


def test_every_model_has_expectations() -> None:
    files = {path.stem for path in Path(__file__).parent.glob("*.npz")}
    assert files == {path.stem for path in MODELS}
    for path in MODELS:
        assert all(call.outputs for call in read(path.with_suffix(".npz")))


def test_every_model_is_described() -> None:
    readme = Path(__file__).parent.joinpath("README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE) == sorted(path.stem for path in MODELS)


def test_models_stay_small() -> None:
    sizes = [file.stat().st_size for path in MODELS for file in (path, path.with_suffix(".npz"))]
    assert max(sizes) < 60_000
    assert sum(sizes) < 1_000_000
