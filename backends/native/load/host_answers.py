"""What native code asks Python for while it runs: host calls, and whether the run goes on."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np

from circlet.backends.native.abi import PATIENCE, POLL, Control, control_of
from circlet.runtime.exec.watch import Watch
from circlet.runtime.records import dataclass, field

if TYPE_CHECKING:
    from circlet.runtime.exec.step import Step

_HOST_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
"""`i32 host(control*)`."""


@dataclass(eq=False)
class _Requests:
    """What can be asked for, and the error of what was."""

    watch: Watch
    control: Control
    steps: list[Step] = field(default_factory=list)
    """Host calls by number."""
    error: BaseException | None = None

    def answer(self) -> None:
        """Does what the control words ask for."""
        number = self.control.request
        if number == POLL:
            self.control.next = time.monotonic_ns() + PATIENCE
            self.watch.check()
            return
        with np.errstate(all="ignore"):
            self.steps[number]()


class Host:
    """The host as one function that native code calls."""

    def __init__(self, watch: Watch) -> None:
        self._requests = _Requests(watch, control_of(watch))
        self.steps = self._requests.steps
        """Host calls by number."""
        answers = _answers(self._requests)
        next(answers)
        self._callback = _HOST_TYPE(answers.send)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        """Where native code calls it."""

    def take_error(self) -> BaseException | None:
        """What went wrong since this was asked last."""
        error, self._requests.error = self._requests.error, None
        return error


def _answers(requests: _Requests) -> Generator[int, int, None]:
    """Answers one call after another: 0, or 1 if there was an error, which must not pass through native code.

    Python runs signal handlers as it enters a function, before any `try` in it, but a generator goes on inside of one.
    So what a handler raises, KeyboardInterrupt mostly, is an error of the call too.
    """
    status = 0
    while True:
        try:
            while True:
                yield status
                status = 0
                requests.answer()
        except GeneratorExit:
            return
        except BaseException as error:
            requests.error, status = error, 1
