"""The interface of compiled code: `i32 entry(control*, arena*, table*)`.

`control` is a `Control`: words of 64 bits, whatever an address takes. `arena` holds what the function computes, at
offsets known when code is made. `table` holds addresses, as wide as the target's.
"""

from __future__ import annotations

import ctypes

from circlet.runtime.exec.watch import Watch

_WORDS = ("iterations", "stop", "team", "request", "deadline", "next", "arena")
"""The words of a control, in order."""
ITERATIONS, STOP, TEAM, REQUEST, DEADLINE, NEXT, ARENA = range(len(_WORDS))
"""Where each word of a control lies, in units of 8 bytes."""


class Control(ctypes.Structure):
    """The words that compiled code and Python share in a run, 64 bits each, in the order of `_WORDS`."""

    iterations: int
    """How many are left."""
    stop: int
    """Whether to stop, 0 or 1."""
    team: int
    """The address of the team of threads; 0 if there is none."""
    request: int
    """What the host is asked for."""
    deadline: int
    """When the run must have ended, in nanoseconds of the monotonic clock."""
    next: int
    """When Python is to be asked whether the run goes on, by the same clock; 0 before the first look."""
    arena: int
    """The address of the arena, for the host."""
    _fields_ = [(each, ctypes.c_int64) for each in _WORDS]

    @property
    def address(self) -> int:
        """Where it lies, for compiled code."""
        return ctypes.addressof(self)


def control_of(watch: Watch) -> Control:
    """The control of a run where compiled code finds it."""
    found = watch.control
    return found if isinstance(found, Control) else watch.move(Control())


DONE, STOPPED, OUTGROWN, FIRST_SITE = 0, 1, 2, 16
"""What the function returns: it is done, was told to stop, has no room for a length, or failed at site `k - 16`."""
CONTROL_BYTES = ctypes.sizeof(Control)
"""Of a control."""
SCRATCH, HOST, FIRST_ARRAY = 0, 1, 2
"""The table: memory for each participant, what the host is called by, and arrays."""
POLL = -1
"""What the host is asked for to see whether the run goes on."""
FIRST_NOTICE = -2
"""What it is asked for to warn of what notice 0 says, and further down of others; else the number of a host call."""
PATIENCE = 50_000_000
"""Nanoseconds after which compiled code asks Python, so that its signal handlers run: 50 ms, half of the 0.1 s that a
user takes for at once. A choice."""
