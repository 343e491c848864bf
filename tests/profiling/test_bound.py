"""Runs of an interpreter, and on arrays that a caller keeps, are timed as others are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.profiling.profile import Profile
from tests.models.expectations import read
from tests.needs import NATIVE

MODELS = Path(__file__).parent.parent / "models"
BACKENDS = ["cpu", pytest.param("native", marks=NATIVE)]
NAMES = ("collatz", "lstm", "non_zero", "variable_loop", "grow_concat")
"""Among them one whose results have other shapes in each run, and one with a state."""


def counts(profile: Profile) -> dict[object, int]:
    return {each.path: each.count for each in profile.root.walk()}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_bound_runs(name: str, backend: str) -> None:
    path = MODELS / f"{name}.tflite"
    model, call = circlet.load(path), read(path.with_suffix(".npz"))[0]
    session, other = (circlet.Session(model, backend) for _ in range(2))
    subgraph = next((each.subgraph for each in model.signatures if each.key == call.signature), 0)
    entry = session.signature(call.signature) if call.signature else session
    arrays = [np.array(call.inputs[each]) for each in entry.inputs]
    bound = session.bind(subgraph, arrays)

    def runs_alike() -> None:
        session.run_bound(bound)
        for found, wanted in zip(bound.results, other.invoke(subgraph, arrays), strict=True):
            np.testing.assert_array_equal(found, wanted)

    runs_alike()
    fixed = bound.results
    with circlet.profile(session) as profile:
        for _ in range(3):
            runs_alike()
        assert not bound.is_fixed or all(one is each for one, each in zip(bound.results, fixed, strict=True))
    runs_alike()
    with circlet.profile(other) as expected:
        for _ in range(3):
            other.invoke(subgraph, arrays)
    assert counts(profile) == counts(expected)
    assert profile.root.count == len(profile.walls) == 3
    assert profile.shapes == expected.shapes == {subgraph: tuple(each.shape for each in arrays)}
    assert profile.tables.operators


def test_interpreters() -> None:
    interpreter = circlet.Interpreter("examples/collatz.tflite")
    interpreter.allocate_tensors()
    (given,), (steps, *_) = interpreter.get_input_details(), interpreter.get_output_details()
    with circlet.profile(interpreter) as profile:
        for number, wanted in ((27, 111), (1, 0)):
            interpreter.set_tensor(given["index"], np.array(number, np.int32))
            interpreter.invoke()
            assert interpreter.get_tensor(steps["index"]) == wanted
    interpreter.invoke()
    assert profile.root.count == 2
    assert sum(each.loop.turns for each in profile.root.walk() if each.loop is not None) == 111


def test_what_else_cannot_be_profiled() -> None:
    with pytest.raises(circlet.InputError, match="a Session or an Interpreter, found int"), circlet.profile(3):  # type: ignore[arg-type]
        pass
