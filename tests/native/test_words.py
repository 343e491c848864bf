"""Names that results take of constant tables by integers leave the rest one function, which has a plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.runtime.errors import ExecutionError
from circlet.schema.files import dump_model
from tests.native.test_plans import forbid_reading
from tests.passes.test_lift_words import LIFTED, NAMES, Body, by_input, looked_up, naming


def rows(count: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)


@pytest.mark.parametrize("body", LIFTED, ids=lambda body: body.__name__)
def test_one_function_serves_all_lengths(body: Body, folder: Path, compiled: list[str],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    content = dump_model(naming(body), "circle")
    peer, session = circlet.Session(content, "cpu"), circlet.Session(content, "native")
    for count in (5, 7, 33, 2):
        for found, wanted in zip(session.run([rows(count)]).values(), peer.run([rows(count)]).values(), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    assert len(compiled) == 1
    forbid_reading(monkeypatch)
    planned = circlet.Session(content, "native")
    for found, wanted in zip(planned.invoke(0, [rows(7)]), session.invoke(0, [rows(7)]), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


def test_no_rows_and_runs_that_somebody_hears() -> None:
    session, peer = circlet.Session(naming(looked_up), "native"), circlet.Session(naming(looked_up), "cpu")
    for listener in (None, circlet.ValueRecorder(), None):
        for count in (3, 0, 1):
            names, _ = session.run([rows(count)], listener=listener).values()
            np.testing.assert_array_equal(names, next(iter(peer.run([rows(count)]).values())), strict=True)


@pytest.mark.parametrize("place", [3, -1])
def test_places_beyond_the_table(place: int) -> None:
    session = circlet.Session(naming(by_input), "native")
    for places in ([0, 2], [1]):
        names = session.invoke(0, [rows(1), np.array(places, np.int32)])[0]
        assert names.tolist() == [NAMES[each].encode() for each in places]
        with pytest.raises(ExecutionError, match=rf"operator 1 \(GATHER\).*index {place} is out of range"):
            session.invoke(0, [rows(1), np.array([1, place], np.int32)])


@pytest.mark.parametrize("body", LIFTED, ids=lambda body: body.__name__)
def test_bound_runs_look_up_as_the_model_does(body: Body) -> None:
    """They are bound to the operators as they were: each run of a subgraph that gives integers would be bound anew."""
    content = dump_model(naming(body), "tflite")
    peer, interpreter = circlet.Session(content, "cpu"), circlet.Interpreter(model_content=content)
    for count in (1, 5, 3, 1):
        interpreter.resize_tensor_input(0, [count, 3])
        interpreter.allocate_tensors()
        for x in (rows(count), -rows(count)):
            interpreter.set_tensor(0, x)
            interpreter.invoke()
            for detail, wanted in zip(interpreter.get_output_details(), peer.invoke(0, [x]), strict=True):
                np.testing.assert_array_equal(interpreter.get_tensor(detail["index"]), wanted, strict=True)


def test_no_subgraph_is_entered_by_bound_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise AssertionError("a subgraph is entered")

    monkeypatch.setattr("circlet.backends.controlflow.call.StatefulKernel.evaluate", refuse)
    interpreter = circlet.Interpreter(model_content=dump_model(naming(looked_up), "tflite"))
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist() == [b"no"]
