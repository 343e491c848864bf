"""What a recorder itself takes is nobody's time."""

from __future__ import annotations

import time

import pytest

from circlet.runtime.exec.observe.recorder import Recorder
from circlet.runtime.exec.observe.regions import Kind, Region

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


def recorder(is_calibrated: bool) -> Recorder:
    found = Recorder({})
    if is_calibrated:
        found.calibrate()
    return found


@pytest.mark.parametrize(("is_calibrated", "unseen"), [(True, 0), (False, 10)])
def test_readings_are_subtracted(clock: Clock, is_calibrated: bool, unseen: int) -> None:
    r = recorder(is_calibrated)

    def body() -> None:
        clock.pass_by(700)
        since = time.perf_counter_ns()
        clock.pass_by(5000)
        r.pause(since)

    def main() -> None:
        clock.pass_by(200)
        for _ in range(3):
            r.perform(body, BODY)
        clock.pass_by(100)

    r.start()
    clock.pass_by(50)
    r.perform(main, MAIN)
    r.finish()
    outer = r.root.children[MAIN]
    inner = outer.children[BODY]
    assert (inner.count, inner.own) == (3, 3 * (700 + 2 * unseen))
    assert (outer.count, outer.own) == (1, 300 + (1 + 3) * unseen)
    assert r.root.own == 50 + 10 + unseen, "a run begins and ends by readings of its own"
    assert r.walls == [r.root.total]


def test_time_never_goes_back(clock: Clock) -> None:
    r = recorder(is_calibrated=True)
    for _ in range(3):
        r.start()
        for _ in range(5):
            clock.now -= 5  # a region that is quicker than those of the calibration
            r.perform(lambda: None, MAIN)
        r.finish()
    assert r.root.children[MAIN].own >= 0
    assert all(each >= 0 for each in r.walls)
    assert r.root.total == sum(r.walls)
