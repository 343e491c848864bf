"""One session run from several threads at once."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import numpy as np
import pytest

import circlet
from circlet.runtime.exec.frames.pool import KINDS
from tests.exec import graphs as g
from tests.exec.graphs import ELISION, i32
from tests.models.expectations import agrees, read

T = TypeVar("T")
MODELS = Path(__file__).parents[1] / "models"
THREADS = 8
RUNS = 12


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Lets threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], T]) -> list[T]:
    """The results of `work(thread)` in as many threads, which start together."""
    barrier = Barrier(THREADS)

    def started(thread: int) -> T:
        barrier.wait()
        return work(thread)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(started, range(THREADS)))


def load(name: str, elide: bool = True, limits: circlet.Limits | None = None) -> circlet.Session:
    return circlet.Session(circlet.load(MODELS / f"{name}.tflite"), copy_elision=elide, limits=limits)


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize("name", [
    "collatz", "nested_while", "swap", "bubble_sort", "grow_concat", "list_dynamic", "map_rows_dynamic", "cond_shapes",
    "loop_batch", "non_zero", "cnn_int8", "string_gather", "signatures",
])
def test_stateless_models(name: str, elide: bool) -> None:
    """Threads make the recorded calls in orders of their own, so that shapes and entry points alternate."""
    session, calls = load(name, elide), read(MODELS / f"{name}.npz")

    def work(thread: int) -> list[str]:
        chosen = random.Random(thread).choices(calls, k=RUNS)
        found = [(call, session.signature(call.signature).run(call.inputs)) for call in chosen]
        return [f"call {call.number}: {key}" for call, outputs in found for key, value in outputs.items()
                if not agrees(value, call.outputs[key])]

    assert at_once(work) == [[]] * THREADS


@pytest.mark.parametrize("body", [lambda s, v: [g.plus(s, v[0]), g.plus(s, v[1])], g.pad(0, 1)],
                         ids=["keeps_shapes", "changes_shapes"])
def test_more_shapes_than_are_kept(body: g.Formula) -> None:
    model = g.while_model(g.at_most(4), body, [i32([0]), i32([0])], loose=True)
    session, alone = circlet.Session(model), circlet.Session(model)
    lengths = range(1, KINDS + 5)
    expected = {length: g.run(alone, [i32([0]), np.arange(length, dtype=np.int32)]) for length in lengths}

    def work(thread: int) -> None:
        for length in random.Random(thread).choices(lengths, k=RUNS):
            g.assert_equal(g.run(session, [i32([0]), np.arange(length, dtype=np.int32)]), expected[length])

    at_once(work)


@pytest.mark.parametrize("attempt", range(10))
def test_first_runs_meet(attempt: int) -> None:
    """Threads that all are the first to run a session."""
    session, call = load("collatz"), read(MODELS / "collatz.npz")[0]
    for found in at_once(lambda thread: session.run(call.inputs)):
        assert all(agrees(found[key], call.outputs[key]) for key in found)


def test_no_increment_of_a_counter_is_lost() -> None:
    session = load("counter")
    increment, get = session.signature("increment"), session.signature("get")
    counts = at_once(lambda thread: [int(increment(by=1)["count"]) for _ in range(RUNS)])
    assert sorted(count for each in counts for count in each) == list(range(11, 11 + THREADS * RUNS))
    assert all(each == sorted(each) for each in counts)
    assert get()["count"] == 10 + THREADS * RUNS


def test_errors_disturb_no_other_thread() -> None:
    """Some threads go over the limit, some pass nonsense; only what succeeds moves the state on."""
    session = load("variable_loop", limits=circlet.Limits(max_iterations=4))

    def work(thread: int) -> int:
        done = 0
        for n in random.Random(thread).choices([0, 1, 3, 4, 5, 100], k=RUNS):
            if thread % 4 == 0:
                with pytest.raises(circlet.InputError):
                    session.run({"n": np.float64(n + 0.5)})
            elif n > 4:
                with pytest.raises(circlet.LimitError):
                    session.run({"n": np.int32(n)})
            else:
                session.run({"n": np.int32(n)})
                done += n
        return done

    total = sum(at_once(work))
    assert session.run({"n": np.int32(0)})["turns"] == total


@pytest.mark.parametrize("elide", ELISION)
def test_failing_and_succeeding_runs_of_a_stateless_model(elide: bool) -> None:
    session = load("collatz", elide, circlet.Limits(max_iterations=60))
    alone = load("collatz", elide)

    def work(thread: int) -> None:
        for n in random.Random(thread).choices([1, 7, 18, 27, 97], k=RUNS):
            expected = alone.run({"n": np.int32(n)})
            if n in (27, 97):
                with pytest.raises(circlet.LimitError, match="max_iterations=60"):
                    session.run({"n": np.int32(n)})
            else:
                assert session.run({"n": np.int32(n)}) == expected

    at_once(work)


def test_listeners_hear_their_own_runs_alone() -> None:
    model = g.while_model(g.at_most(9), g.counter, [i32(0)])
    session = circlet.Session(model)

    def work(thread: int) -> None:
        for _ in range(RUNS):
            counter = circlet.Counter()
            session.run([i32(thread)], listener=counter)
            assert counter.invocations == {0: 1, 1: 11 - thread, 2: 10 - thread}

    at_once(work)


def test_sessions_of_one_model() -> None:
    """A model is data: sessions of it share nothing that a run changes."""
    model = circlet.load(MODELS / "counter.tflite")

    def work(thread: int) -> int:
        session = circlet.Session(model)
        return [int(session.signature("increment")(by=thread)["count"]) for _ in range(RUNS)][-1]

    assert at_once(work) == [10 + RUNS * thread for thread in range(THREADS)]
