"""The machine that this process runs on. Nothing here loads LLVM."""

from __future__ import annotations

import os
import platform
import time
from functools import lru_cache
from pathlib import Path

CLOCK: int | None = getattr(time, "CLOCK_UPTIME_RAW", getattr(time, "CLOCK_MONOTONIC", None))
"""The number by which the system's `clock_gettime` knows the clock of `time.monotonic_ns`; None where it has none."""

_TELLING = ("model name", "flags", "Features", "CPU implementer", "CPU part", "isa")
"""The lines of `/proc/cpuinfo` that tell processors apart."""


@lru_cache(1)
def identity() -> str:
    """What tells machines apart that need different code."""
    parts = [platform.system(), platform.machine()]
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
    except OSError:
        first = f"{platform.platform()} {platform.processor()}"
    parts += [line for line in first.splitlines() if line.startswith(_TELLING)] or [first]
    return "\n".join(parts)


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
