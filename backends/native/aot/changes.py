"""What of the state a run may have written when it fails, which is to be as it was before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from circlet.backends.native.aot.storage import Region


class Changes:
    """The parts of the state that a function writes, and where it may fail, in the order in which it is written; that
    is the order in which it runs, but for loops."""

    def __init__(self) -> None:
        self._time = 0
        self._failed = 0
        """When the function may fail last."""
        self._written: dict[Region, int] = {}
        """When parts are written first."""
        self._loops = False

    def write(self, region: Region) -> None:
        """The function writes a part, here or later."""
        self._time += 1
        self._written.setdefault(region, self._time)

    def fail(self) -> None:
        """The function may fail here."""
        self._time += 1
        self._failed = self._time

    def loop(self) -> None:
        """The operator that is being written repeats what is written for it."""
        self._loops = True

    @contextmanager
    def operator(self) -> Iterator[None]:
        """What is written inside is an operator: one that is repeated may fail after whatever it wrote."""
        begin, outer, self._loops = self._time, self._loops, False
        yield
        if self._loops and self._failed > begin:
            self.fail()
        self._loops |= outer

    @property
    def regions(self) -> Sequence[Region]:
        """What may have been written before the function fails."""
        return joined(each for each, time in self._written.items() if time < self._failed)

    @property
    def written(self) -> Sequence[Region]:
        """All that the function writes."""
        return list(self._written)


def joined(regions: Iterable[Region]) -> Sequence[Region]:
    """Parts in order, each once; what lies side by side is one."""
    found: list[Region] = []
    for each in sorted(set(regions), key=lambda each: each.offset):
        if found and found[-1].offset + found[-1].size == each.offset:
            found[-1] = Region(found[-1].offset, found[-1].size + each.size)
        else:
            found.append(each)
    return found
