"""Real models, where their folder lies beside the repository: every entry point, elision on and off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.passes.analyses.transfer import Action
from tests.models.expectations import agrees, read

FOLDER = Path(__file__).parents[2] / "shared" / "models"
MODELS = sorted(FOLDER.glob("*/*.tflite"))
ELIDED = ("count", "collatz", "nested", "lstm_while", "scan_list", "bigadd", "bigscatter", "nested_while",
          "multi_subgraphs_while")

pytestmark = pytest.mark.skipif(not MODELS, reason="the folder of real models is not here")


@pytest.mark.parametrize("elide", [True, False], ids=["elision", "copies"])
@pytest.mark.parametrize("path", [pytest.param(each, id=each.stem) for each in MODELS])
def test_model(path: Path, elide: bool) -> None:
    for call in read(path.with_suffix(".npz")):
        session = circlet.Session(circlet.load(path), copy_elision=elide)
        found = session.signature(call.signature).run(call.inputs) if call.signature else session.run(call.inputs)
        for name, expected in call.outputs.items():
            assert agrees(found[name], expected), name


@pytest.mark.parametrize("elide", [True, False], ids=["elision", "copies"])
@pytest.mark.parametrize(("name", "inputs", "expected", "invocations"), [
    ("micro_while_kernel", [np.array([35], np.int32)], np.array([35], np.int32), {0: 1, 1: 1}),
    ("micro_while_kernel", [np.array([0], np.int32)], np.array([10], np.int32), {0: 1, 1: 11, 2: 10}),
    ("luci_if_kernel", [np.bool_(True), np.full((2, 3), 3, np.float32), np.full((2, 3), 4, np.float32)],
     np.full((2, 3), 12, np.float32), {0: 1, 2: 1}),
    ("luci_if_kernel", [np.bool_(False), np.full((2, 3), 3, np.float32), np.full((2, 3), 4, np.float32)],
     np.full((2, 3), 7, np.float32), {0: 1, 1: 1}),
])
def test_circle_model(name: str, inputs: list[np.ndarray], expected: np.ndarray, invocations: dict[int, int],
                      elide: bool) -> None:
    session = circlet.Session(circlet.load(FOLDER / "circle" / f"{name}.circle"), copy_elision=elide)
    counter = circlet.Counter()
    (found,) = session.run(inputs, listener=counter).values()
    np.testing.assert_array_equal(found, expected)
    assert counter.invocations == invocations


@pytest.mark.parametrize("name", ELIDED)
def test_no_copy_is_left_in_a_turn(name: str) -> None:
    path = next(path for path in MODELS if path.stem == name)
    assert not [each for each in circlet.Session(circlet.load(path)).copies()
                if each.per_iteration and each.action is Action.COPY]


def test_a_turn_of_scan_list_writes_a_row() -> None:
    path = next(path for path in MODELS if path.stem == "scan_list")
    counter = circlet.Counter()
    circlet.Session(circlet.load(path)).run([np.zeros((256, 1024), np.float32)], listener=counter)
    assert counter.invocations[2] == 256
    assert counter.copied_bytes < 2 * 256 * 1024 * 4
