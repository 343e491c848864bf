"""Whether the runs of a session are timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from circlet.runtime.errors import InputError

if TYPE_CHECKING:
    from circlet.runtime.exec.observe.recorder import Recorder

T = TypeVar("T")


class Recording:
    """What times the runs of a session, while somebody wants that."""

    def __init__(self) -> None:
        self.recorder: Callable[[], Recorder] | None = None
        """What gives the recorder of the thread that asks."""

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
