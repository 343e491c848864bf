"""What native code has the host warn of, and goes on."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.types import Array
from tests.native.test_plans import forbid_reading, is_prepared
from tests.schema.openvino import text

BEGIN = 10


def run(session: circlet.Session, count: int, goes_on: bool = True) -> Array:
    """The last sum of a loop that adds, in each of `count` turns, how many are left."""
    return session.invoke(0, [np.int64(count), np.array([goes_on]), np.array([[BEGIN]], np.float32)])[0]


@pytest.fixture
def planned(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> circlet.Session:
    """A session that has not read the model, whose loop makes as many turns as the run tells."""
    path = tmp_path / "loop.xml"
    path.write_text(text.seed_loop())
    run(circlet.Session(path, "native"), 1)
    forbid_reading(monkeypatch)
    return circlet.Session(path, "native")


@pytest.mark.parametrize("count", [-5, -2])
def test_a_count_is_told(planned: circlet.Session, count: int) -> None:
    with pytest.warns(UserWarning, match=f"trip count {count} is taken as -1"):
        found = run(planned, count, goes_on=False)
    np.testing.assert_array_equal(found, [[BEGIN]])
    assert is_prepared(planned)


@pytest.mark.parametrize(("count", "goes_on", "added"), [(-1, False, 0), (0, True, 0), (1, True, 1), (3, True, 6)])
def test_nothing_is_said_of_others(planned: circlet.Session, count: int, goes_on: bool, added: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(run(planned, count, goes_on), [[BEGIN + added]])


def test_a_warning_that_is_an_error_ends_the_run_alone(planned: circlet.Session) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="trip count -5"):
            run(planned, -5)
        np.testing.assert_array_equal(run(planned, 3), [[BEGIN + 6]])
