"""Variables whose shapes change from run to run: one function for all of them, and state as everywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.types import Array
from tests.exec.kept import appending
from tests.native.conftest import functions
from tests.native.test_plans import forbid_reading, is_prepared

COUNTS = (3, 1, 1, 2, 5, 1, 4, 2, 1, 7, 1, 1)
MODELS = [(is_computed, is_shown) for is_computed in (False, True) for is_shown in (False, True)]
named = pytest.mark.parametrize(("is_computed", "is_shown"), MODELS)


def steps(batch: int, counts: Sequence[int] = COUNTS) -> list[Array]:
    rng = np.random.default_rng(batch)
    return [rng.integers(-9, 9, (batch, count, 2), np.int32) for count in counts]


def expect(session: circlet.Session, given: Sequence[Array], before: Sequence[Array] = (), is_shown: bool = False
           ) -> None:
    """Runs steps, and looks at what each gives."""
    seen = list(before)
    for each in given:
        seen.append(each)
        found = list(session.run([each]).values())
        whole = np.concatenate(seen, 1)
        np.testing.assert_array_equal(found[0], whole.sum(1))
        if is_shown:
            np.testing.assert_array_equal(found[1], whole)
            found[1].fill(77)  # it is the caller's, and not what the session keeps


@named
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_results(backend: str, is_computed: bool, is_shown: bool) -> None:
    session = circlet.Session(appending(is_computed, is_shown), backend)
    for batch in (1, 3, 2) if is_computed else (1, 1):
        session.reset_state()
        expect(session, steps(batch), is_shown=is_shown)


@pytest.mark.parametrize("is_computed", [False, True])
def test_few_functions_serve_all_lengths(is_computed: bool, folder: Path, compiled: list[str]) -> None:
    """One for first values, where they are computed, and one for all steps, those from nothing among them."""
    session = circlet.Session(appending(is_computed), "native")
    expect(session, steps(2 if is_computed else 1))
    assert len(compiled) == 1 + is_computed
    session.reset_state()
    expect(session, steps(3 if is_computed else 1, COUNTS[::-1]))
    assert len(compiled) == 1 + is_computed


@named
def test_the_next_process_does_not_read_the_model(is_computed: bool, is_shown: bool, folder: Path,
                                                  monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "model.circle"
    circlet.save(appending(is_computed, is_shown), path)
    expect(circlet.Session(path, "native"), steps(1), is_shown=is_shown)
    assert functions(folder)
    forbid_reading(monkeypatch)
    session = circlet.Session(path, "native")
    for _ in range(2):
        expect(session, steps(1), is_shown=is_shown)
        session.reset_state()
    assert is_prepared(session)


def test_what_the_plan_does_not_say_is_read(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.circle"
    circlet.save(appending(is_computed=True), path)
    circlet.Session(path, "native").run(steps(1)[:1])
    session = circlet.Session(path, "native")
    expect(session, steps(3, (2, 0, 0, 4)))
    assert not is_prepared(session)


@pytest.mark.parametrize("is_planned", [False, True])
@pytest.mark.parametrize("is_computed", [False, True])
def test_a_run_that_fails_changes_nothing(is_computed: bool, is_planned: bool, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.circle"
    circlet.save(appending(is_computed), path)
    if is_planned:
        expect(circlet.Session(path, "native"), steps(1))
    session, given = circlet.Session(path, "native"), steps(1)
    before: list[Array] = []
    for each in given:
        if before:
            with pytest.raises(circlet.ExecutionError, match=r"CONCATENATION.*but for axis 1, found \(2, 1, 2\)"):
                session.run([np.ones((2, 1, 2), np.int32)])
        expect(session, [each], before)
        before.append(each)


def test_the_first_run_may_fail(folder: Path) -> None:
    session = circlet.Session(appending(is_computed=False), "native")
    with pytest.raises(circlet.ExecutionError):
        session.run([np.ones((2, 1, 2), np.int32)])
    expect(session, steps(1))


@named
def test_runs_that_are_observed_see_the_same_state(is_computed: bool, is_shown: bool) -> None:
    """Some of them run the model as it was given."""
    session = circlet.Session(appending(is_computed, is_shown), "native")
    before: list[Array] = []
    for number, each in enumerate(steps(1)):
        listener = (None, circlet.Counter(), circlet.ValueRecorder())[number % 3]
        before.append(each)
        found = list(session.run([each], listener=listener).values())
        np.testing.assert_array_equal(found[0], np.concatenate(before, 1).sum(1))


def test_operators_are_said_to_be_native() -> None:
    session = circlet.Session(appending(is_computed=True), "native")
    expect(session, steps(2))
    names = session.backend_of()
    operators = [each.name for each in session.model.subgraphs[0].operators]
    found = dict(zip(operators, names, strict=True))  # of several the last one
    assert {found["CONCATENATION"], found["SUM"]} == {"native"}
    assert found["IF"] == "none"
