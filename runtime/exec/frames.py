"""Keeps the frames of one run for shapes that come up as it goes on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from circlet.runtime.exec.memory import Room
from circlet.runtime.ir.types import Array, Shape


class Invocable(Protocol):
    """A subgraph bound to memory: write `inputs`, `invoke()`, read `outputs`."""

    @property
    def inputs(self) -> tuple[Array, ...]: ...

    @property
    def outputs(self) -> tuple[Array, ...]: ...

    @property
    def size(self) -> int:
        """Bytes."""
        ...

    def invoke(self) -> None: ...


class FrameCache:
    """The frames of one run for subgraphs whose shapes are known only as they are invoked.

    A loop that appends to what it carries has other shapes in every turn, and the same ones again in the next run.
    """

    MOST = 1 << 12
    LARGEST = 1 << 27
    """Bytes that the frames may own together."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._frames: OrderedDict[tuple[int, tuple[Shape, ...]], Invocable] = OrderedDict()
        self._size = 0

    def get(self, key: tuple[int, tuple[Shape, ...]], make: Callable[[], Invocable]) -> Invocable:
        """The frame of (subgraph, input shapes), made if need be; the least recently used ones go."""
        frame = self._frames.get(key)
        if frame is not None:
            self._frames.move_to_end(key)
            return frame
        frame = self._frames[key] = make()
        self._size += frame.size
        most = self.LARGEST if self._room.most is None else min(self.LARGEST, self._room.most // 4)
        while len(self._frames) > 1 and (self._size > most or len(self._frames) > self.MOST):
            self._size -= self._frames.popitem(last=False)[1].size
        return frame
