"""What a recorder itself takes is nobody's time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from circlet.runtime.exec.observe.recorder import AGAIN, Recorder, Unseen
from circlet.runtime.exec.observe.regions import Kind, Region
from circlet.runtime.exec.observe.unseen import find_unseen
from tests.needs import NATIVE

MAIN, BODY = Region(Kind.SUBGRAPH, 0), Region(Kind.SUBGRAPH, 1)


class Clock:
    """A clock of which each reading takes 10 ns."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 10
        return self.now

    def pass_by(self, nanoseconds: int) -> None:
        self.now += nanoseconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "perf_counter_ns", found)
    return found


@pytest.mark.parametrize(("find", "unseen"), [(find_unseen, 0), (None, 10)], ids=["found", "not found"])
def test_readings_are_subtracted(clock: Clock, find: Callable[[], Unseen] | None, unseen: int) -> None:
    r = Recorder({}, find_unseen=find)

    def body() -> None:
        clock.pass_by(700)
        since = time.perf_counter_ns()
        clock.pass_by(5000)
        r.pause(since)

    def ready(recorder: Recorder) -> None:
        clock.pass_by(6000)

    def code() -> int:
        clock.pass_by(400)
        return 7

    def done(recorder: Recorder, called: int) -> int:
        clock.pass_by(7000)
        return 3

    def main() -> None:
        clock.pass_by(200)
        for _ in range(3):
            r.perform(body, BODY)
        assert r.call(code, ready, done) == 7
        clock.pass_by(100)

    r.start()
    clock.pass_by(50)
    r.perform(main, MAIN)
    r.finish()
    outer = r.root.children[MAIN]
    inner = outer.children[BODY]
    assert (inner.count, inner.own) == (3, 3 * (700 + 2 * unseen))
    assert (outer.count, outer.own) == (1, 300 + 400 + (1 + 3 + 2) * unseen)
    assert r.root.own == 50 + 2 * unseen
    assert r.walls == [r.root.total]
    assert r.readings == [3]


def test_what_is_unseen_is_found_anew(clock: Clock) -> None:
    """Processors do not always work at one speed."""
    found = iter([Unseen(run=100), Unseen(run=200)])
    r = Recorder({}, find_unseen=lambda: next(found))
    for passing in (0, AGAIN // 2, AGAIN // 2):
        clock.pass_by(passing)
        r.start()
        clock.pass_by(1000)
        r.finish()
    assert r.walls == [910, 910, 810]


def test_time_never_goes_back(clock: Clock) -> None:
    r = Recorder({}, find_unseen=find_unseen)
    for _ in range(3):
        r.start()
        for _ in range(5):
            clock.now -= 5  # a region that is quicker than those of the calibration
            r.perform(lambda: None, MAIN)
        r.finish()
    assert r.root.children[MAIN].own >= 0
    assert all(each >= 0 for each in r.walls)
    assert r.root.total == sum(r.walls)


@NATIVE
def test_the_counter_is_read_early_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from circlet.backends.native import counter

    first = counter.early_reading()
    assert counter.early_reading() is first
    monkeypatch.setattr(counter, "_slept", lambda: -1)
    assert counter.early_reading()[0] > first[0]
