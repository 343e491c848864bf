"""What native code asks Python for while it runs: host calls, and whether the run goes on."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from circlet.backends.native.abi import FIRST_NOTICE, PATIENCE, POLL, Control, control_of
from circlet.backends.native.parts import HostCall, Told
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.memory import retype
from circlet.runtime.exec.watch import Watch
from circlet.runtime.ir.types import Array, DType, Shape

if TYPE_CHECKING:
    from circlet.runtime.exec.executor import Executor
    from circlet.runtime.exec.run import Run
    from circlet.runtime.exec.step import Step

MOST_STEPS = 16
"""For how many requests the bound kernel is kept: loops change between a few buffers. A choice."""
_HOST_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
"""`i32 host(control*)`."""
_FIRST = _HOST_TYPE(lambda control: 0)
"""Nobody calls it. The first function of a process that native code may call takes the system 0.2 ms, in which it makes
memory for code; the import takes them, rather than a first run."""


class _Requests:
    """What can be asked for, and the error of what was."""

    def __init__(self, watch: Watch, control: Control) -> None:
        self.watch, self.control = watch, control
        self.steps: list[Step] = []
        """Host calls by number."""
        self.notices: list[Step] = []
        """Warnings by number."""
        self.error: BaseException | None = None

    def answer(self) -> None:
        """Does what the control words ask for."""
        number = self.control.request
        if number == POLL:
            self.control.next = time.monotonic_ns() + PATIENCE
            self.watch.check()
            return
        if number <= FIRST_NOTICE:
            self.notices[FIRST_NOTICE - number]()
            return
        with np.errstate(all="ignore"):
            self.steps[number]()


class Host:
    """The host as one function that native code calls."""

    def __init__(self, watch: Watch) -> None:
        self._requests = _Requests(watch, control_of(watch))
        self.steps = self._requests.steps
        """Host calls by number."""
        self.notices = self._requests.notices
        """Warnings by number."""
        answers = _answers(self._requests)
        next(answers)
        self._callback = _HOST_TYPE(answers.send)
        self.address = ctypes.c_void_p.from_buffer(self._callback).value or 0
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


class OpenHostCall:
    """The numpy kernel of an operator on the buffers of a request; bound anew where these, or their shapes, differ."""

    def __init__(self, call: HostCall, request: Array, executor: Executor, run: Run) -> None:
        """
        Args:
            call: of which operator.
            request: where the code tells of tensors; lengths that the kernel computes are written there.
            executor: of the subgraph.
            run: that is served.
        """
        self._operator = call.operator
        self._inputs = [each if isinstance(each, Told) else None for each in call.inputs]
        self._outputs = [each for each in call.outputs if isinstance(each, Told)]
        self._is_late = any(each.is_late for each in self._outputs)
        self._request, self._executor, self._run = request, executor, run
        self._steps: dict[bytes, Step] = {}

    def __call__(self) -> None:
        said = self._request.tobytes()
        step = self._steps.get(said)
        if step is None:
            step = self._bound()
            if self._is_late:
                step()
                return
            if len(self._steps) == MOST_STEPS:
                self._steps.clear()
            self._steps[said] = step
        step()

    def _bound(self) -> Step:
        """What computes the request that there is."""
        words = iter(self._request.tolist())
        inputs = [None if each is None else _array(next(words), _shape(words, each), each.dtype)
                  for each in self._inputs]
        outputs = [(each, next(words), _shape(words, each)) for each in self._outputs]
        if not self._is_late:
            return self._executor.bind(self._operator, inputs, [_array(place, shape, each.dtype)
                                                                for each, place, shape in outputs], self._run)
        return partial(self._compute, inputs, outputs)

    def _compute(self, inputs: Sequence[Array | None], outputs: Sequence[tuple[Told, int, Shape]]) -> None:
        """Computes results of shapes that hang on values, where there is room for them, and says what these are."""
        shapes = self._executor.shapes(self._operator, inputs)
        made = None if shapes is not None else self._executor.evaluate(self._operator, inputs, self._run)
        shapes = shapes or tuple(each.shape for each in made or ())
        first = len(self._request) - sum(1 + each.rank for each, _, _ in outputs)
        is_room = True
        for shape, (told, _, most) in zip(shapes, outputs, strict=True):
            is_room = _fits(shape, told, most) and is_room
            self._request[first + 1:first + 1 + told.rank] = shape
            first += 1 + told.rank
        if not is_room:
            return
        arrays = [_array(place, shape, each.dtype) for shape, (each, place, _) in zip(shapes, outputs, strict=True)]
        if made is None:
            self._executor.bind(self._operator, inputs, arrays, self._run)()
        else:
            for target, source in zip(arrays, made, strict=True):
                np.copyto(target, source)


def _fits(shape: Shape, told: Told, most: Shape) -> bool:
    """Whether there is room for a result.

    Raises:
        ExecutionError: nor can there be any.
    """
    if len(shape) != told.rank or any(size > limit for axis, (size, limit) in enumerate(zip(shape, most, strict=True))
                                      if axis not in told.growing):
        raise ExecutionError(f"the result has shape {shape}, expected at most {most}")
    return all(size <= limit for size, limit in zip(shape, most, strict=True))


def _shape(words: Iterator[int], told: Told) -> Shape:
    """The shape that the next words say."""
    return tuple(next(words) for _ in range(told.rank))


class _Memory:
    """Bytes at an address, as numpy asks for them."""

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (address, False)}


def _array(address: int, shape: Shape, dtype: DType) -> Array:
    """The tensor at an address."""
    size = prod(shape) * dtype.numpy.itemsize
    return retype(np.asarray(_Memory(address, size)), shape, dtype.numpy) if size else np.empty(shape, dtype.numpy)
