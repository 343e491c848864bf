"""What a listener raises ends the run and comes out of it as it is; state is as before, and the session goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import circlet
from tests.exec import graphs as g

MODELS = Path(__file__).parents[1] / "models"
NAMES = ("counter", "nested_while", "cond_shapes", "map_rows_dynamic", "cache_gru")
"""State, loops, branches of different shapes, shapes that depend on data, a loop that grows."""


class Odd(Exception):
    """No error that circlet knows."""


ERRORS: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("mine"), "KeyError": lambda: KeyError("mine"), "Odd": Odd,
    "MemoryError": MemoryError, "RecursionError": RecursionError, "KeyboardInterrupt": KeyboardInterrupt,
    "ExecutionError": lambda: circlet.ExecutionError("mine"), "LimitError": lambda: circlet.LimitError("mine"),
}


class Raises(circlet.Listener):
    """Raises an error as the n-th event happens, counted from 0."""

    def __init__(self, error: BaseException | None = None, event: int = -1) -> None:
        self.error = error
        self.event = event
        self.heard: list[str] = []

    def _hear(self, what: str) -> None:
        self.heard.append(what)
        if self.error is not None and len(self.heard) == self.event + 1:
            raise self.error

    def will_invoke(self, subgraph: int) -> None:
        self._hear("will_invoke")

    def did_invoke(self, subgraph: int) -> None:
        self._hear("did_invoke")

    def will_run(self, subgraph: int, operator: int) -> None:
        self._hear("will_run")

    def did_run(self, subgraph: int, operator: int) -> None:
        self._hear("did_run")

    def did_copy(self, subgraph: int, operator: int, edge: str, size: int) -> None:
        self._hear("did_copy")


def inputs_of(model: circlet.Model) -> list[g.Array]:
    """What each shipped model takes without complaint."""
    tensors = [model.subgraphs[0].tensors[each] for each in model.subgraphs[0].inputs]
    return [np.ones([max(dim, 2) if dim < 0 else dim for dim in each.signature], each.dtype.numpy) for each in tensors]


@pytest.mark.slow
@pytest.mark.parametrize("elide", g.ELISION, ids=["elision", "copies"])
@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("name", NAMES)
def test_what_a_listener_raises(name: str, backend: str, elide: bool) -> None:
    model = circlet.load(MODELS / f"{name}.tflite")
    session, fresh, heard = (circlet.Session(model, backend, copy_elision=elide) for _ in range(3))
    arrays, all_events = inputs_of(model), Raises()
    wanted = fresh.invoke(0, arrays)
    heard.invoke(0, arrays, all_events)
    first = {what: all_events.heard.index(what) for what in all_events.heard}
    last = {what: len(all_events.heard) - 1 - all_events.heard[::-1].index(what) for what in first}
    assert {"will_invoke", "did_invoke", "will_run", "did_run"} <= set(first)
    for event in sorted({*first.values(), *last.values()}):
        for make in ERRORS.values():
            error = make()
            with pytest.raises(type(error)) as caught:
                session.invoke(0, arrays, Raises(error, event))
            assert caught.value is error
            assert error.__cause__ is None
    g.assert_equal(session.invoke(0, arrays), wanted)


def test_the_cause_of_what_a_listener_raises_is_kept() -> None:
    session = circlet.Session(circlet.load(MODELS / "counter.tflite"))
    arrays = inputs_of(session.model)

    class Chained(circlet.Listener):
        def will_run(self, subgraph: int, operator: int) -> None:
            try:
                raise KeyError("first")
            except KeyError as error:
                raise Odd from error

    with pytest.raises(Odd) as caught:
        session.invoke(0, arrays, Chained())
    assert isinstance(caught.value.__cause__, KeyError)
