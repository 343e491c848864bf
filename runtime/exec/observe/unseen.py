"""Finds out what a recorder takes that its own readings of the clock do not tell."""

from __future__ import annotations

import time
from statistics import median

from circlet.runtime.exec.observe.listener import Observation
from circlet.runtime.exec.observe.observer import Observer
from circlet.runtime.exec.observe.recorder import Recorder, Unseen
from circlet.runtime.exec.step import Step, idle

_TRIED, _WARM_UP = 16, 4
"""Trials, and those before them that do not count: a choice, 0.1 ms of all."""


def find_unseen() -> Unseen:
    """Tries runs that do nothing: plainly, in a region, with a pause, with a call of code; medians."""
    trials = _Trials()
    found = [trials.once() for _ in range(_WARM_UP + _TRIED)][_WARM_UP:]
    return Unseen(*(max(round(median(each)), 0) for each in zip(*found, strict=True)))


class _Trials:
    """Runs of which all that is found is what the recorder takes."""

    def __init__(self) -> None:
        self._recorder = Recorder({})
        observer = Observer(Observation.TIMES)
        observer.tell(self._recorder)
        (self._region,) = observer.invocation([idle], 0)

    def once(self) -> Unseen:
        """One of each kind, one after the other, so that all are made at one speed of the processor."""
        step = _taken(idle)
        (plain, _), (around, inside), (paused, _), (called, _) = map(self._run, (
            idle, self._region, self._pause, self._call))
        return Unseen(plain - step, inside, around - plain, paused - plain, called - plain - step)

    def _run(self, step: Step) -> tuple[int, int]:
        """Nanoseconds of a run that are in no region, and those in one."""
        root = self._recorder.root
        for each in root.walk():
            each.own = 0.0
        self._recorder.start()
        step()
        self._recorder.finish()
        return round(root.own), round(root.total - root.own)

    def _pause(self) -> None:
        self._recorder.pause(time.perf_counter_ns())

    def _call(self) -> None:
        self._enter()

    def _enter(self) -> int:
        return self._recorder.call(_do_nothing, _get_ready, _be_done)


def _taken(step: Step) -> int:
    """Nanoseconds that a step takes."""
    begin = time.perf_counter_ns()
    step()
    end = time.perf_counter_ns()
    return end - begin - (time.perf_counter_ns() - end)


def _do_nothing() -> int:
    return 0


def _get_ready(recorder: Recorder) -> None:
    pass


def _be_done(recorder: Recorder, called: int) -> int:
    return 0
