"""Keeps the frames of one run for shapes that come up as it goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeAlias

from circlet.runtime.exec.memory import Room
from circlet.runtime.ir.types import Array, Shape

Key: TypeAlias = tuple[int, tuple[Shape, ...], str]
"""Subgraph, input shapes, and what is observed."""


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


class Resizable(ABC):
    """A subgraph bound to memory for inputs of changing shapes."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes."""

    @abstractmethod
    def invoke(self) -> None:
        """Runs the subgraph once."""

    @abstractmethod
    def takes(self, shapes: tuple[Shape, ...]) -> bool:
        """Whether it is for inputs of these shapes."""

    @abstractmethod
    def resize(self, shapes: tuple[Shape, ...]) -> None:
        """Makes its inputs arrays of other shapes, which it takes."""


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
        self._resizable: dict[int, list[Resizable]] = {}
        self._size = 0

    def get(self, key: tuple[int, tuple[Shape, ...]],
            make: Callable[[], Invocable | Resizable]) -> Invocable | Resizable:
        """The frame of (subgraph, input shapes), made if need be; the least recently used ones go."""
        frame = self._frames.get(key)
        if frame is not None:
            self._frames.move_to_end(key)
            return frame
        index, shapes = key
        for each in self._resizable.get(index, ()):
            if each.takes(shapes):
                each.resize(shapes)
                return each
        frame = make()
        if isinstance(frame, Resizable):
            self._resizable.setdefault(index, []).append(frame)
            return frame
        self._frames[key] = frame
        self._size += frame.size
        most = self.LARGEST if self._room.most is None else min(self.LARGEST, self._room.most // 4)
        while len(self._frames) > 1 and (self._size > most or len(self._frames) > self.MOST):
            self._size -= self._frames.popitem(last=False)[1].size
        return frame
