"""Keeps bound frames between runs."""

from __future__ import annotations

from typing import TypeAlias

from circlet.runtime.exec.frame import Frame
from circlet.runtime.ir.types import Shape

Key: TypeAlias = tuple[int, tuple[Shape, ...], str]
"""Subgraph, input shapes, and what is observed."""

KINDS = 8
"""For how many keys frames are kept."""
SPARES = 8
"""How many frames are kept for a key."""


class FramePool:
    """Frames that no run uses at present; threads may take and give back at once. There is no lock, which a fork could
    find taken."""

    def __init__(self) -> None:
        self._idle: dict[Key, list[Frame]] = {}
        self._kinds = KINDS

    def take(self, key: Key) -> Frame | None:
        """A frame for a key, which is then the caller's; None if there is none."""
        idle = self._idle.get(key)
        try:
            return idle.pop() if idle else None
        except IndexError:
            return None

    def give(self, key: Key, frame: Frame) -> None:
        """Keeps a frame for later; the keys made longest ago lose theirs first."""
        idle = self._idle.get(key)
        if idle is None:
            idle = self._idle.setdefault(key, [])
            for each in list(self._idle)[:max(len(self._idle) - self._kinds, 0)]:
                self._idle.pop(each, None)
        if len(idle) < SPARES:
            idle.append(frame)

    def close(self) -> None:
        """Lets go of all frames, and keeps none from here on."""
        self._kinds = 0
        self._idle.clear()
