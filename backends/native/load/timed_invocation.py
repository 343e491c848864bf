"""Compiled functions that time themselves, and what becomes of their times in the tree of a recorder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from circlet.backends.native.load.invocation import Invocation, Setting
from circlet.backends.native.load.open_invocation import OpenInvocation
from circlet.backends.native.load.store import Function
from circlet.backends.native.load.team import Teams
from circlet.backends.native.load.timed_regions import TimedRegions
from circlet.backends.native.parts import HostCall, RegionTimes, TurnTimes
from circlet.backends.native.timed import (
    CALLS,
    CAPACITY,
    ENTERED,
    EVENT,
    EVENTS,
    FEWEST,
    HEAD,
    LOOP,
    REGION,
    USED,
)
from circlet.runtime.exec.observe.recorder import Called, Recorder
from circlet.runtime.exec.observe.regions import Node
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array

MOST_AT_ONCE = 1 << 14
"""Events of one call for which there is room."""


class TimedInvocation(Invocation):
    """A function that times its regions, for a recorder."""

    def __init__(self, function: Function, setting: Setting, teams: Teams) -> None:
        regions = function.manifest.regions
        loops = sum(each.loop >= 0 for each in regions)
        self._regions = TimedRegions(regions)
        self._words = np.zeros(HEAD + REGION * len(regions), np.int64)
        self._turns = np.zeros(LOOP * max(loops, 1), np.int64)
        self._events = np.zeros((0, EVENT), np.int64)
        self._node: Node | None = None
        self._recorder: Recorder | None = None
        super().__init__(function, setting, teams)
        self._clear()

    def _clear(self) -> None:
        self._words[HEAD:] = 0
        self._words[CALLS] = 0
        self._turns[:] = 0
        self._turns[FEWEST::LOOP] = np.iinfo(np.int64).max

    def _times(self, origin: RegionTimes | TurnTimes) -> Array:
        return self._words if isinstance(origin, RegionTimes) else self._turns

    def _entry(self, teams: Teams, keeps_lock: bool) -> Callable[[], int]:
        enter = super()._entry(teams, keeps_lock)
        observer, get_ready, is_done = self._run.observer, self._get_ready, self._is_done

        def timed() -> int:
            return observer.recorder.call(enter, get_ready, is_done)

        return timed

    def _get_ready(self, recorder: Recorder) -> None:
        if recorder.top is not self._node:
            self._turn_to(recorder)
        self._words[USED] = 0

    def _is_done(self, recorder: Recorder, called: int) -> int:
        """Takes the times of a call; gives how often the function read the counter."""
        recorder.rate.note(called, int(self._words[ENTERED]))
        if self._words[CAPACITY]:
            self._keep_events(recorder, recorder.called(called))
        return int(self._words[USED])

    def _turn_to(self, recorder: Recorder) -> None:
        """From here on times are of what another call path leads to."""
        self.gather()
        self._node, self._recorder = recorder.top, recorder
        recorder.gathers(id(self), self.gather)
        capacity = min(recorder.most_events, MOST_AT_ONCE)
        if len(self._events) != capacity:
            self._events = np.zeros((capacity, EVENT), np.int64)
        self._words[CAPACITY], self._words[EVENTS] = capacity, self._events.ctypes.data

    def gather(self) -> None:
        """Gives the recorder what was found since this was done last."""
        if self._node is None or self._recorder is None or not self._words[CALLS]:
            return
        words = self._words[HEAD:].reshape(-1, REGION)
        self._recorder.found(partial(
            self._regions.settle, self._node, self._recorder, int(self._words[CALLS]), words.copy(),
            self._turns.reshape(-1, LOOP).copy()))
        self._clear()

    def _keep_events(self, recorder: Recorder, called: Called) -> None:
        """Keeps single regions of a call."""
        assert self._node is not None, "it was said what the call path is"
        count, entered = int(self._words[USED]), int(self._words[ENTERED])
        kept: NDArray[np.int64] = self._events[1:min(count, len(self._events))]
        self._regions.keep(self._node, recorder, called, entered, kept.tolist())
        recorder.dropped += max(count - len(self._events), 0)

    def _bind_host(self, call: HostCall, setting: Setting) -> Step:
        step, path = super()._bind_host(call, setting), self._regions.path(call.region)
        observer = self._run.observer

        def timed() -> None:
            recorder = observer.recorder
            recorder.visit(path)
            step()
            recorder.come_back()

        return timed


class TimedOpenInvocation(TimedInvocation, OpenInvocation):
    """The same for any lengths."""

    def _outgrew(self) -> None:
        """Both calls are one: other counts are added up where the function ends."""
        self._words[CALLS] -= 1
