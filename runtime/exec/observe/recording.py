"""Whether the runs of a session are timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from circlet.runtime.errors import InputError
from circlet.runtime.exec.observe.listener import Observation

if TYPE_CHECKING:
    from circlet.runtime.exec.frames.pool import FramePool
    from circlet.runtime.exec.observe.recorder import Recorder
    from circlet.runtime.ir.types import Shape

T = TypeVar("T")


class Recording:
    """What times the runs of a session, while somebody wants that."""

    def __init__(self, frames: FramePool) -> None:
        """
        Args:
            frames: those of the session.
        """
        self._frames = frames
        self.recorder: Callable[[], Recorder] | None = None
        """What gives the recorder of the thread that asks."""
        self.bound: dict[int, tuple[Shape, ...]] = {}
        """The shapes of the inputs of subgraphs that a caller bound and that were timed."""

    @property
    def shapes(self) -> dict[int, tuple[Shape, ...]]:
        """The shapes of the inputs of the subgraphs that timed runs began with, those of the latest one; without
        subgraphs of which no run succeeded."""
        return {**self.bound, **dict(reversed(self._frames.shapes(Observation.TIMES.value)))}

    @contextmanager
    def into(self, recorder: Callable[[], Recorder]) -> Iterator[None]:
        """Times the runs that begin inside, with what `recorder` gives to their threads.

        Raises:
            InputError: they are timed already.
        """
        if self.recorder is not None:
            raise InputError("the runs of the session are timed already")
        self.recorder = recorder
        try:
            yield
        finally:
            self.recorder = None

    def run(self, run: Callable[[Recorder], T]) -> T:
        """Does a run, timed."""
        assert self.recorder is not None, "runs are timed"
        recorder = self.recorder()
        recorder.start()
        try:
            return run(recorder)
        finally:
            recorder.finish()
