"""A compiled function for any lengths, bound to buffers that change with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circlet.backends.native.abi import DONE, FIRST_ARRAY, OUTGROWN, SCRATCH
from circlet.backends.native.load.invocation import LOCKED, CountedInvocation, Invocation, Setting
from circlet.backends.native.load.manifest import Manifest
from circlet.backends.native.load.store import Function
from circlet.backends.native.load.team import Teams
from circlet.backends.native.parts import Held, OpenLengths
from circlet.runtime.exec.memory import address
from circlet.runtime.exec.step import OutgrownError, Step
from circlet.runtime.ir.terms import Assumption, Terms
from circlet.runtime.ir.types import Array


def needs_of(manifest: Manifest) -> tuple[Terms, ...]:
    """The bytes of the memory that each thread has for itself, the work, and the bytes that the arena has at the
    least."""
    return manifest.scratch_bytes, manifest.work, *manifest.arena_tops


class OpenInvocation(Invocation):
    """A function for any lengths, on buffers that change with them."""

    def __init__(self, function: Function, setting: Setting, teams: Teams) -> None:
        super().__init__(function, setting, teams)
        manifest = function.manifest
        self._held = [(FIRST_ARRAY + number, each.tensor) for number, each in enumerate(manifest.origins)
                      if isinstance(each, Held)]
        self._memory: list[object] = [None] * len(self._held)
        """What owns the memory of each, at whose begin a buffer lies whatever its length is."""
        self._symbols = [array for array, each in zip(self._arrays, manifest.origins, strict=True)
                         if isinstance(each, OpenLengths)]
        self._writable = [each.data for each in self._symbols]
        """The same, whose elements are written sooner."""
        self.needs = needs_of(manifest)
        self._grows = manifest.grows
        self._teams = teams
        self._room = self._arena.nbytes, self._scratch.nbytes
        """The bytes of both."""
        self._keeps_lock = False

    def _sizes(self) -> tuple[int, int]:
        return 0, 0  # `expect` says more

    def _bind_entry(self, teams: Teams) -> None:
        self._steps: list[Step | None] = [None, None]
        """What runs it with the memory that it has, without Python's lock and with it."""

    @property
    def assumptions(self) -> Sequence[Assumption]:
        return self._function.manifest.assumptions

    def expect(self, sizes: Sequence[int]) -> None:
        self._keeps_lock = sizes[1] <= LOCKED
        size, scratch = max(sizes[2:], default=0), sizes[0] * self._teams.participants
        if size > self._room[0] or scratch > self._room[1]:
            self._grow(size, scratch)

    def resize(self, lengths: tuple[int, ...], arrays: Mapping[int, Array]) -> Step:
        self._lengths = lengths
        for each in self._writable:
            for number, length in enumerate(lengths):
                each[number] = length
        for number, (position, tensor) in enumerate(self._held):
            array = arrays[tensor]
            if array.base is None or array.base is not self._memory[number]:
                self._table[position], self._memory[number] = address(array), array.base
        found = self._steps[self._keeps_lock]
        if found is None:
            self._enter = self._entry(self._teams, self._keeps_lock)
            found = self._steps[self._keeps_lock] = self.step()
        return found

    def step(self) -> Step:
        if not self._grows:
            return super().step()
        enter, fail, control = self._enter, self._fail, self._control

        def step() -> None:
            turns = control.iterations
            status = enter()
            if status == OUTGROWN:
                control.iterations = turns
                self._outgrew()
                raise OutgrownError(self._all_lengths())
            if status != DONE:
                fail(status)

        return step

    @property
    def lengths(self) -> Sequence[int]:
        return self._symbols[0].tolist() if self._symbols else self._lengths

    def _outgrew(self) -> None:
        """The function is called again with more room, for the same run."""

    def _grow(self, arena: int, scratch: int) -> None:
        """Takes memory for so many bytes at least."""
        grown = self._run.room.grown
        if arena > self._arena.nbytes:
            self._arena = grown(self._arena.nbytes, arena, self._grows)
        if scratch > self._scratch.nbytes:
            self._scratch = grown(self._scratch.nbytes, scratch, self._grows)
        self._room = self._arena.nbytes, self._scratch.nbytes
        self._table[SCRATCH] = self._scratch.ctypes.data
        self._steps = [None, None]


class CountedOpenInvocation(CountedInvocation, OpenInvocation):
    """The same, which counts what it does, for a listener."""

    def step(self) -> Step:
        uncounted = OpenInvocation.step(self)

        def step() -> None:
            try:
                uncounted()
            except OutgrownError:
                self._counts[:] = 0  # all is done again
                raise

        return self.counting(step)
