"""Every shipped model, the real ones, random loops and programs with open lengths under bounds assertions; results are
checked too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import circlet
from circlet.backends.native.check.watched import VARIABLE
from tests.exec.test_rotation import test_native_code_runs_random_rotations
from tests.models.expectations import agrees, read
from tests.native import test_lengths_programs
from tests.native.test_loop_programs import test_native_loops_are_python_loops
from tests.native.test_matrix_programs import test_native_programs_are_numpy_programs
from tests.native.test_models import MODELS

SHARED = sorted((Path(__file__).parents[3] / "shared" / "models").glob("*/*.tflite"))
__all__ = ["test_native_code_runs_random_rotations", "test_native_loops_are_python_loops",
           "test_native_programs_are_numpy_programs"]


@pytest.fixture(scope="module", autouse=True)
def checked() -> Iterator[None]:
    """All native code of this module checks bounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "1")
        yield


@pytest.mark.parametrize("elide", [True, False], ids=["elision", "copies"])
@pytest.mark.parametrize("path", [pytest.param(each, id=f"{each.parent.name}-{each.stem}")
                                  for each in (*MODELS, *SHARED)])
def test_model(path: Path, elide: bool) -> None:
    session = circlet.Session(circlet.load(path), "native", copy_elision=elide)
    for call in read(path.with_suffix(".npz")):
        found = session.signature(call.signature).run(call.inputs) if call.signature else session.run(call.inputs)
        for name, expected in call.outputs.items():
            assert agrees(found[name], expected), name


@pytest.mark.parametrize("number", range(200, 240))
def test_open_lengths(number: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Programs beside those that run without assertions."""
    test_lengths_programs.test_results_are_those_of_numpy(number, capfd)
