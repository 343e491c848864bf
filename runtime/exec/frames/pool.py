"""Keeps bound frames between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from circlet.runtime.exec.frames.cache import Key
from circlet.runtime.ir.types import Shape

if TYPE_CHECKING:
    from circlet.runtime.exec.preparation import EntryFrame, OpenEntryFrame
    from circlet.runtime.exec.values.inputs import Entry

KINDS = 8
"""For how many keys frames are kept."""
SPARES = 8
"""How many frames are kept for a key."""


class FramePool:
    """Frames that no run uses at present; threads may take and give back at once. There is no lock, which a fork could
    find taken."""

    def __init__(self) -> None:
        self._idle: dict[Key, list[EntryFrame]] = {}
        self._open: dict[tuple[int, str], list[OpenEntryFrame]] = {}
        self.latest: list[EntryFrame] = []
        """The one for any lengths that was given back last. It too may be taken and given back without a key, if it
        `serves` one."""
        self._kinds = KINDS
        self.direct: dict[Entry, list[EntryFrame]] = {}
        """For entry points, the idle frames at the declared shapes, to be taken and given back without a key; no more
        than `SPARES` are kept."""

    def take(self, key: Key) -> EntryFrame | None:
        """A frame for a key, which is then the caller's; None if there is none."""
        if self.latest:
            try:
                latest = self.latest.pop().opened
            except IndexError:  # another thread was faster
                latest = None
            if latest is not None:
                served = latest.served
                if served == key:
                    latest.is_settled = True
                    return latest
                if served[::2] == key[::2] and latest.takes(key[1]):
                    latest.asked = key[1]
                    return latest
                self._give_open(served, latest)
        idle = self._idle.get(key)
        if idle is None and self._open:
            return self._take_open(key)
        try:
            return idle.pop() if idle else None
        except IndexError:
            return None

    def _take_open(self, key: Key) -> OpenEntryFrame | None:
        subgraph, shapes, observed = key
        idle = self._open.get((subgraph, observed))
        if not idle:
            return None
        try:
            latest = idle.pop()
        except IndexError:  # another thread was faster
            return None
        if latest.takes(shapes):
            latest.asked = shapes
            return latest
        idle.append(latest)
        for frame in idle.copy():
            if frame.takes(shapes):
                try:
                    idle.remove(frame)
                except ValueError:  # another thread was faster
                    continue
                frame.asked = shapes
                return frame
        return None

    def _give_open(self, key: Key, frame: OpenEntryFrame) -> None:
        if self._kinds:
            idle = self._open.get((key[0], key[2]))
            if idle is None:
                idle = self._open.setdefault((key[0], key[2]), [])
            idle.append(frame)
            if len(idle) > KINDS * SPARES:
                del idle[:len(idle) - KINDS * SPARES]

    def give(self, key: Key, frame: EntryFrame) -> None:
        """Keeps a frame for later; the keys made longest ago lose theirs first."""
        opened = frame.opened
        if opened is not None:
            opened.served = key
            if self.latest or not self._kinds:
                self._give_open(key, opened)
            else:
                self.latest.append(opened)
            return
        idle = self._idle.get(key)
        if idle is None:
            idle = self._idle.setdefault(key, [])
            for each in list(self._idle)[:max(len(self._idle) - self._kinds, 0)]:
                self._idle.pop(each, None)
                self.direct.clear()
        if len(idle) < SPARES:
            idle.append(frame)

    def enter(self, entry: Entry) -> None:
        """From here on `direct` has the frames of an entry point, if there are any."""
        if entry not in self.direct and not entry.is_open:
            idle = self._idle.get(entry.key)
            if idle is not None and all([each.is_direct for each in idle]):
                if len(self.direct) >= KINDS:
                    self.direct.clear()
                self.direct[entry] = idle

    def shapes(self, observed: str) -> list[tuple[int, tuple[Shape, ...]]]:
        """The subgraphs, each with input shapes, that frames are kept for which report so much; latest first."""
        latest = [each.opened.served for each in tuple(self.latest) if each.opened is not None]
        opened = [(subgraph, each.asked, kind) for (subgraph, kind), idle in list(self._open.items())
                  for each in reversed(tuple(idle))]
        return [(subgraph, shapes) for subgraph, shapes, kind in (*latest, *opened, *reversed(list(self._idle)))
                if kind == observed]

    def close(self) -> None:
        """Lets go of all frames, and keeps none from here on."""
        self._kinds = 0
        self.direct.clear()
        self._idle.clear()
        self._open.clear()
        self.latest.clear()
