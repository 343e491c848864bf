"""Runs after the first one go a shorter way; what they take, give, refuse and remember is the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.exec.values import inputs as rules
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add, Mul
from tests.exec import graphs as g
from tests.exec.test_variables import counting_model

BACKENDS = ["cpu", "native"]
THREADS, RUNS = 8, 200
X, Y = np.array([1, 2, 3, 4], np.float32), np.array(5, np.int32)
GIVEN: dict[str, Any] = {"x": X, "y": Y}
VALUES: Mapping[str, Any] = {
    "as declared": GIVEN,
    "in another order": {"y": Y, "x": X},
    "strided": {"x": np.arange(8, dtype=np.float32)[::2], "y": Y},
    "reversed": {"x": X[::-1], "y": Y},
    "read-only": {"x": np.broadcast_to(np.float32(2), (4,)), "y": Y},
    "of the other byte order": {"x": X.astype(">f4"), "y": Y},
    "of a wider type": {"x": X.astype(np.float64), "y": Y.astype(np.int64)},
    "a subclass": {"x": np.ma.masked_array(X), "y": Y},
    "a subclass of dict": OrderedDict(GIVEN),
    "lists": {"x": [1, 2, 3, 4], "y": 5},
    "numpy's scalars": {"x": X, "y": np.int32(5)},
    "no dictionary": [X, Y],
    "one missing": {"x": X},
    "none": {},
    "one unknown": {"x": X, "z": Y},
    "one too many": {**GIVEN, "z": Y},
    "another shape": {"x": X[:3], "y": Y},
    "another rank": {"x": X[None], "y": Y},
    "values that do not fit": {"x": X, "y": np.array(5.5)},
    "None": {"x": X, "y": None},
}


LENGTHS = [4, -1]
"""Of the input x: fixed, and the caller's choice."""


def two_results(length: int = 4) -> Model:
    """x + x and y * y; x + x has two names."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, y = main.input("x", DType.FLOAT32, (length,)), main.input("y", DType.INT32, ())
    found = main.apply(Add(), x, x), main.apply(Mul(), y, y)
    main.output(*found)
    b.signature("serving_default", main, {"x": x, "y": y}, {"a": found[0], "b": found[1], "c": found[0]})
    b.signature("part", main, {"x": x, "y": y}, {"b": found[1]})
    return b.build()


def outcome(run: Callable[[], Mapping[str, Any]]) -> object:
    """What comes out, as it can be compared: results, or the error."""
    try:
        return {name: (value.dtype, value.tolist()) for name, value in run().items()}
    except circlet.CircletError as error:
        return type(error), str(error)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("key", ["serving_default", "part"])
@pytest.mark.parametrize("inputs", VALUES.values(), ids=VALUES)
def test_later_runs_take_and_refuse_the_same(backend: str, key: str, inputs: Any, length: int) -> None:
    session = circlet.Session(two_results(length), backend)
    expected = outcome(lambda: circlet.Session(two_results(length), backend).signature(key).run(inputs))
    runner = session.signature(key)
    good = outcome(lambda: runner.run(GIVEN))
    for _ in range(3):
        assert outcome(lambda: runner.run(inputs)) == expected
        for _ in range(3):
            assert outcome(lambda: runner.run(GIVEN)) == good


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_numpys_scalars_are_taken_as_they_are(backend: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule for any values, which takes longer than a small model, is not asked."""
    def refuse() -> None:
        pytest.fail("the rule was asked for")

    session, given = circlet.Session(two_results(length), backend), {"x": X, "y": np.int32(5)}
    monkeypatch.setattr(rules, "_rule", refuse)
    for _ in range(4):
        assert session.signature("part").run(given) == {"b": 25}


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_that_stay_for_a_while_may_change(backend: str) -> None:
    session = circlet.Session(two_results(-1), backend)
    for length in (3, 3, 3, 3, 5, 3, 5, 5, 5, 0, 0, 0, 5, 1, 1, 1, 3):
        x = np.arange(length, dtype=np.float32)
        found = session.signature("serving_default").run({"x": x, "y": Y})
        assert {name: value.tolist() for name, value in found.items()} == {
            "a": (x + x).tolist(), "b": 25, "c": (x + x).tolist()}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_entry_points_of_one_subgraph_take_turns(backend: str, length: int) -> None:
    session = circlet.Session(two_results(length), backend)
    for turn in range(4):
        inputs = {"x": X + turn, "y": Y}
        assert {*session.signature("serving_default").run(inputs)} == {"a", "b", "c"}
        assert session.signature("part").run(inputs) == {"b": 25}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_the_callers(backend: str, length: int) -> None:
    session = circlet.Session(two_results(length), backend)
    runs = [session.signature("serving_default").run({"x": X + turn, "y": Y}) for turn in range(4)]
    arrays = [each for run in runs for each in run.values()]
    assert len({each.ctypes.data for each in arrays}) == len(arrays)
    for each in arrays:
        each[...] = 0
    found = session.signature("serving_default").run(GIVEN)
    assert found["a"].tolist() == found["c"].tolist() == (X + X).tolist()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_threads_get_results_of_their_own(backend: str, length: int) -> None:
    session, wrong = circlet.Session(two_results(length), backend), []

    def work(number: int) -> None:
        for turn in range(RUNS):
            y = np.array(number * RUNS + turn, np.int32)
            found = session.run({"x": X, "y": y})
            wrong.extend([number] * bool(list(found.values())[1] != y * y))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong




@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_that_fails_is_taken_back(backend: str) -> None:
    session = circlet.Session(counting_model(), backend, limits=circlet.Limits(max_iterations=5))
    (name,) = session.inputs
    run = session.run
    for total in (3, 6, 9):
        assert [float(each) for each in run({name: g.i32(3)}).values()] == [total]
        with pytest.raises(circlet.LimitError, match="max_iterations=5"):
            run({name: g.i32(6)})
        with pytest.raises(circlet.InputError):
            run({name: g.i32([3])})


@pytest.mark.parametrize("backend", BACKENDS)
def test_limits_may_change_between_runs(backend: str) -> None:
    session = circlet.Session(g.while_model(g.at_most(9), g.counter, [g.i32(0)]), backend)
    (name,) = session.inputs
    inputs = {name: g.i32(0)}
    for limits, is_enough in [(circlet.Limits(), True), (circlet.Limits(max_iterations=4), False),
                              (circlet.Limits(max_iterations=40), True), (circlet.Limits(deadline=0), False),
                              (circlet.Limits(deadline=60), True), (circlet.Limits(), True)]:
        session.limits = limits
        for _ in range(3):
            if is_enough:
                session.run(inputs)
            else:
                with pytest.raises(circlet.LimitError):
                    session.run(inputs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_closed_session_runs_no_more(backend: str) -> None:
    session = circlet.Session(two_results(), backend)
    for _ in range(3):
        session.run(GIVEN)
    session.close()
    with pytest.raises(circlet.ClosedError):
        session.run(GIVEN)


@pytest.mark.parametrize("backend", BACKENDS)
def test_listeners_hear_of_later_runs(backend: str) -> None:
    session = circlet.Session(two_results(), backend)
    for _ in range(3):
        session.run(GIVEN)
    counter = circlet.Counter()
    session.run(GIVEN, counter)
    assert counter.invocations[0] == 1
