"""The processor's counter, which functions that are timed read, as Python reads it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import lru_cache

from llvmlite import ir

from circlet.backends.native.emit.emitter import I64, Emitter
from circlet.backends.native.load.llvm import host, link, object_code
from circlet.backends.native.lower.passes import Passes
from circlet.backends.native.lower.pieces import Piece

_NAME = "circlet_counter"
_TRIES = 9
"""Readings of which the quickest counts, as the others may have been interrupted: a choice."""
_SLEEP = 100_000_000
"""Nanoseconds; shorter sleeps are not noticed: a choice."""
_BASELINE = 2_000_000
"""Nanoseconds. A function is entered within 2 us of when Python calls it; so ticks are known to 0.1 %."""


@lru_cache(1)
def counter() -> Callable[[], int]:
    """What reads it."""
    target = host()
    module = ir.Module(_NAME)
    module.triple, module.data_layout = target.triple, target.data_layout
    function = ir.Function(module, ir.FunctionType(I64, []), _NAME)
    e = Emitter(module, function, target)
    e.builder.ret(target.read_counter(e))
    library = link([object_code(Piece(str(module), Passes.NONE), target)], _NAME)
    enter = ctypes.CFUNCTYPE(ctypes.c_int64)(library.address)

    def read() -> int:
        assert library.address, "the code stays as long as what reads it"
        found: int = enter()
        return found

    return read


def early_reading() -> tuple[int, int]:
    """A time of `perf_counter_ns`, and the counter's value then: so long ago that any later reading tells how long a
    tick is. It is taken once, and anew when the machine has slept."""
    return _early_reading(_slept())


def _slept() -> int:
    """For how long the machine has slept, in units of 0.1 s, where Linux tells: its clock stops then, the counter may
    go on."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return 0 if clock is None else (time.clock_gettime_ns(clock) - time.monotonic_ns() + _SLEEP // 2) // _SLEEP


@lru_cache(1)
def _early_reading(slept: int) -> tuple[int, int]:
    read = counter()
    _, at, tick = min(_reading(read) for _ in range(_TRIES))
    while time.perf_counter_ns() < at + _BASELINE:
        pass  # a processor that slept would be slower in what comes next
    return at, tick


def _reading(read: Callable[[], int]) -> tuple[int, int, int]:
    """How long a reading took, the time in its middle, and what was read."""
    begin = time.perf_counter_ns()
    tick = read()
    end = time.perf_counter_ns()
    return end - begin, (begin + end) // 2, tick
