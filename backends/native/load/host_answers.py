"""What native code asks Python for while it runs: host calls, and whether the run goes on."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from circlet.backends.native.abi import POLL, REQUEST
from circlet.runtime.exec.activation import Activation
from circlet.runtime.exec.kernel import Step

_HOST_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


@dataclass(eq=False)
class _Requests:
    """What can be asked for, and the error of what was."""

    activation: Activation
    steps: list[Step] = field(default_factory=list)
    """Host calls by number."""
    error: BaseException | None = None

    def answer(self) -> None:
        """Does what the control words ask for."""
        number = int(self.activation.control[REQUEST])
        if number == POLL:
            self.activation.go_on()
            return
        with np.errstate(all="ignore"):
            self.steps[number]()


class Host:
    """The host as one function that native code calls."""

    def __init__(self, activation: Activation) -> None:
        self._requests = _Requests(activation)
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
