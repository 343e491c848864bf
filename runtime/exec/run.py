"""What one run of a session shares among all the frames it passes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from circlet.runtime.exec.frames.cache import FrameCache
from circlet.runtime.exec.limits import Limits
from circlet.runtime.exec.memory import Room
from circlet.runtime.exec.observe.listener import Listener, Observation
from circlet.runtime.exec.observe.observer import SILENT, Observer
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.exec.watch import Watch
from circlet.runtime.ir.model import Model
from circlet.runtime.late import LOADING

MOST_FRAMES = 1 << 11
"""How many frames are bound for one run. What is left is bound as it is invoked, which takes less memory."""


class Run:
    """One run in progress, or waiting to be used again."""

    def __init__(self, variables: Variables, observer: Observer | None = None) -> None:
        self.variables = variables
        self.observer = observer or Observer()
        self.watch = Watch()
        """Whether the run may go on."""
        self.room = Room()
        """For the buffers of the run."""
        self.frames = FrameCache(self.room)
        self._bound = 0
        self._listener: Listener | None = None

    def start(self, limits: Limits, listener: Listener | None = None) -> None:
        """Begins a run under the given limits."""
        if listener is not self._listener:
            self._listener = listener
            self.observer.tell(listener or SILENT)
        if self.room.most != limits.memory:
            self.room.limit(limits.memory)
        watch = self.watch
        if limits is watch.lasting:
            watch.cancelled = False
            watch.control.stop = 0
        else:
            watch.start(limits)

    @contextmanager
    def binding(self) -> Iterator[None]:
        """Counts a frame, and those that are bound within it, until it is bound."""
        is_first = self._bound == 0
        self._bound += 1
        try:
            yield
        finally:
            if is_first and not self.is_crowded:
                self._bound = 0

    @property
    def is_crowded(self) -> bool:
        """Whether no more subgraphs are to be bound ahead: where each invokes the next one twice, they multiply."""
        return self._bound >= MOST_FRAMES


def observed_run(variables: Variables, observation: Observation, model: Callable[[], Model]) -> Run:
    """A run that reports so much; the model is given as it was before passes."""
    if observation is not Observation.VALUES:
        return Run(variables, Observer(observation))
    with LOADING:
        from circlet.runtime.exec.observe.values import ValueObserver

    return Run(variables, ValueObserver(model()))
