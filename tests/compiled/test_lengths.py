"""Models with code for lengths within bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.aot.between import Between
from circlet.compiled import load
from circlet.embed.container import container
from tests.compiled.files import changed, here, opened
from tests.embed.test_lengths import CASES, Inputs

pytestmark = here
FEW = ("encoder from 1", "batch", "found elements", "two lengths", "a loop that appends")


@pytest.mark.parametrize("name", FEW)
def test_results_have_the_bits_of_a_session(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    shapes = {name: tuple(each) for name, each in case.shapes.items()}
    model = opened(case.model(), tmp_path, shapes=shapes, capacity=case.capacity)
    session = circlet.Session(case.model(), "native")
    for given in case.calls:
        found = model.run(given)
        for key, value in session.run(dict(given)).items():
            np.testing.assert_array_equal(found[key], value, strict=True)
    for given in case.misfits:
        _expect_refused(model, given)
    declared = [model.inputs[each].shape for each in case.shapes]
    assert declared == [tuple(-1 if isinstance(one, Between) else one for one in each) for each in case.shapes.values()]


def test_messages_have_the_names_that_callers_know(tmp_path: Path) -> None:
    case = CASES["time of an LSTM"]
    model = opened(case.model(), tmp_path, shapes={name: tuple(each) for name, each in case.shapes.items()})
    for given in case.misfits:
        for run in (model.run, model.signature().__call__):
            with pytest.raises(circlet.InputError, match=r"^input 'x': the code is for lengths 1 to 40 of axis 1,"):
                run(given)


def _expect_refused(model: circlet.compiled.CompiledModel, given: Inputs) -> None:
    with pytest.raises(circlet.InputError, match=r"the code is for lengths \d+ to \d+ of axis 0, found \d+"):
        model.run(given)


@pytest.fixture(scope="module")
def batch() -> bytes:
    case = CASES["batch"]
    return container(case.model(), ("host",), shapes={name: tuple(each) for name, each in case.shapes.items()})


@here
@pytest.mark.parametrize("lengths", [[], [[1]], [[4, 2]], [[-1, 2]], [[1, 1 << 40]], [["1", 2]], [[1, 2], [1, 2]]])
def test_bounds_are_checked(lengths: object, batch: bytes, tmp_path: Path) -> None:
    def change(table: dict[str, list[dict[str, list[dict[str, object]]]]]) -> None:
        table["functions"][0]["tensors"][0]["lengths"] = lengths

    path = tmp_path / "changed.circlet"
    path.write_bytes(changed(batch, change))
    with pytest.raises(circlet.ModelError, match="expected bounds for 1 lengths"):
        load(path)
