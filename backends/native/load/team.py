"""Teams: the threads that help one run of native code."""

from __future__ import annotations

import ctypes
import os
import time
import weakref
from functools import lru_cache

import numpy as np

from circlet.backends.native.load.artifact import Artifact
from circlet.backends.native.load.cache import LARGEST
from circlet.backends.native.load.fingerprint import digest, installation, toolchain
from circlet.backends.native.load.library import Library
from circlet.backends.native.load.manifest import Manifest
from circlet.backends.native.load.store import keep, kept, stored
from circlet.backends.native.targets.machine import processors
from circlet.backends.platform import Feature, current
from circlet.runtime.exec.memory import allocate
from circlet.runtime.ir.types import Array
from circlet.runtime.late import LOADING

_STOP = 3
"""The word of a team's memory that says where `void stop(team)` is, which ends its workers."""
_SPIN_TIME = 200_000
"""Nanoseconds that a worker looks for work before it sleeps, 200 microseconds: as long as a program may take between
two runs. A choice."""
_HEAD, _SHARE = 768, 128
"""Bytes of a team and of each participant in `%Team` of `workers.py`: multiples of 128, two cache lines, which some
processors fetch together, so that words that different threads write are never in one pair."""
_MOST = 256
"""Threads of a team; more help nobody: a choice, which bounds what a caller may ask for."""


@lru_cache(1)
def _library() -> Library:
    """The code of workers, from the disk or compiled."""
    key = digest(installation(), "team").hex()
    return (stored(key) or keep(key, _made())).library


def _made() -> Artifact:
    """The code of workers, from the disk, where an installation of the same content left it, or compiled."""
    key = digest(toolchain(), "team").hex()
    found = kept(key, LARGEST)
    if found is None:
        found = _compiled()
        keep(key, found)
    return found


def _compiled() -> Artifact:
    """The code of workers."""
    # LLVM takes its time to load: only where it is needed.
    with LOADING:
        from circlet.backends.native.load.llvm import host, object_code
        from circlet.backends.native.load.workers import team_module
        from circlet.backends.native.lower.pieces import Piece

    code = object_code(Piece(team_module(host(), time.CLOCK_MONOTONIC)), host())
    return Artifact((code,), Manifest(), np.empty(0, np.uint8))


class Team:
    """The caller and some workers, which end when the object does, or the program. A run that the program's end finds
    in native code goes on alone, in memory that the object keeps."""

    def __init__(self, participants: int) -> None:
        self._library = _library()
        self._memory = allocate((_HEAD + participants * _SHARE,), np.dtype(np.uint8))
        self._memory[:] = 0
        self._process = os.getpid()
        self.address: int = self._memory.ctypes.data
        """Where native code finds it."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        start = kind(self._library.address)
        start(self.address, participants, _SPIN_TIME if participants <= processors() else 0)
        weakref.finalize(self, _stop, self._library, self._memory, self._process)

    @property
    def is_here(self) -> bool:
        """Whether its workers are in this process: a process that forks does not hand on its threads."""
        return self._process == os.getpid()


def _stop(library: Library, memory: Array, process: int) -> None:
    """Ends the workers of a process, if it is this one; the library is needed until then."""
    if process == os.getpid():
        stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(int(memory.view(np.uint64)[_STOP]))
        stop(memory.ctypes.data)


class Teams:
    """The teams of a session: as many as it has runs at a time, each kept for the next run.

    Attributes:
        participants: how many threads a run uses, its caller's among them.
    """

    def __init__(self, participants: int) -> None:
        self.participants = min(participants, _MOST) if current().has(Feature.THREADS) else 1
        self._idle: list[Team] = []

    def take(self) -> Team:
        """A team for a run, to be given back after it."""
        try:
            team = self._idle.pop()
        except IndexError:
            return Team(self.participants)
        return team if team.is_here else self.take()

    def give(self, team: Team) -> None:
        """Keeps a team for the next run."""
        self._idle.append(team)

    def close(self) -> None:
        """Ends the teams that no run has."""
        self._idle.clear()
