"""The machine that this process runs on. Nothing here loads LLVM."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from functools import lru_cache
from pathlib import Path

CLOCK: int | None = getattr(time, "CLOCK_UPTIME_RAW", getattr(time, "CLOCK_MONOTONIC", None))
"""The number by which the system's `clock_gettime` knows the clock of `time.monotonic_ns`; None where it has none."""

_TELLING = ("model name", "flags", "Features", "CPU implementer", "CPU part", "isa")
"""The lines of `/proc/cpuinfo` that tell processors apart."""


_ARCH_PRCTL, _REQUEST, _MATRICES = 158, 0x1023, 18
"""Linux's number of the system call on x86-64; ARCH_REQ_XCOMP_PERM of `asm/prctl.h`; XFEATURE_XTILEDATA."""
MATRICES = "matrices"
"""The line of `identity` that says that this process may use registers of matrices."""


def _may_use_matrices(flags: str) -> bool:
    """Whether this process may use AMX, for which it asks ("Using XSTATE features in user space applications", in the
    documentation of Linux); without it an instruction of AMX ends the process."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or "amx_int8" not in flags:
        return False
    try:
        call = ctypes.pythonapi["syscall"]
    except AttributeError:
        return False
    call.restype, call.argtypes = ctypes.c_long, (ctypes.c_long,) * 3
    return bool(call(_ARCH_PRCTL, _REQUEST, _MATRICES) == 0)


@lru_cache(1)
def identity() -> str:
    """What tells machines apart that need different code."""
    parts = [platform.system(), platform.machine()]
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
    except OSError:
        first = f"{platform.platform()} {platform.processor()}"
    parts += [line for line in first.splitlines() if line.startswith(_TELLING)] or [first]
    parts += [MATRICES] * _may_use_matrices(first)
    return "\n".join(parts)


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def has_matrices() -> bool:
    """Whether this process may use registers of matrices."""
    return identity().endswith(f"\n{MATRICES}")
