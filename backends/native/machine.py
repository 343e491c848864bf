"""The processor that code is made for. Nothing here loads LLVM."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

CLOCK: int | None = getattr(time, "CLOCK_UPTIME_RAW", getattr(time, "CLOCK_MONOTONIC", None))
"""The number by which the system's `clock_gettime` knows the clock of `time.monotonic_ns`; None where it has none."""


@dataclass(frozen=True)
class Target:
    """A processor.

    Attributes:
        triple: LLVM's name of architecture and system.
        cpu: LLVM's name of the processor.
        features: LLVM's feature string, `+avx2,-avx512f,...`.
        data_layout: LLVM's description of how values lie in memory. Code made without it can be wrong, or none.
    """

    triple: str
    cpu: str
    features: str
    data_layout: str

    def has(self, feature: str) -> bool:
        """Whether the processor has a feature, by LLVM's name of it."""
        return f"+{feature}" in self.features.split(",")

    @property
    def vector_bytes(self) -> int:
        """The width of the widest vector register."""
        if self.has("avx512f"):
            return 64
        return 32 if self.has("avx2") else 16

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.has("avx512f") or self.triple.startswith(("aarch64", "arm64")) else 16


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
