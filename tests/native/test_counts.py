"""Counting what a run does leaves it native, and tells what the numpy backend tells."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import circlet
from circlet.backends.native.load.invocation import CountedInvocation
from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.exec.step import Step
from tests.models.expectations import Expectation, read
from tests.native.test_models import MODELS

QUICK = ("collatz", "nested_while", "cond_nested", "cond_loops", "break_continue", "cond_shapes", "counter")
SHARED = sorted((Path(__file__).parents[3] / "shared" / "models" / "control").glob("*.tflite"))


def invocations(path: Path, backend: str, call: Expectation) -> tuple[dict[int, int], int, int]:
    """How often each subgraph of the model ran, then copies and copied bytes."""
    session, counter = circlet.Session(circlet.load(path), backend), circlet.Counter()
    runner = session.signature(call.signature) if call.signature else session
    runner.run(call.inputs, listener=counter)
    assert min(counter.invocations.values()) > 0
    own = range(len(session.model.subgraphs))
    found = {each: count for each, count in counter.invocations.items() if each in own}
    return found, counter.copies, counter.copied_bytes


@pytest.mark.parametrize("path", [
    pytest.param(each, id=f"{each.parent.name}-{each.stem}", marks=() if each.stem in QUICK else pytest.mark.slow)
    for each in (*MODELS, *SHARED)])
def test_invocations_are_those_of_numpy(path: Path) -> None:
    for call in read(path.with_suffix(".npz")):
        assert invocations(path, "native", call)[0] == invocations(path, "cpu", call)[0]


@pytest.mark.parametrize("name", ["collatz", "nested_while", "list_update"])
def test_a_counted_run_is_native(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: Counter[str] = Counter()
    bind = CountedInvocation.step

    def step(self: CountedInvocation) -> Step:
        run = bind(self)

        def called() -> None:
            counted[name] += 1
            run()

        return called

    monkeypatch.setattr(CountedInvocation, "step", step)
    path = next(each for each in MODELS if each.stem == name)
    invocations(path, "native", read(path.with_suffix(".npz"))[0])
    assert counted == {name: 1}


def test_copies_are_those_that_native_code_makes() -> None:
    """The rows start as a constant, which is copied once; scalars are in registers, whatever elision does."""
    path = next(each for each in MODELS if each.stem == "map_rows")
    model, (call, *_) = circlet.load(path), read(path.with_suffix(".npz"))
    found = []
    for elide in (True, False):
        counter = circlet.Counter()
        circlet.Session(model, "native", copy_elision=elide).run(call.inputs, listener=counter)
        found.append((counter.copies, counter.copied_bytes))
    assert found == [(1, 60), (9, 540)]


def test_other_listeners_hear_of_each_invocation() -> None:
    class Heard(Listener):
        def __init__(self) -> None:
            self.order: list[int] = []

        def will_invoke(self, subgraph: int) -> None:
            self.order.append(subgraph)

    heard = Heard()
    circlet.Session(circlet.load("examples/collatz.tflite"), "native").run({"n": 2}, listener=heard)
    assert heard.order == [0, 3, 4, 2, 3]


def test_a_run_that_fails_has_counted_up_to_there() -> None:
    counter = circlet.Counter()
    model = circlet.load("examples/collatz.tflite")
    session = circlet.Session(model, "native", limits=circlet.Limits(max_iterations=5))
    with pytest.raises(circlet.LimitError):
        session.run({"n": 27}, listener=counter)
    assert (counter.invocations[3], counter.invocations[4]) == (6, 5)
