"""What the lowering of a function collects beside the code: places that can fail, host calls, buffers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from circlet.runtime.errors import Place
from circlet.runtime.ir.types import Array, DType, Shape

DONE, STOPPED, EXHAUSTED, FIRST_SITE = 0, 1, 2, 16
"""What the function returns: it is done, was told to stop, used up its iterations, or failed at site `k - 16`."""
MOST_EVIDENCE = 32
EMBEDDED_BYTES = 64
"""Constants up to this size are part of the code."""


class Unlowerable(Exception):
    """The operators cannot be made native code; the message says why."""


@dataclass(frozen=True)
class Site:
    """A place that can fail, and the message if it does."""

    place: Place
    message: str
    """With a `{}` for each number that the code gives as evidence."""
    numbers: int = 0


@dataclass(frozen=True)
class Staging:
    """A part of the arena through which a tensor passes between native code and the host."""

    offset: int
    shape: Shape
    dtype: DType


@dataclass(frozen=True, eq=False)
class HostCall:
    """An operator computed by a numpy kernel in the midst of native code.

    Arrays outside the arena are passed as they are, everything else through staging buffers.
    """

    subgraph: int
    operator: int
    inputs: tuple[Array | Staging | None, ...]
    outputs: tuple[Array | Staging, ...]


@dataclass
class Program:
    """What the lowering of a function collects beside the code."""

    sites: list[Site] = field(default_factory=list)
    host_calls: list[HostCall] = field(default_factory=list)
    externals: list[Array] = field(default_factory=list)
    arena_bytes: int = 0
    evidence: Array = field(default_factory=lambda: np.zeros(MOST_EVIDENCE, np.int64))
    """Where the code leaves the numbers that a message about a failure quotes."""
    outline: list[str] = field(default_factory=list)
    """What was emitted, a line an operator, for people to read."""
