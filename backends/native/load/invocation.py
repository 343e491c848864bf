"""A compiled function bound to the buffers of a frame."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from circlet.backends.native.abi import DONE, FIRST_ARRAY, FIRST_SITE, STOPPED, control_of
from circlet.backends.native.check.watched import OUTSIDE
from circlet.backends.native.load.host_answers import Host, OpenHostCall
from circlet.backends.native.load.library import thunk
from circlet.backends.native.load.manifest import Constant, Origin, Stored
from circlet.backends.native.load.store import Function
from circlet.backends.native.load.team import Teams
from circlet.backends.native.parts import (
    COUNTED_COPIES,
    EXHAUSTED,
    HOST_FAILED,
    MOST_EVIDENCE,
    Called,
    Cell,
    External,
    Held,
    Holder,
    HostCall,
    Marks,
    OpenLengths,
    RegionTimes,
    Request,
    RunNumber,
    Site,
    Staging,
    Tally,
    Told,
    TurnTimes,
    Variable,
)
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.memory import address, retype
from circlet.runtime.exec.run import Run
from circlet.runtime.ir.faults import FAULTS, located, raise_located
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.terms import value_of
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass

if TYPE_CHECKING:
    from circlet.runtime.exec.executor import Executor
    from circlet.runtime.exec.step import Step

_ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32)
"""`i32 entry(control*, arena*, table*)`, called without Python's lock. Arguments come from `byref` as they are."""
_BRIEF_TYPE = ctypes.PYFUNCTYPE(ctypes.c_int32)
"""The same, called with the lock."""
LOCKED = 1 << 19
"""The work up to which a function keeps the lock: 12 microseconds at the most. A choice. To give it up and to have it
back, where other threads want it, takes 10 to 15: eight threads that run three layers on one row took 17 us a run where
that was done, 5.9 where it was not, as long as one of them; on four rows 22 and 9, on eight 20 and 23."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What a function is bound to."""

    run: Run
    lengths: tuple[int, ...]
    """The open ones."""
    held: Callable[[int], Array | None]
    """The buffer that the frame has for a tensor."""
    constant: Callable[[Constant], Array | None]
    variable: Callable[[int, int], Tensor]
    """What is declared of a variable tensor, by subgraph and tensor."""
    executor: Callable[[int], Executor]
    """What computes operators of a subgraph with numpy."""
    located: located
    """Gives errors that have no place that of the function."""


class Invocation:
    """A function bound to its buffers."""

    def __init__(self, function: Function, setting: Setting, teams: Teams) -> None:
        """
        Args:
            function: stays loaded as long as this object lives.
            setting: what it is bound to.
            teams: the threads for loops that are shared out.
        """
        run, manifest = setting.run, function.manifest
        self._function = function
        self._sites = manifest.sites
        self._evidence = np.zeros(MOST_EVIDENCE, np.int64)
        self._counts = np.zeros(COUNTED_COPIES, np.int64)
        self._run = run
        self._arrays = [self._array(each, setting) for each in manifest.origins]
        self._lengths = setting.lengths
        if manifest.watched is not None:
            manifest.watched.expect([each.nbytes for each in self._arrays])
        arena, scratch = self._sizes()
        self._arena, self._scratch = self._allocated(arena), self._allocated(scratch * teams.participants)
        self._host = Host(run.watch)
        for each in manifest.host_calls:
            self._host.steps.append(self._bind_host(each, setting))
        self._host.notices.extend(partial(_warn, each, self._evidence) for each in manifest.notices)
        table = (self._scratch.ctypes.data, self._host.address, *(each.ctypes.data for each in self._arrays))
        self._table = np.array(table, np.uintp)
        self._located = setting.located
        self._control = control_of(run.watch)
        self._bind_entry(teams)

    def _sizes(self) -> tuple[int, int]:
        """The bytes to begin with of the arena, and of the memory that each thread has for itself."""
        manifest = self._function.manifest
        return manifest.arena_bytes(self._lengths), value_of(manifest.scratch_bytes, self._lengths)

    def _allocated(self, size: int) -> Array:
        """Memory of the function's own, of so many bytes."""
        return self._run.room.allocate((size,), np.dtype(np.uint8), is_sparse=self._function.manifest.grows)

    def _bind_entry(self, teams: Teams) -> None:
        """Binds the entry to the arena and the table."""
        self._enter: Callable[[], int] = self._entry(
            teams, value_of(self._function.manifest.work, self._lengths) <= LOCKED)

    def _entry(self, teams: Teams, keeps_lock: bool) -> Callable[[], int]:
        """What enters the function, on the arena and the table that there are, with Python's lock or without."""
        manifest, address = self._function.manifest, self._function.library.address
        memory = [each.ctypes.data for each in (self._arena, self._table)]
        found = thunk(address, (self._control.address, *memory)) if manifest.is_brief else None
        alone: Callable[[], int]
        if found is None:
            entry = (_BRIEF_TYPE if keeps_lock or manifest.is_brief else _ENTRY_TYPE)(address)
            places = (ctypes.byref(ctypes.c_char.from_address(each)) for each in memory)
            alone = partial(entry, ctypes.byref(self._control), *places)
        else:
            alone = _BRIEF_TYPE(found.address)
        # What the code uses must stay as long as what enters it, which steps may be.
        alone.uses = (  # type: ignore[union-attr]
            found, self._control, self._function, self._arrays, self._arena, self._scratch, self._table, self._host)
        is_shared = teams.participants > 1 and manifest.shares_loops
        return partial(self._with_team, alone, teams) if is_shared else alone

    def places(self, tensor: int) -> list[int]:
        """Where in the table the code finds the address of a tensor's memory."""
        return [FIRST_ARRAY + number for number, each in enumerate(self._function.manifest.origins)
                if isinstance(each, Held) and each.tensor == tensor]

    def move(self, places: Sequence[int], array: Array) -> None:
        """Has the code find other memory there, as large and of the same elements."""
        self._table[places] = address(array)

    @property
    def _is_infallible(self) -> bool:
        """Whether there is nothing that the function could fail at, nor does it ask whether to go on."""
        manifest = self._function.manifest
        return manifest.is_brief and not manifest.sites and manifest.watched is None

    def step(self) -> Step:
        """What runs the function once, as long as memory stays where it is."""
        enter, fail = self._enter, self._fail
        if self._is_infallible:
            return enter

        def step() -> None:
            status = enter()
            if status != DONE:
                fail(status)

        return step

    def _with_team(self, enter: Callable[[], int], teams: Teams) -> int:
        """Enters a function that shares out loops, with the team that the run has or one that is idle."""
        control = self._control
        if control.team:
            return enter()
        team = teams.take()
        control.team = team.address
        try:
            return enter()
        finally:
            control.team = 0
            teams.give(team)

    def _fail(self, status: int) -> NoReturn:
        """Raises what a status other than `DONE` stands for, with the place of the function's first operator if there
        is none more exact."""
        with self._located:
            self._raise(status)

    def _raise(self, status: int) -> NoReturn:
        error = self._host.take_error()
        if status == STOPPED:
            if error is not None:
                raise error
            self._run.watch.stopped()
        watched = self._function.manifest.watched
        if status == OUTSIDE and watched is not None:
            raise watched.error(self._evidence.tolist())
        site: Site = self._sites[status - FIRST_SITE]
        if site.message == EXHAUSTED:
            raise_located(self._run.watch.exhausted(), site.place)
        if site.message == HOST_FAILED and error is not None:
            if isinstance(error, FAULTS):
                raise_located(error, site.place)
            raise error
        message = _message(site, self._evidence)
        for each in self._function.manifest.quotes:
            message = message.replace(each.text, str(value_of(each.terms, self._all_lengths())))
        raise ExecutionError(message, site.place)

    def _all_lengths(self) -> Sequence[int]:
        """The open lengths, and those that the function computed."""
        memory = (array for array, each in zip(self._arrays, self._function.manifest.origins, strict=True)
                  if isinstance(each, OpenLengths))
        return next((each.tolist() for each in memory), self._lengths)

    def _array(self, origin: Origin, setting: Setting) -> Array:
        """The memory that an address of the table stands for."""
        array: Array | None
        if isinstance(origin, Held):
            array = setting.held(origin.tensor)
        elif isinstance(origin, Constant):
            array = setting.constant(origin)
        elif isinstance(origin, Stored):
            array = self._function.constants[origin.offset:origin.offset + origin.size]
        elif isinstance(origin, Tally):
            array = self._counts = np.zeros(COUNTED_COPIES + origin.subgraphs, np.int64)
        elif isinstance(origin, (RegionTimes, TurnTimes)):
            array = self._times(origin)
        elif isinstance(origin, OpenLengths):
            array = np.zeros(origin.count, np.int64)
            array[:len(setting.lengths)] = setting.lengths
        elif isinstance(origin, Request):
            array = np.zeros(origin.words, np.int64)
        else:
            array = _state(origin, setting)
            if array is None:
                array = self._evidence
        assert array is not None, f"{origin} has no memory"
        return array

    def _times(self, origin: RegionTimes | TurnTimes) -> Array:
        """The memory in which the function leaves times."""
        raise AssertionError("functions that are timed are bound as TimedInvocation")

    def _bind_host(self, call: HostCall, setting: Setting) -> Step:
        """The numpy kernel of an operator on the buffers of a host call."""
        executor = setting.executor(call.subgraph)
        if call.request >= 0:
            return OpenHostCall(call, self._arrays[call.request], executor, setting.run)
        inputs = [None if each is None else self._buffer(each) for each in call.inputs]
        outputs = [self._buffer(each) for each in call.outputs]
        return executor.bind(call.operator, inputs, outputs, setting.run)

    def _buffer(self, place: External | Staging | Told) -> Array:
        """The array of an operand or a result of a host call at fixed shapes."""
        assert not isinstance(place, Told), "lengths are fixed"
        dtype = place.dtype.numpy
        if isinstance(place, External):
            return retype(self._arrays[place.number], place.shape, dtype)
        return retype(self._arena[place.offset:place.offset + prod(place.shape) * dtype.itemsize], place.shape, dtype)


def _message(site: Site, evidence: Array) -> str:
    """The message of a site, with the numbers that the code gave as evidence."""
    numbers = evidence[:site.numbers].tolist()
    return site.message.format(*numbers) if numbers else site.message


def _warn(notice: Site, evidence: Array) -> None:
    warnings.warn(_message(notice, evidence), stacklevel=2)


def _state(origin: Origin, setting: Setting) -> Array | None:
    """The memory that an address of the table stands for, if it outlives the run."""
    variables = setting.run.variables
    if isinstance(origin, Variable):
        declared = setting.variable(origin.subgraph, origin.tensor)
        return variables.tensor(origin.subgraph, origin.tensor, declared)
    if isinstance(origin, Cell):
        return variables.cell(origin.handle, origin.shape, origin.dtype).halves[origin.half]
    if isinstance(origin, Marks):
        return variables.cell(origin.handle, origin.shape, origin.dtype).marks
    if isinstance(origin, Holder):
        return variables.holder(origin.handle)
    if isinstance(origin, RunNumber):
        return variables.number
    return variables.called(origin.subgraph) if isinstance(origin, Called) else None


class CountedInvocation(Invocation):
    """A function that counts what it does, for a listener."""

    def step(self) -> Step:
        return self.counting(super().step())

    def counting(self, uncounted: Step) -> Step:
        """A step that tells what it has counted."""
        def step() -> None:
            self._counts[:] = 0
            try:
                uncounted()
            finally:
                copies, size, *invocations = self._counts.tolist()
                found = {subgraph: number for subgraph, number in enumerate(invocations) if number}
                self._run.observer.did_count(found, copies, size)

        return step
