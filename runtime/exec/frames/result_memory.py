"""Memory that is given to callers with a result in it, and used again once they have let go of that."""

from __future__ import annotations

from functools import partial
from weakref import ref

import numpy as np

from circlet.runtime.exec.run import Run
from circlet.runtime.ir.types import Array

_SLACK = 8
"""One part of so many that there is more than a result needs, as the next one may be a little longer: a choice. What is
never touched takes no memory."""


class _Owner:
    """What all arrays in a piece of memory lead to, and none past it, as it is no array."""

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__


class ResultMemory:
    """Memory for large results: callers have some, the frames of a run have some, and some waits for the next run. That
    which was touched already is worth keeping: the system clears each page before it gives it out."""

    def __init__(self, run: Run, most: int) -> None:
        """
        Args:
            run: whose memory is taken.
            most: how many pieces may wait.
        """
        self._run, self._most = run, most
        self._waiting: list[Array] = []
        self._held: dict[int, ref[_Owner]] = {}
        """What callers have."""

    def take(self, size: int) -> Array:
        """So many bytes at least.

        Raises:
            LimitError: there is not memory enough.
        """
        room = self._run.room
        while self._waiting:
            found = self._waiting.pop()
            if size <= found.nbytes <= 2 * size:
                room.take_back(found)
                return found
        return room.allocate((size + size // _SLACK,), np.dtype(np.uint8))

    def give(self, memory: Array, result: Array) -> Array:
        """A result at the begin of memory that was taken, which is a caller's from here on."""
        self._run.room.release(memory)
        owner = _Owner(memory)
        self._held[id(owner)] = ref(owner, partial(self._returned, id(owner), memory))
        array: Array = np.ndarray(result.shape, result.dtype, np.asarray(owner))
        return array

    def _returned(self, key: int, memory: Array, _: ref[_Owner]) -> None:
        del self._held[key]
        if len(self._waiting) < self._most:
            self._waiting.append(memory)
