"""What a function knows of the threads that share out its loops; `parallel.py` shares them out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from llvmlite import ir

from circlet.backends.native.emit.polling import Meter
from circlet.runtime.ir.length import bound, larger
from circlet.runtime.ir.types import ALIGNMENT
from circlet.runtime.records import dataclass


class Fallible(Protocol):
    """A function that takes turns of a loop."""

    may_fail: bool
    """Whether it can return anything but 0; its turns are then taken in order, so that the first error is found."""


@dataclass(eq=False)
class Sharing:
    """How a function shares out loops.

    Attributes:
        team: the address of the team, or null: its first word is where to fork.
        scratch: the memory that the first participant has for itself.
        meter: what parts take; it makes them look whether they must stop.
        leave_unless_done: leaves the function unless a status, an i32, is 0.
        top: how much of that memory is in use.
        most: how much of it ever is.
        is_used: whether any loop is shared out.
        part: the one that is being written.
        timed: times what is written inside of a part, given the number of the thread.
        exit: the block of the function that what leaves it goes through, if something outside of parts does.
    """

    team: ir.Value
    scratch: ir.Value
    meter: Meter
    leave_unless_done: Callable[[ir.Value], None]
    top: int = 0
    most: int = 0
    is_used: bool = False
    part: Fallible | None = None
    timed: Callable[[ir.Value], AbstractContextManager[None]] = nullcontext
    exit: ir.Block | None = None

    def reserve(self, size: int) -> int:
        """Where `size` bytes are that each participant has for itself, until `top` is reset."""
        offset, size = self.top, bound(size)
        self.top += -(-size // ALIGNMENT) * ALIGNMENT
        self.most = larger(self.most, self.top)
        return offset
