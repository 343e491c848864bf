"""A compiled function bound to the buffers of a frame."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from circlet.backends.native.abi import DONE, FIRST_SITE, STOPPED, control_of
from circlet.backends.native.check.bounds import OUTSIDE
from circlet.backends.native.load.host_answers import Host
from circlet.backends.native.load.manifest import Constant, Origin, Stored
from circlet.backends.native.load.store import Function
from circlet.backends.native.load.team import Teams
from circlet.backends.native.program import (
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
    Site,
    Staging,
    Tally,
    Variable,
)
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Span
from circlet.runtime.exec.memory import retype
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.faults import FAULTS, raise_located
from circlet.runtime.ir.types import Array

_ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Invocation:
    """A function bound to its buffers."""

    def __init__(self, executors: ExecutorMap, function: Function, span: Span, teams: Teams) -> None:
        """
        Args:
            executors: bind host calls.
            function: stays loaded as long as this object lives.
            span: what the function was compiled from, with the buffers to use.
            teams: the threads for loops that are shared out.
        """
        run, manifest = span.run, function.manifest
        self._function = function
        self._sites = manifest.sites
        self._evidence = np.zeros(MOST_EVIDENCE, np.int64)
        self._counts = np.zeros(COUNTED_COPIES, np.int64)
        self._run = run
        self._arrays = [self._array(executors, each, span) for each in manifest.origins]
        self._arena = run.room.allocate((manifest.arena_bytes,), np.dtype(np.uint8))
        if manifest.watched is not None:
            manifest.watched.expect([each.nbytes for each in self._arrays])
        self._scratch = run.room.allocate((manifest.scratch_bytes * teams.participants,), np.dtype(np.uint8))
        self._host = Host(run.watch)
        for each in manifest.host_calls:
            self._host.steps.append(self._bind_host(executors, each))
        table = (self._scratch.ctypes.data, self._host.address, *(each.ctypes.data for each in self._arrays))
        self._table = np.array(table, np.uintp)
        entry = _ENTRY_TYPE(function.library.address)
        self._control = control_of(run.watch)
        memory = (self._arena.ctypes.data, self._table.ctypes.data)
        alone: Callable[[], int] = partial(entry, self._control.address, *memory)
        is_shared = teams.participants > 1 and manifest.shares_loops
        self._enter = partial(self._with_team, alone, teams) if is_shared else alone

    def __call__(self) -> None:
        status = self._enter()
        if status != DONE:
            self._fail(status)

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

    def _fail(self, status: int) -> None:
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
        evidence = self._evidence[:site.numbers].tolist()
        raise ExecutionError(site.message.format(*evidence) if evidence else site.message, site.place)

    def _array(self, executors: ExecutorMap, origin: Origin, span: Span) -> Array:
        """The memory that an address of the table stands for."""
        if isinstance(origin, Held):
            array = span.arrays[origin.tensor]
        elif isinstance(origin, Variable):
            declared = executors.model.subgraphs[origin.subgraph].tensors[origin.tensor]
            array = span.run.variables.tensor(origin.subgraph, origin.tensor, declared)
        elif isinstance(origin, Cell):
            array = span.run.variables.cell(origin.handle, origin.shape, origin.dtype)
        elif isinstance(origin, Holder):
            array = span.run.variables.holder(origin.handle)
        elif isinstance(origin, Called):
            array = span.run.variables.called(origin.subgraph)
        elif isinstance(origin, Constant):
            array = executors.model.subgraphs[origin.subgraph].tensors[origin.tensor].data
        elif isinstance(origin, Stored):
            array = self._function.constants[origin.offset:origin.offset + origin.size]
        elif isinstance(origin, Tally):
            array = self._counts = np.zeros(COUNTED_COPIES + origin.subgraphs, np.int64)
        else:
            array = self._evidence
        assert array is not None, f"{origin} has no memory"
        return array

    def _bind_host(self, executors: ExecutorMap, call: HostCall) -> Step:
        """The numpy kernel of an operator on the buffers of a host call."""
        inputs = [None if each is None else self._buffer(each) for each in call.inputs]
        outputs = [self._buffer(each) for each in call.outputs]
        return executors[call.subgraph].bind(call.operator, inputs, outputs, self._run)

    def _buffer(self, place: External | Staging) -> Array:
        dtype = place.dtype.numpy
        if isinstance(place, External):
            return retype(self._arrays[place.number], place.shape, dtype)
        return retype(self._arena[place.offset:place.offset + prod(place.shape) * dtype.itemsize], place.shape, dtype)


class CountedInvocation(Invocation):
    """A function that counts what it does, for a listener."""

    def __call__(self) -> None:
        self._counts[:] = 0
        try:
            super().__call__()
        finally:
            copies, size, *invocations = self._counts.tolist()
            found = {subgraph: number for subgraph, number in enumerate(invocations) if number}
            self._run.observer.did_count(found, copies, size)
